#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the lints can fail: each case is a small tree and the expected output."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import circles
import columns
import layering
import spdx
import titles

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "store"))

import library
import scopes

LICENCE = "SPDX-License-Identifier: Apache-2.0"


def run(lint, files):
    """(exit code, output lines) of a lint for a tree of {path: text}."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = lint.main(["lint", root])
    return code, said.getvalue().splitlines()


class Layering(unittest.TestCase):
    def allows(self, path, *operands):
        text = "".join(f"#include {operand}\n" for operand in operands)
        self.assertEqual(run(layering, {path: text}), (0, []))

    def refuses(self, path, *operands):
        for operand in operands:
            with self.subTest(path=path, operand=operand):
                code, said = run(layering, {path: f"\n#include {operand}\n"})
                self.assertEqual(code, 1)
                self.assertEqual(len(said), 1)
                self.assertTrue(said[0].startswith(f"{path}:2: "), said[0])

    def test_base(self):
        self.allows("common/base/x.c", "<time.h>", "<sys/random.h>", "<sha2.h>", '"base/x.h"')
        self.refuses("common/base/x.c", "<uv.h>", "<jansson.h>", '"drover/v1/task.pb-c.h"')
        self.refuses("common/base/x.h", '"model/wire.h"', '"io/bus/bus.h"', '"agent/agent.h"')

    def test_model(self):
        self.allows("common/model/x.c", "<string.h>", "<jansson.h>", "<protobuf-c/protobuf-c.h>")
        self.allows("common/model/x.h", '"base/str.h"', '"model/y.h"', '"drover/v1/task.pb-c.h"')
        self.refuses("common/model/x.c", "<unistd.h>", "<fcntl.h>", "<sys/socket.h>", "<time.h>")
        self.refuses("common/model/x.c", '"base/clock.h"', '"base/log.h"', "<hiredis/hiredis.h>")
        self.refuses("common/model/x.c", '"io/store/store.h"', '"scheduler/scheduler.h"')

    def test_io(self):
        self.allows("common/io/x.c", "<uv.h>", "<time.h>", '"base/log.h"', '"model/wire.h"')
        self.allows("common/io/x.c", '"io/bus/bus.h"', '"drover/v1/task.pb-c.h"', '"generated.h"')
        self.refuses("common/io/x.c", '"agent/agent.h"', '"../../agent/agent.h"', '"client/y.h"')

    def test_client(self):
        self.allows("common/client/x.c", "<uv.h>", "<time.h>", '"base/clock.h"', '"model/wire.h"')
        self.allows("common/client/x.c", '"io/bus/bus.h"', '"client/y.h"', '"generated.h"')
        self.refuses("common/client/x.c", '"cli/cli.h"', '"agent/agent.h"', '"../../cli/cli.h"')
        for path in ("common/client/x.c", "cli/main.c"):
            self.refuses(path, '"io/daemon/driver.h"')
        self.allows("cli/main.c", '"client/y.h"')
        for path in ("agent/main.c", "scheduler/scheduler_io.c", "scheduler/scheduler.c"):
            self.refuses(path, '"client/y.h"', '"../common/client/y.h"')

    def test_machine(self):
        for path in ("scheduler/scheduler.c", "scheduler/on_reply.c", "scheduler/state.h"):
            self.allows(path, '"base/heap.h"', '"base/log.h"', '"model/wire.h"')
            self.allows(path, '"scheduler/state.h"', '"drover/v1/task.pb-c.h"', "<string.h>")
            self.refuses(path, '"base/clock.h"', '"io/bus/bus.h"', '"agent/agent.h"', "<time.h>")
            self.refuses(path, '"scheduler/scheduler_io.h"', "<uthash.h>", "<uv.h>", "<jansson.h>",
                         '"any.h"')

    def test_driver(self):
        for path in ("agent/agent_io.c", "agent/main.c", "agent/handler_http.c", "cli/watch.c"):
            role = path.split("/")[0]
            self.allows(path, "<uv.h>", "<time.h>", '"base/clock.h"', '"io/bus/bus.h"')
            self.allows(path, f'"{role}/own_io.h"', '"model/wire.h"', '"generated.h"')
            if role != "cli":
                self.allows(path, '"io/daemon/driver.h"')
            self.refuses(path, '"scheduler/scheduler.h"', '"../supervisor/supervisor_io.h"')

    def test_quotes_find_what_lies_near(self):
        tree = {"agent/agent.c": '#include "bus_io.h"\n', "agent/bus_io.h": ""}
        said = ["agent/agent.c:1: agent machine must not include agent/bus_io.h"]
        self.assertEqual(run(layering, tree), (1, said))
        tree = {"common/model/x.c": "#include <base/../io/bus/bus.h>\n"}
        said = ["common/model/x.c:1: model must not include common/io/bus/bus.h"]
        self.assertEqual(run(layering, tree), (1, said))

    def test_only_the_preprocessor_counts(self):
        self.assertEqual(
            run(
                layering,
                {
                    "common/model/x.c": "// #include <time.h>\n"
                    "/*\n#include <time.h>\n*/\n"
                    'const char *s = "/*";\n'
                    "  #  include <unistd.h> // indeed\n"
                    'const char *t = "*/";\n'
                    "#include MACRO\n"
                },
            ),
            (
                1,
                [
                    "common/model/x.c:6: model must not include unistd.h",
                    "common/model/x.c:8: cannot tell what MACRO includes",
                ],
            ),
        )

    def test_every_file_lies_in_a_layer(self):
        said = ["common/http/x.c:1: lies in no layer"]
        self.assertEqual(run(layering, {"common/http/x.c": ""}), (1, said))

    def test_an_empty_tree_proves_nothing(self):
        self.assertEqual(run(layering, {})[0], 1)
        self.assertEqual(run(spdx, {})[0], 1)


class Spdx(unittest.TestCase):
    def test_licensed(self):
        tree = {
            "a/x.c": f"// {LICENCE}\n",
            "a/x.py": f"#!/usr/bin/env python3\n# {LICENCE}\n",
            "a/x.lua": f"#!lua name=x\n-- {LICENCE}\n",
            "a/meson.build": f"# {LICENCE}\n",
            "a/x.json": "{}",
            "build/meson-private/x.c": "",
            "build/x.c": "",
            ".git/x.c": "",
        }
        self.assertEqual(run(spdx, tree), (0, []))

    def test_unlicensed(self):
        for path, text in {
            "a/x.c": f"\n// {LICENCE}\n",
            "a/x.h": f"# {LICENCE}\n",
            "a/x.proto": "",
            "a/x.py": f"#!/bin/sh\n\n# {LICENCE}\n",
            "a/x.lua": f"// {LICENCE}\n",
            "a/meson.build": "# SPDX-License-Identifier: MIT\n",
        }.items():
            with self.subTest(path=path):
                said = [f"{path}:1: must begin with {LICENCE}"]
                self.assertEqual(run(spdx, {path: text}), (1, said))


class Columns(unittest.TestCase):
    def test_longest(self):
        line = "#" * columns.MOST
        self.assertEqual(run(columns, {"dev": f"{line}\n", "tests/a/x.py": f"{line}\n"}), (0, []))

    def test_too_long(self):
        line = "/" * (columns.MOST + 1)
        said = ["cli/x.c:2: 101 columns"]
        self.assertEqual(run(columns, {"cli/x.c": f"\n{line}\n"}), (1, said))

    def test_prose(self):
        """Tables, blocks of code and single words of a page may be longer."""
        text = "x" * columns.MOST
        free = f"| {text} |\n\n    {text}\n\n```\n{text} x\n```\n\n{text}x\n"
        self.assertEqual(run(columns, {"docs/a.md": free}), (0, []))
        said = ["docs/a.md:2: 102 columns"]
        self.assertEqual(run(columns, {"docs/a.md": f"\n{text} x\n"}), (1, said))


class Titles(unittest.TestCase):
    def test_titled(self):
        text = f"// {LICENCE}\n/*\n * Slots: how many runs work at a time\n */\n"
        self.assertEqual(run(titles, {"agent/x.c": text, "tests/a/x.h": text}), (0, []))

    def test_untitled(self):
        for text in (
            f"// {LICENCE}\n#include <stdio.h>\n",
            f"// {LICENCE}\n\n/*\n * Slots\n */\n",
            f"// {LICENCE}\n/* Slots */\n",
            f"// {LICENCE}\n/*\n *\n * Slots\n */\n",
            "/*\n * Slots\n */\n",
        ):
            with self.subTest(text=text):
                said = ["agent/x.c:2: must open with a comment that has a title"]
                self.assertEqual(run(titles, {"agent/x.c": text}), (1, said))


class Circles(unittest.TestCase):
    def symbols_of(self, files):
        """The symbols of {file: C text}, compiled into a library."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(text)
                subprocess.run(["cc", "-c", name, "-o", name + ".o"], cwd=root, check=True)
            objects = [name + ".o" for name in files]
            subprocess.run(["ar", "rcs", "x.a", *objects], cwd=root, check=True)
            return circles.symbols(os.path.join(root, "x.a"))

    def calls_of(self, files):
        """The files that each file calls."""
        return circles.calls(*self.symbols_of(files))

    def test_defined_twice(self):
        one = self.symbols_of({"a.c": "int a(void) { return 1; } static int s(void) { return a(); }"
                                      "int (*p)(void) = s;"})
        other = self.symbols_of({"b.c": "int a(void) { return 2; } static int s(void) { return 3; }"
                                        "int (*q)(void) = s;"})
        self.assertEqual(circles.defined_twice([one, other]), {"a": ["a.c", "b.c"]})
        self.assertEqual(circles.defined_twice([one]), {})

    def test_one_direction(self):
        graph = self.calls_of(
            {
                "a.c": "int b(void); int c(void); int a(void) { return b() + c(); }",
                "b.c": "int c(void); int b(void) { return c(); }",
                "c.c": "int (*up)(void); int c(void) { return up(); }",
            }
        )
        self.assertEqual(graph, {"a.c": {"b.c", "c.c"}, "b.c": {"c.c"}, "c.c": set()})
        self.assertEqual(circles.circles(graph), [])

    def test_a_circle(self):
        graph = self.calls_of(
            {
                "a.c": "int b(void); int a(void) { return b(); }",
                "b.c": "int c(void); int b(void) { return c(); }",
                "c.c": "int b(void); int c(void) { return b(); }",
            }
        )
        self.assertEqual(circles.circles(graph), [["b.c", "c.c"]])


