# SPDX-License-Identifier: Apache-2.0
"""The schema of the store functions: what stands where in their calls and in their answers, and the
names of letters.

Reads schema.txt, which explains the notation, and then reads and writes calls and answers by it:

    schema.answer("lead", ["LEADS", "17", "5"]).until == "17"
    schema.arguments("lead", supervisor="me", lease=100) == ["me", 100]
    schema.words("history_entry", "7 1700000000000 turned D").event == "turned"
    schema.letters.STEP.PARKED == "P"

A value that may occur several times has its name in the plural: `n_alerts*alert{...}` is `alerts`.
"""

import pathlib
import re
import types
from dataclasses import dataclass

FILE = pathlib.Path(__file__).with_name("schema.txt")
VALUE = re.compile(
    r"(?:(?P<count>\w+)\*)?(?:<(?P<list>\w+)>|(?P<name>\w+))"
    r"(?:=(?P<field>\w+))?(?:\{(?P<words>[\w ]+)\})?(?P<all>\.\.\.)?(?:(?P<maybe>\?)(?P<if>\w*))?$"
)
LETTERS = re.compile(r"letters (?P<name>\w+) (?P<prefix>[A-Z]+): (?P<values>.*)")
LETTER = re.compile(r"(?P<letter>\S) (?P<name>[a-z_]+)(?: +(?P<meaning>.*))?")


@dataclass(frozen=True)
class Value:
    """A value, or several, in the notation of schema.txt."""

    name: str
    is_list: bool
    words: tuple  # the names of its words; () if it has none
    count: str  # the value that says how many there are; "..." for all to the end; "" for one
    condition: str  # the value that says whether it is there; "?": it may be missing; "": always
    field: str  # of a hash in Redis

    @property
    def plural(self):
        return re.sub("y$", "ie", re.sub("ss$", "sse", self.name)) + "s"

    @property
    def has_its_place(self):
        return not self.count and not self.condition


@dataclass(frozen=True)
class Function:
    name: str  # such as "drive" and "inspect job"
    arguments: tuple
    answer: tuple
    texts: tuple  # of both, as in the file

    @property
    def word(self):
        return self.name.replace(" ", "_")

    @property
    def kind(self):
        """The first argument of a function whose name has two words, as a list; else []."""
        return self.name.split()[1:]


@dataclass(frozen=True)
class Letter:
    name: str  # such as IN_FLIGHT
    letter: str  # "" if it is none
    meaning: str


@dataclass(frozen=True)
class Alphabet:
    """The letters that a value may be."""

    name: str
    prefix: str  # of the names
    values: str  # which values
    letters: tuple


def _alphabet(head, lines):
    found = [LETTER.fullmatch(line) for line in lines]
    if not head or not all(found):
        raise ValueError(f"{lines} are no letters")
    return Alphabet(
        *head.group("name", "prefix", "values"),
        tuple(
            Letter(one["name"].upper(), one["letter"].replace("_", ""), one["meaning"] or "")
            for one in found
        ),
    )


def _value(text):
    match = VALUE.match(text)
    if not match:
        raise ValueError(f"{text} is no value")
    name = match["list"] or match["name"]
    return Value(
        name=name,
        is_list=bool(match["list"]),
        words=tuple((match["words"] or "").split()),
        count=match["count"] or match["all"] or "",
        condition=(match["if"] or "?") if match["maybe"] else "",
        field=match["field"] or name,
    )


def _values(text):
    return tuple(_value(value) for value in re.findall(r"(?:\{[^}]*\}|\S)+", text))


def _statements(text):
    """Returns the lines of each statement, without comments. An indented line belongs to the one
    before it."""
    statements = []
    for line in text.splitlines():
        if line.startswith(" "):
            statements[-1].append(line.strip())
        elif line and line[0] != "#":
            statements.append([line])
    return statements


