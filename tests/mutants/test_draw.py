# SPDX-License-Identifier: Apache-2.0
"""Which mutants draw.py makes of a source, and what it does not change"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import draw
import equivalent
import tap

C = r"""// SPDX, 1 + 2
#include <a1.h>
#define ROOM 7 /* and 8 */
/* 1 < 2 && return 3; */
static const int table[32] = {9};

static bool work(struct a *a, char *text)
{
    int n = a->left - 1;

    assert(n >= 0);
    log_info("event", LOG_I("n", n + 1));
    for (size_t i = 0; i < ROOM; i++) {
        if (text[i] == '0' && n)
            continue;
        a->name = "1 + 2; return 0;";
        free(text); // not 3
    }
    return a->left * 2 > n;
}
"""
C_OPERATORS = {
    "comparison": [("<", "<="), ("<", ">="), ("==", "!="), (">", "<="), (">", ">=")],
    "arithmetic": [("*", "/"), ("++", "--"), ("-", "+")],
    "logic": [("&&", "||")],
    "jump": [("continue", "(void)0"), ("continue", "break")],
    "condition": [("(text[i] == '0' && n)", "(!(text[i] == '0' && n))")],
    "constant": [("0", "1"), ("1", "2"), ("2", "3"), ("7", "8"), ("9", "10")],
    "return": [("a->left * 2 > n", "!(a->left * 2 > n)"), ("a->left * 2 > n", "0")],
    "statement": [('a->name = "1 + 2; return 0;"', "(void)0"), ("free(text)", "(void)0")],
}

LUA = r"""#!lua name=x1
-- 1 + 2
--[[ if a == 1 then
return 2 ]]
local LIMIT = 5 -- and 6
local function work(job, names)
  for i = 1, #names do
    if job.n >= LIMIT and names[i] then
      break
    end
    job.text = 'return 3' ..
      name_of(job, "4")
    add(job, {
      name = i,
    })
    job.n, job.text = n, nil
    drop(job)
    names = {}
  end
  return function(more)
    if more then
      return false
    end
    return job
  end
end
"""
LUA_OPERATORS = {
    "comparison": [(">=", "<"), (">=", ">")],
    "logic": [("and", "or")],
    "jump": [("break", "")],
    "condition": [("job.n >= LIMIT and names[i]", "not (job.n >= LIMIT and names[i])"),
                  ("more", "not (more)")],
    "constant": [("1", "2"), ("5", "6")],
    "return": [
        ("false", "true"),
        ("function(more)\n    if more then\n      return false\n    end\n    return job\n  end",
         "nil"),
        ("job", "nil"),
    ],
    "statement": [
        ("add(job, {\n      name = i,\n    })", ""),
        ("drop(job)", ""),
        ("job.n, job.text = n, nil", ""),
        ("job.text = 'return 3' ..\n      name_of(job, \"4\")", ""),
        ("names = {}", ""),
    ],
}


def found(path, text):
    """Operator -> what it changes, and into what."""
    by_operator = {}
    for mutant in draw.draw({path: text}, 1):
        change = (text[mutant.start:mutant.end], mutant.text)
        by_operator.setdefault(mutant.operator, []).append(change)
    return {operator: sorted(changes) for operator, changes in by_operator.items()}


class Draw(unittest.TestCase):
    maxDiff = None

    def test_operators_on_c(self):
        self.assertEqual(found("x.c", C), C_OPERATORS)

    def test_operators_on_lua(self):
        self.assertEqual(found("x.lua", LUA), LUA_OPERATORS)

    def test_the_operators_are_listed(self):
        listed = re.findall(r"^    (\w+) ", draw.__doc__, re.M)
        self.assertEqual(set(C_OPERATORS) | set(LUA_OPERATORS), set(listed))

    def test_a_seed_decides(self):
        files = {"x.c": C, "y.lua": LUA}
        first = draw.draw(files, 1)
        self.assertEqual(first, draw.draw(dict(reversed(files.items())), 1))
        self.assertNotEqual(first, draw.draw(files, 2))
        self.assertEqual(sorted(first), sorted(draw.draw(files, 2)))

    def test_no_line_moves(self):
        for path, text in {"x.c": C, "y.lua": LUA}.items():
            for mutant in draw.draw({path: text}, 1):
                with self.subTest(mutant=mutant):
                    changed = draw.apply(mutant, text)
                    self.assertNotEqual(changed, text)
                    self.assertEqual(changed.count("\n"), text.count("\n"))
                    before = mutant.line - 1
                    self.assertEqual(changed.splitlines()[:before], text.splitlines()[:before])

    def test_names(self):
        mutant = next(m for m in draw.draw({"x.c": C}, 1) if m.text == "<=" and C[m.start] == "<")
        self.assertEqual(draw.changed(mutant, C), (
            "work", "for (size_t i = 0; i < ROOM; i++) {", "for (size_t i = 0; i <= ROOM; i++) {"))
        self.assertIn("-    for (size_t i = 0; i < ROOM; i++) {", draw.diff(mutant, C).splitlines())

    def test_equivalent_mutants_are_there(self):
        """A line that has changed takes its mutants off the list."""
        text = "".join(path.read_text() for top in ("common", "scheduler", "agent", "supervisor")
                       for path in (ROOT / top).rglob("*") if path.suffix in (".c", ".lua"))
        text = " ".join(text.split())
        for (function, before, after), reason in equivalent.EQUIVALENT.items():
            with self.subTest(function=function, after=after):
                self.assertTrue(reason)
                self.assertIn(function, text)
                self.assertIn(before, text)


if __name__ == "__main__":
    tap.main()