class Library(unittest.TestCase):
    """The parts of the library must agree with schema.txt."""

    def refuses(self, part, old, new, *said, place=None):
        """Changes a part. said: the complaints about it. place: the file that they name, if it is
        not the part."""
        text = (library.FOLDER / part).read_text(encoding="utf-8")
        self.assertEqual(1, text.count(old), old)
        with self.assertRaises(library.Wrong) as wrong:
            library.join({part: text.replace(old, new)})
        place = re.escape(f"common/store/{place or part}:")
        lines = str(wrong.exception).splitlines()
        self.assertEqual(set(said), {re.sub(rf"^{place}(\d+:)? ", "", line) for line in lines})

    def test_functions(self):
        self.refuses("renew.lua", "taken(p, job_id, token)", "taken(p, token, job_id)",
                     "functions.taken should have the parameters p, job_id, token")
        self.refuses("processes.lua", "lead(p, supervisor, lease)", "lead(p, ...)",
                     "functions.lead should have the parameters p, supervisor, lease",
                     "supervisor is not declared", "lease is not declared")
        self.refuses("renew.lua", "-- taken -> code\n", "-- taken -> <transition>\n",
                     'the comment of functions.taken should begin with "-- taken -> code"')
        self.refuses("registration.lua", "function functions.version(p)",
                     "local function version(p)", "no part has functions.version",
                     place="schema.txt")

    def test_commands(self):
        self.refuses("commands.lua", "commands.resolve(job, command, step, state, result)",
                     "commands.resolve(job, command, state, step, result)",
                     "commands.resolve should have the parameters "
                     "job, command, step, state, result")

    def test_loops(self):
        part = "submit.lua"
        loop = "for _, name, text in each.field(list, first) do\n    cost"
        self.refuses(part, loop, loop.replace("name, text", "text, name"),
                     "the variables of each.field should be name, text; or field")
        self.refuses(
            part, loop, loop.replace("first) do", "1) do"), "each is not declared",
            "a loop over repeated arguments is to be: for _, … in each.<list>(list, first) do",
        )

    def test_names(self):
        """A part must give the names that the head lists below it, and no name of another part."""
        self.refuses("save.lua", "function save(job, by)", "local function save(job, by)",
                     "save is missing, which head.lua lists as given")
        self.refuses("clock.lua", "function lease_end(", "function save(",
                     "save belongs to save.lua",
                     "lease_end is missing, which head.lua lists as given")
        self.refuses("clock.lua", "local clock = read_clock(p)\n  local seen",
                     "local clock = read(p)\n  local seen", "read is not declared")

    def test_letters(self):
        """A name that no letter has is refused, with its line. In a string or comment it stays."""
        part, code = "renew.lua", "rec.state ~= STEP.IN_FLIGHT then\n"
        text = (library.FOLDER / part).read_text(encoding="utf-8")
        line = text.count("\n", 0, text.index(code)) + 1
        for name in ("STEP.FLYING", "STEP.in_flight", "STATE.IN_FLIGHT"):
            with self.assertRaises(library.Wrong) as wrong:
                library.join({part: text.replace("STEP.IN_FLIGHT then", f"{name} then")})
            self.assertEqual(f"common/store/{part}:{line}: schema.txt has no letter {name}",
                             str(wrong.exception))
        self.refuses(part, code, code.replace("STEP", "STOP"), "STOP is not declared")
        kept = "'STEP.FLYING' .. \"STEP.PARKED\" -- STEP.FLYING"
        joined = library.join({part: text.replace(code, f"{kept}\n or {code}")})
        self.assertIn(f"{kept}\n or rec.state ~= 'R' then\n", joined)

    def test_what_lua_allows(self):
        part, begin = "registration.lua", "local function register("
        n_locals = self.locals_of(part) + 200
        self.refuses(part, begin, "local a\n" * 200 + begin,
                     f"there are {n_locals} locals here; Lua allows 200")
        part, begin = "clock.lua", "function lease_end(clock, till, given)\n"
        names = ", ".join(f"n{k}" for k in range(200))
        self.refuses(part, begin, f"{begin}  local {names}\n",
                     "this function has 203 locals; Lua allows 200")
        uses = "".join(f"  n{k}()\n" for k in range(61))
        outer = f"local function f({names})\nreturn function()\n{uses}end end\n"
        self.refuses(part, begin, outer + begin, "this function has 61 upvalues; Lua allows 60")
        self.refuses(part, begin, f"{begin}  x = = 1\n", "= stands where it cannot")

    def locals_of(self, part):
        """Returns the number of locals in the block of a part and before it."""
        texts = [(library.FOLDER / name).read_text("utf-8") for name in (library.HEAD, part)]
        return sum(scopes.Program("--" + text[2:]).function.most for text in texts)

    def test_places(self):
        text = library.join()
        places = library.places(text)
        for part in library.PARTS:
            if part != library.SCHEMA:
                lines = (library.FOLDER / part).read_text(encoding="utf-8").splitlines()
                at = places.index(f"common/store/{part}:{len(lines)}")
                self.assertEqual(lines[-1], text.splitlines()[at])
                self.assertEqual(
                    f"x {places[at]}: y", library.with_places(f"x user_function:{at + 1}: y", text)
                )


if __name__ == "__main__":
    unittest.main()
