# SPDX-License-Identifier: Apache-2.0
"""Variations of inputs: one word is left out, doubled, replaced by a difficult value, or ends the
input

A fuzzer changes bytes, and rarely finds a whole word that has a meaning at its place: the number of
steps of a job as four thousand millions, a character that JSON writes as \\u0000. Words are found
in all inputs in the same way, whether they are JSON, a file, lines, or strings with NULs between
them.
"""

import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = ("agent/*.c", "cli/*.c", "common/*/*.c", "tests/fuzz/*.c", "proto/drover/v1/*.proto")
LITERAL = re.compile(rb'"((?:[^"\\\n]|\\.)*)"')
WORD_MAX = 40  # bytes
NAME = re.compile(rb"\b[a-z][a-z0-9_]{1,40}(?= =)")  # a field of a message
WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.+-]+|[^\x00-\x7f]+|[\x00\n]')

NUMBERS = (
    b"0 1 2 3 -1 00 01 255 256 65535 65536 123456789 2147483647 2147483648 -2147483649"
    b" 4294967295 4294967296 9223372036854775807 9223372036854775808 -9223372036854775808"
    b" 18446744073709551615 18446744073709551616 0.5 -0.5 1.5 1e3 1e300 1e400 nan inf -inf 0x10"
    b" 1s 1500ms 10d 9999999999d"
).split()
JSON = (
    b'true false null [] {} [1] {"a":1} [[]] [null] [{}] "" "\\u0000" "\\u0080" "\\u001b"'
    b' "\\ud83d\\ude00"'
    b' "\\ud800" {"json":1} {"text":"x"} {"data":"aGk="} {"data":"?"} "a===" "-_-_"'
    b' {"contentType":"text/plain","data":"/w=="} {"contentType":"application/json","data":"ew=="}'
    b' {"contentType":"x","json":1} {"json":1,"text":"x"}'
).split()
BYTES = (
    b"\x01", b"\x1b", b"\x7f", b"\xff", b"\xc2", b"\xc2\x80", b"\xc2\x9f", b"\xc2\xa0",
    b"\xe2\x82\xac",
    b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x90\x80\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98\x80",
    b"a b", b"a=b", b"..", b"x" * 129, b"x" * 300, b"x" * 5000, b"\xc3\xa9" * 40,
    b"[" * 40 + b"]" * 40, b"[" * 100, b"${input.a}", b"${results.a}", b"${",
)


def words_known():
    """The words that the code compares with, and the fields of messages."""
    found = set()
    for pattern in SOURCES:
        for path in ROOT.glob(pattern):
            found.update((NAME if path.suffix == ".proto" else LITERAL).findall(path.read_bytes()))
    return sorted(w for w in found if 0 < len(w) <= WORD_MAX and b"%" not in w and b"\\" not in w)


def places(inputs):
    """The places of a word: for equal beginnings of the input and the same two words before, one
    place in one input."""
    found = {}
    for text in inputs:
        before = text[:2], b"", b""
        for word in WORD.finditer(text):
            found.setdefault((*before, word[0]), (text, word.start(), word.end()))
            before = text[:2], before[2], word[0]
    return list(found.values())


def variations(inputs, about, seed):
    """Yields about so many variations, drawn evenly, or all if there are fewer; others with each
    seed."""
    at, words = places(inputs), [*NUMBERS, *BYTES, *words_known()]
    share = about / max(1, len(at) * (3 + len(JSON) + len(words)))
    chance = random.Random(seed)
    for text, begin, end in at:
        head, word, tail = text[:begin], text[begin:end], text[end:]
        quote = b'"' if word.startswith(b'"') else b""
        put = [b"", word + word, *JSON, *(quote + other + quote for other in words)]
        for varied in (head, *(head + new + tail for new in put)):
            if chance.random() < share:
                yield varied