functions, lists, lists_text, alphabets = {}, {}, {}, {}
for _lines in _statements(FILE.read_text(encoding="utf-8")):
    _statement = " ".join(_lines)
    _function = re.match(r"([\w ]+): (.*?) ?-> (.*)$", _statement)
    if _statement.startswith("letters "):
        _one = _alphabet(LETTERS.fullmatch(_lines[0]), _lines[1:])
        alphabets[_one.prefix] = _one
    elif _function:
        _name, *_texts = _function.groups()
        functions[_name] = Function(_name, *map(_values, _texts), tuple(_texts))
    else:
        _name, _text = _statement.split(" = ", 1)
        lists[_name], lists_text[_name] = _values(_text), _text

letters = types.SimpleNamespace(
    **{
        prefix: types.SimpleNamespace(**{one.name: one.letter for one in alphabet.letters})
        for prefix, alphabet in alphabets.items()
    }
)


# ---- where values stand ----


def width(value):
    return sum(map(width, lists[value.name])) if value.is_list else 1


def places(values, place=0):
    """Yields (name, place) of each value up to the first whose place is not always the same, and
    then ("values", their number). Values that repeat to the end have the place of the first."""
    for value in values:
        if not value.has_its_place:
            if value.count == "..." and not value.is_list:
                yield value.name, place
            break
        yield value.name, place
        place += width(value)
    yield "values", place


def all_places():
    """Yields (name, places) for the arguments of each function, for each list, and for each value
    that consists of words."""
    for function in functions.values():
        yield function.word, list(places(function.arguments, len(function.kind)))
    for name, values in lists.items():
        yield name, list(places(values))
        for value in values:
            if value.words:
                n = len(value.words)
                yield value.name, [*zip(value.words, range(n)), ("values", n)]


# ---- reading ----


def _take(value, rest, out):
    """Takes one value from the beginning of the list `rest`, and stores it in the dict `out`."""
    if value.is_list:
        _take_all(lists[value.name], rest, out)
    elif value.words:
        text = rest.pop(0).split(" ")
        if len(text) != len(value.words):
            raise ValueError(f"{value.name} has the words {text}, not {value.words}")
        out.update(zip(value.words, text))
    else:
        out[value.name] = rest.pop(0)


def _one_of_several(value, rest):
    out = {}
    _take(value, rest, out)
    return types.SimpleNamespace(**out) if value.is_list or value.words else out[value.name]


def _is_there(value, rest, out):
    if value.condition == "?":
        return bool(rest)
    return not value.condition or out[value.condition] != "0"


def _take_all(values, rest, out):
    for value in values:
        if value.count == "...":
            out[value.plural] = []
            while rest:
                out[value.plural].append(_one_of_several(value, rest))
        elif value.count:
            out[value.plural] = [_one_of_several(value, rest) for _ in range(int(out[value.count]))]
        elif _is_there(value, rest, out):
            _take(value, rest, out)
        if not rest and len(out) == 1:
            break  # there is nothing to answer


def answer(function, texts):
    """Returns an answer as an object that has its values, and their words, as attributes."""
    out, rest = {}, list(texts) if isinstance(texts, list) else [texts]
    _take_all(functions[function].answer, rest, out)
    if rest:
        raise ValueError(f"{function} answers more than it should: {rest}")
    return types.SimpleNamespace(**out)


def words(name, text):
    """Returns the words of a text as an object. Missing words are None; more words are ignored."""
    names = [value.name for value in lists[name]]
    return types.SimpleNamespace(**{**dict.fromkeys(names), **dict(zip(names, text.split(" ")))})


# ---- writing ----


def values(name, /, **given):
    """Returns the values of a list in order. given: each of them, by name."""
    out = [given.pop(value.name) for value in lists[name]]
    if given:
        raise TypeError(f"{name} has no {', '.join(given)}")
    return out


def arguments(function, /, **given):
    """Returns the arguments of a function in order, up to the last that is given. given: arguments
    by name; one that is not given is ""."""
    out = list(functions[function].kind)
    end = len(out)
    for value in functions[function].arguments:
        several = given.pop(value.plural, ()) if value.count else [given.pop(value.name, None)]
        for one in several:
            out.extend(one if value.is_list else ["" if one is None else one])
            end = end if one is None else len(out)
    if given:
        raise TypeError(f"{function} has no arguments {', '.join(given)}")
    return out[:end]
