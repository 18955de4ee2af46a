# SPDX-License-Identifier: Apache-2.0
"""Makes all mutants of a C or Lua source, by some small operators, in an order that a seed decides

The operators:

    comparison  < becomes <= or >=, == becomes !=, and so on
    arithmetic  + becomes -, * becomes /, += becomes -=, ++ becomes --, << becomes >>, and so on
    logic       && becomes ||, `and` becomes `or`, and the reverse
    jump        break becomes continue, or the reverse, or is left out
    condition   the condition of an if or a while is negated
    constant    an integer n becomes n + 1
    return      a returned value becomes 0 or nil, true becomes false, a condition is negated
    statement   a call or an assignment is left out

Comments, strings, characters and preprocessor lines stay as they are, except for the body of a
#define. So do assertions, which never fail, and log lines. The sources must be formatted: a binary
operator is told from others by the blanks on both sides.
"""

import bisect
import collections
import difflib
import random
import re

# The source from start to end becomes text. line: that of start, counted from 1.
Mutant = collections.namedtuple("Mutant", "path line operator start end text")
Token = collections.namedtuple("Token", "kind text start end")

LEXERS = {
    "c": re.compile(
        r"(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*define[ \t]+\w+(?:\([^)]*\))?"
        r"|^[ \t]*#(?![ \t]*define\b)(?:\\\n|[^\n])*)"
        r"|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+')"
        r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+(?![\w.])|\d[\w.]*)|(?P<word>[A-Za-z_]\w*)"
        r"|(?P<mark>>>=|<<=|->|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|\S)", re.M | re.S),
    "lua": re.compile(
        r"(?P<skip>--\[(=*)\[.*?\]\2\]|--[^\n]*|\A#[^\n]*)"
        r"|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\[(=*)\[.*?\]\4\])"
        r"|(?P<number>\d+(?![\w.])|\d[\w.]*)|(?P<word>[A-Za-z_]\w*)"
        r"|(?P<mark>\.\.\.|\.\.|[=~<>]=|\S)", re.S),
}
COMPARISONS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"]}
ARITHMETIC = {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"]}
SWAPS = {
    "c": {
        "comparison": {**COMPARISONS, "==": ["!="], "!=": ["=="]},
        "arithmetic": {**ARITHMETIC, "+=": ["-="], "-=": ["+="], "++": ["--"], "--": ["++"],
                       "<<": [">>"], ">>": ["<<"]},
        "logic": {"&&": ["||"], "||": ["&&"]},
        "jump": {"break": ["continue", "(void)0"], "continue": ["break", "(void)0"]},
    },
    "lua": {
        "comparison": {**COMPARISONS, "==": ["~="], "~=": ["=="]},
        "arithmetic": ARITHMETIC,
        "logic": {"and": ["or"], "or": ["and"]},
        "jump": {"break": [""]},
    },
}
LEFT_ALONE = re.compile(r"assert|static_assert|log_\w+|__attribute__")
CONTROL = re.compile(r"if|for|while|switch|\w*foreach\w*|HASH_ITER")
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
OPENS, CLOSES = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
LUA_OPENS = {"function", "if", "do", "repeat"}  # the blocks of for and while begin with do
LUA_CLOSES = {"end", "until"}
LUA_WORDS = LUA_OPENS | LUA_CLOSES | set(
    "for while then else elseif local return break in and or not nil true false".split())
KEYWORDS = LUA_WORDS | {"case", "goto", "sizeof"}  # a name behind which is no declaration
LUA_ENDS = {"end", "until", "else", "elseif", ";"}
LUA_GOES_ON = LUA_WORDS - {"end", "break", "nil", "true", "false"} | set("=,([{+-*/%<>.:#^") | {
    "..", "==", "~=", "<=", ">="}  # what no statement ends with
LUA_STARTS = {"then", "do", "else", "repeat"}  # after these a statement may begin in the same line
FUNCTION = {
    "c": re.compile(r"^\w[^(\n]*\b(\w+)\(", re.M),
    "lua": re.compile(r"^(?:local )?function ([\w.]+)", re.M),
}


def language_of(path):
    return "lua" if path.endswith(".lua") else "c"


class Source:
    """The tokens of a source, and of each bracket the index of the one that it belongs to."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.language = language_of(path)
        lexer = LEXERS[self.language]
        self.tokens = [Token(m.lastgroup, m.group(), *m.span()) for m in lexer.finditer(text)]
        if self.language == "lua":
            self.tokens = [token for token in self.tokens if token.kind != "skip"]
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.other, self.depth, self.bracket = {}, [], []  # bracket: the innermost around a token
        opened = []
        for i, token in enumerate(self.tokens):
            if token.kind == "mark" and token.text in CLOSES and opened:
                j = opened.pop()
                self.other[i], self.other[j] = j, i
            self.depth.append(len(opened))
            self.bracket.append(self.at(opened[-1]) if opened else "")
            if token.kind == "mark" and token.text in OPENS:
                opened.append(i)

    def at(self, i):
        """The text of a token; "" if it is a string, a comment, or not there."""
        token = self.tokens[i] if 0 <= i < len(self.tokens) else None
        return token.text if token and token.kind not in ("skip", "text") else ""

    def is_word(self, i):
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == "word"

    def is_first(self, i):
        """Whether a token is the first of its line."""
        start = self.tokens[i].start
        line = bisect.bisect(self.line_starts, start)
        return not self.text[self.line_starts[line - 1]:start].strip()

    def mutant(self, operator, first, last, text):
        """Replaces the tokens from first to last."""
        start, end = self.tokens[first].start, self.tokens[last].end
        return Mutant(self.path, bisect.bisect(self.line_starts, start), operator, start, end, text)

    def left_alone(self):
        """The indexes of the tokens that must not change."""
        found = set()
        for i in range(len(self.tokens)):
            if LEFT_ALONE.fullmatch(self.at(i)) and self.at(i + 1) == "(" and i + 1 in self.other:
                found.update(range(i, self.other[i + 1] + 1))
        return found

    # ---- operators that look at a token ----

    def is_binary(self, i):
        token = self.tokens[i]
        return self.text[token.start - 1].isspace() and self.text[token.end].isspace()

    def swaps(self, i):
        for operator, table in SWAPS[self.language].items():
            for text in table.get(self.at(i), ()):
                if operator == "jump" or self.at(i) in ("++", "--") or self.is_binary(i):
                    yield self.mutant(operator, i, i, text)

    def constants(self, i):
        number = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", self.at(i))
        is_length = self.at(i - 1) == "[" and self.at(i + 1) == "]" and (  # in a declaration
            self.is_word(i - 3) and self.at(i - 3) not in KEYWORDS or self.at(i - 3) == "*")
        if number and self.tokens[i].kind == "number" and not is_length:
            value = int(number[1], 16 if "x" in number[1].lower() else 10)
            yield self.mutant("constant", i, i, f"{value + 1}{number[2]}")

    # ---- C ----

    def c_conditions(self, i):
        if self.at(i) in ("if", "while") and i + 1 in self.other:
            last = self.other[i + 1]
            inside = self.text[self.tokens[i + 1].end:self.tokens[last].start]
            yield self.mutant("condition", i + 1, last, f"(!({inside}))")

    def c_end(self, i):
        """The index of the next semicolon that is not in brackets."""
        return next((j for j in range(i, len(self.tokens))
                     if self.at(j) == ";" and self.depth[j] == self.depth[i]), i)

    def c_returns(self, i):
        if self.at(i) != "return" or self.at(i + 1) == ";":
            return
        last = self.c_end(i) - 1
        value = self.text[self.tokens[i + 1].start:self.tokens[last].end]
        logical = COMPARISONS.keys() | {"==", "!=", "&&", "||", "!"}
        yield from self.returns(i + 1, last, value, "0", "!({})", logical)

    def returns(self, first, last, value, nothing, negated, logical):
        """A number that is returned is changed as a constant."""
        if value in ("true", "false"):
            yield self.mutant("return", first, last, "false" if value == "true" else "true")
        elif value not in (nothing, "NULL") and not re.fullmatch(r"\d\w*", value):
            yield self.mutant("return", first, last, nothing)
            if any(self.at(k) in logical for k in range(first, last + 1)):
                yield self.mutant("return", first, last, negated.format(value))

    def c_begins(self, i):
        """Whether a statement begins at token i."""
        before = i - 1
        while before >= 0 and self.tokens[before].kind == "skip":
            before -= 1
        if self.at(before) == ")":
            return bool(CONTROL.fullmatch(self.at(self.other.get(before, 0) - 1)))
        if self.at(before) == ":":
            while self.at(before) not in ("case", "default", ";", "{", "}", ""):
                before -= 1
            return self.at(before) in ("case", "default")
        return self.at(before) in (";", "{", "}", "else", "do") and self.bracket[i] == "{"

    def place(self, i, joins):
        """The index behind what begins with token i and can be assigned to, or is a call."""
        while self.at(i) in ("*", "++", "--"):
            i += 1
        if not self.is_word(i) or self.at(i) in KEYWORDS:
            return i
        i += 1
        while True:
            if self.at(i) in joins and self.is_word(i + 1):
                i += 2
            elif self.at(i) in ("(", "[") and i in self.other:
                i = self.other[i] + 1
            else:
                return i

    def c_statements(self, i):
        if not self.c_begins(i):
            return
        behind = self.place(i, (".", "->"))
        calls = self.at(behind) == ";" and self.at(behind - 1) == ")"
        counts = self.at(behind) in ("++", "--") or self.at(i) in ("++", "--")
        if behind > i and (calls or counts or self.at(behind) in ASSIGNS):
            yield self.mutant("statement", i, self.c_end(i) - 1, "(void)0")

    # ---- Lua ----

    def lua_end(self, i, ends):
        """The index of the first of these that ends what begins with token i. None: a statement
        that begins ends it, too."""
        blocks = 0
        for j in range(i, len(self.tokens)):
            word = self.at(j)
            if blocks == 0 and (word in ends or self.depth[j] < self.depth[i]):
                return j
            is_next = None in ends and j > i and self.depth[j] == self.depth[i]
            if blocks == 0 and is_next and self.lua_begins(j):
                return j
            blocks += (word in LUA_OPENS) - (word in LUA_CLOSES)
        return len(self.tokens)

    def lua_begins(self, i):
        """Whether a statement begins with token i."""
        before = self.at(i - 1)
        if before in LUA_STARTS:
            return True
        return (before not in LUA_GOES_ON and self.is_word(i) and self.is_first(i)
                and self.at(i) not in ("and", "or", "not", "then", "do"))

    def lua_first_statements(self):
        """The line and the start of each statement that is the first in its line."""
        for i, token in enumerate(self.tokens):
            if self.is_first(i) and self.lua_begins(i) and token.text not in LUA_ENDS:
                yield bisect.bisect(self.line_starts, token.start), token.start

    def lua_conditions(self, i):
        if self.at(i) in ("if", "elseif", "while"):
            last = self.lua_end(i + 1, {"then", "do"}) - 1
            inside = self.text[self.tokens[i + 1].start:self.tokens[last].end]
            yield self.mutant("condition", i + 1, last, f"not ({inside})")

    def lua_returns(self, i):
        if self.at(i) == "return" and self.at(i + 1) not in LUA_ENDS:
            last = self.lua_end(i + 1, LUA_ENDS) - 1
            value = self.text[self.tokens[i + 1].start:self.tokens[last].end]
            logical = COMPARISONS.keys() | {"==", "~=", "and", "or", "not"}
            yield from self.returns(i + 1, last, value, "nil", "not ({})", logical)

    def lua_statements(self, i):
        if not self.is_word(i) or self.at(i) in LUA_WORDS or not self.lua_begins(i):
            return
        behind = self.place(i, (".", ":"))
        while self.at(behind) == ",":
            behind = self.place(behind + 1, (".", ":"))
        if self.at(behind) == "=":
            last = self.lua_end(behind, LUA_ENDS | {None}) - 1
            yield self.mutant("statement", i, last, "")
        elif self.at(behind - 1) == ")":
            yield self.mutant("statement", i, behind - 1, "")

    def mutants(self):
        quiet = self.left_alone()
        makers = [self.swaps, self.constants] + [
            getattr(self, f"{self.language}_{name}")
            for name in ("conditions", "returns", "statements")]
        for i, token in enumerate(self.tokens):
            if i not in quiet and token.kind not in ("skip", "text"):
                for make in makers:
                    yield from make(i)


def apply(mutant, text):
    """Return: the source with the mutant. All lines keep their numbers."""
    lines = text.count("\n", mutant.start, mutant.end) - mutant.text.count("\n")
    return text[:mutant.start] + mutant.text + "\n" * lines + text[mutant.end:]


def changed(mutant, text):
    """Return: its function, and its lines before and after, joined: its name in equivalent.py."""
    heads = FUNCTION[language_of(mutant.path)].finditer(text, 0, mutant.start)
    names = [head.group(1) for head in heads]
    begin = text.rfind("\n", 0, mutant.start) + 1
    end = text.find("\n", mutant.end)
    new = apply(mutant, text)
    return (names[-1] if names else "", " ".join(text[begin:end].split()),
            " ".join(new[begin:end + len(new) - len(text)].split()))


def diff(mutant, text):
    before, after = text.splitlines(), apply(mutant, text).splitlines()
    path = mutant.path
    return "\n".join(difflib.unified_diff(before, after, path, path, n=2, lineterm=""))


def draw(files, seed):
    """Return: all mutants of the sources {path: text}, in an order that the seed decides."""
    found = [mutant for path in sorted(files) for mutant in Source(path, files[path]).mutants()]
    random.Random(seed).shuffle(found)
    return found
