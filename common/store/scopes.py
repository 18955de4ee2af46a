# SPDX-License-Identifier: Apache-2.0
"""Checks the names of a Lua 5.1 program: luac would find too many locals or upvalues, but neither
a misspelt name nor the file that a line of the library comes from

scopes.complaints(text) yields (line, what is wrong): more locals or upvalues than a function may
have, a global that neither Redis nor Lua has, and text that is no Lua.
"""

import re

LOCALS_MAX, UPVALUES_MAX = 200, 60
GLOBALS = {
    "error", "getmetatable", "ipairs", "math", "next", "pairs", "pcall", "redis", "select",
    "setmetatable", "string", "table", "tonumber", "tostring", "type", "unpack",
}  # fmt: skip
TOKEN = re.compile(
    r"\s+|--\[(=*)\[.*?\]\1\]|--[^\n]*|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>0x[\da-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?)"
    r"|(?P<string>'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<sign>\.\.\.|\.\.|[=~<>]=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
OPERATORS = {"+", "-", "*", "/", "%", "^", "..", "==", "~=", "<=", ">=", "<", ">", "and", "or"}
ENDS = {"end", "else", "elseif", "until", ""}


class Wrong(Exception):
    """(line, what is wrong)"""


def tokens(text):
    """Yields (text, kind, line) of each token; the last is ("", "", line)."""
    at, line = 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Wrong(line, f"{text[at]!r} is no Lua")
        if match.lastgroup:
            yield match[0], match.lastgroup, line
        line += match[0].count("\n")
        at = match.end()
    yield "", "", line


class Function:
    def __init__(self, parent, line):
        self.parent, self.line = parent, line
        self.locals, self.most = [], 0
        self.upvalues = set()

    def declare(self, name):
        self.locals.append(name)
        self.most = max(self.most, len(self.locals))


class Program:
    def __init__(self, text):
        self.tokens = list(tokens(text))
        self.at = 0
        self.wrong = []
        self.function = Function(None, 1)
        self.block()
        if self.text:
            raise Wrong(self.line, f"{self.text} ends nothing")

    text = property(lambda self: self.tokens[self.at][0])
    kind = property(lambda self: self.tokens[self.at][1])
    line = property(lambda self: self.tokens[self.at][2])

    # ---- tokens ----

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1][0]

    def accept(self, text):
        found = self.text == text and self.kind != "string"
        self.at += found
        return found

    def expect(self, text):
        if not self.accept(text):
            raise Wrong(self.line, f"{text} is missing before {self.text}")

    # ---- names ----

    def use(self, name, line):
        inner, function = [], self.function
        while function and name not in function.locals:
            inner.append(function)
            function = function.parent
        if function:
            for other in inner:
                other.upvalues.add(name)
        elif name not in GLOBALS:
            self.wrong.append((line, f"{name} is not declared"))

    def scope(self, *names):
        """Parses a block in which these names are local."""
        before = len(self.function.locals)
        for name in names:
            self.function.declare(name)
        self.block()
        del self.function.locals[before:]

    def limit(self, function, what, n, most):
        if n > most:
            self.wrong.append((function.line, f"this function has {n} {what}; Lua allows {most}"))

    def body(self):
        """Parses a function from its parameters on."""
        function = self.function = Function(self.function, self.line)
        self.expect("(")
        while not self.accept(")"):
            name = self.next()
            if name not in ("...", ","):
                function.declare(name)
        self.block()
        self.expect("end")
        self.limit(function, "locals", function.most, LOCALS_MAX)
        self.limit(function, "upvalues", len(function.upvalues), UPVALUES_MAX)
        self.function = function.parent

    # ---- statements ----

    def block(self):
        while self.text not in ENDS:
            self.statement()
            self.accept(";")
        most = self.function.most
        if not self.function.parent and most > LOCALS_MAX:
            self.wrong.append((self.line, f"there are {most} locals here; Lua allows {LOCALS_MAX}"))
            self.function.most = 0

    def names(self):
        out = [self.next()]
        while self.accept(","):
            out.append(self.next())
        return out

    def statement(self):
        method = getattr(self, f"_{self.text}", None) if self.kind == "name" else None
        if method:
            self.next()
            method()
        else:
            self.suffixed()
            while self.accept(","):
                self.suffixed()
            if self.accept("="):
                self.list()

    def _do(self):
        self.scope()
        self.expect("end")

    def _while(self):
        self.expression()
        self.expect("do")
        self._do()

    def _repeat(self):
        before = len(self.function.locals)
        self.block()
        self.expect("until")
        self.expression()
        del self.function.locals[before:]

    def _if(self):
        self.expression()
        self.expect("then")
        self.scope()
        if self.accept("elseif"):
            self._if()
        elif self.accept("else"):
            self._do()
        else:
            self.expect("end")

    def _for(self):
        names = self.names()
        if not self.accept("="):
            self.expect("in")
        self.list()
        self.expect("do")
        self.scope(*names)
        self.expect("end")

    def _function(self):
        self.use(self.next(), self.line)
        while self.accept("."):
            self.next()
        self.body()

    def _local(self):
        if self.accept("function"):
            self.function.declare(self.next())
            self.body()
            return
        names = self.names()
        if self.accept("="):
            self.list()
        for name in names:
            self.function.declare(name)

    def _return(self):
        if self.text not in ENDS and self.text != ";":
            self.list()

    def _break(self):
        pass

    # ---- expressions ----

    def list(self):
        self.expression()
        while self.accept(","):
            self.expression()

    def expression(self):
        while self.accept("not") or self.accept("-") or self.accept("#"):
            pass
        self.operand()
        if self.text in OPERATORS and self.kind != "string":
            self.next()
            self.expression()

    def operand(self):
        if self.kind in ("number", "string") or self.text in ("nil", "true", "false", "..."):
            self.next()
        elif self.text == "{":
            self.table()
        elif self.accept("function"):
            self.body()
        else:
            self.suffixed()

    def suffixed(self):
        if self.accept("("):
            self.expression()
            self.expect(")")
        elif self.kind == "name":
            self.use(self.text, self.line)
            self.next()
        else:
            raise Wrong(self.line, f"{self.text} stands where it cannot")
        while self.suffix():
            pass

    def suffix(self):
        if self.accept("."):
            self.next()
        elif self.accept("["):
            self.expression()
            self.expect("]")
        elif self.accept(":"):
            self.next()
            self.arguments()
        elif self.text in ("(", "{") or self.kind == "string":
            self.arguments()
        else:
            return False
        return True

    def arguments(self):
        if self.kind == "string":
            self.next()
        elif self.text == "{":
            self.table()
        else:
            self.expect("(")
            if not self.accept(")"):
                self.list()
                self.expect(")")

    def table(self):
        self.expect("{")
        while not self.accept("}"):
            if self.accept("["):
                self.expression()
                self.expect("]")
                self.expect("=")
            elif self.kind == "name" and self.tokens[self.at + 1][0] == "=":
                self.at += 2
            self.expression()
            if self.text != "}" and not self.accept(",") and not self.accept(";"):
                raise Wrong(self.line, f", is missing before {self.text}")


def complaints(text):
    try:
        yield from Program(text).wrong
    except Wrong as wrong:
        yield wrong.args
