#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the simulator, and the unit tests, catch what they are there for.

    sabotage.py [--seeds N] [--only NAME]

Plants one small bug after the other into a copy of the sources, builds the simulator there, and runs
up to N seeds (default 3000): some seed must fail each time, or the unit test that is named with the bug.
Without a bug none may. Exits with 1
where a bug got through, with 2 where one can no longer be planted because the code has changed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = "common/store/drover.lua"
FOLDERS = ["common/base", "common/model", "common/store", "scheduler", "supervisor", "agent",
           "tests/sim", "tests/unit", "proto/drover/v1"]
SOURCES = [
    "common/base/*.c", "common/model/*.c",
    "scheduler/answer.c", "scheduler/[c-l]*.c", "scheduler/migrate.c", "scheduler/notice.c",
    "scheduler/on_*.c", "scheduler/rollback.c", "scheduler/scheduler.c", "scheduler/s[tu]*.c",
    "supervisor/supervisor.c",
    "agent/agent.c", "agent/on_requests.c", "agent/re*.c", "agent/run.c", "agent/suspects.c",
    "tests/sim/[!t]*.c", "tests/sim/timeline.c", "proto/drover/v1/*.c",
]  # fmt: skip
LUAS = ["luajit", "lua5.1"]
PACKAGES = ["libprotobuf-c", "jansson", "libmd"]

# name -> file, what stands there, what is put in its place, and, where no seed would see it, a unit test
BUGS = {
    "a reply's token is not compared": (
        FUNCTIONS,
        "if rec.token ~= op.token or rec.state == 'R' and finished(job) then",
        "if false then",
    ),
    "a delivery is acknowledged before the store": (
        "scheduler/scheduler.c",
        "item->handle = d->handle;",
        "item->handle = 0; effects_add(s->out, EFFECT_ACK, d->handle);",
    ),
    "a redelivered reply does not send its follow-ups again": (
        FUNCTIONS,
        "if #list == 0 or not moving(job) then",
        "if true then",
    ),
    "a completion counts twice at joins": (
        FUNCTIONS,
        "  job.open = job.open - 1\n  spread_from(job, i)\n",
        "  job.open = job.open - 1\n  spread_from(job, i) spread_from(job, i)\n",
    ),
    "expire does not withdraw the token": (
        FUNCTIONS,
        "    note(job, 'expired', i, rec.attempt, rec.token)\n    rec.token = '-'",
        "    note(job, 'expired', i, rec.attempt, rec.token)",
    ),
    "a settled job owes no notice": (
        FUNCTIONS,
        "  call('ZADD', job.p .. 'owed', int(job.now + NAMED_AGAIN), job.id .. ' ' .. job.seq)\n",
        "",
    ),
    "an earlier moment does not lower the bound": (
        FUNCTIONS,
        "  if t < job.due then\n    job.due = t",
        "  if t < job.due then\n    job.due = job.due",
    ),
    "failures are counted twice": (
        FUNCTIONS,
        "rec.failures = rec.failures + 1",
        "rec.failures = rec.failures + 2",
    ),
    "a lease counts as past a moment early": (
        FUNCTIONS,
        "    if rec.till > job.now then\n      local t",
        "    if rec.till > job.now + 300 then\n      local t",
    ),
    "a call repeated after no answer is not taken as a redelivery": (
        "scheduler/scheduler.c",
        "op->record.redelivered = op->submit.redelivered = op->again = true;",
        "op->again = true;",
    ),
    "a repeated drive mints the same token again": (
        "scheduler/driven.c",
        "    id_token(rng_next(&s->rng), op->fresh);\n    ops_drive",
        "    ops_drive",
    ),
    "an agent replies after its lease": (
        "agent/replies.c",
        "        if (a->now >= p->runs[i]->seen.deadline)\n            run_silent",
        "        if (false)\n            run_silent",
    ),
    "what comes again is given up, though nobody has died of it": (
        "scheduler/suspects.c",
        "lives < MACHINE_SUSPECT_LIVES",
        "lives < 1",
    ),
    "a notice is settled before it is sent": (
        "scheduler/notice.c",
        "        op->then = told;\n        tell(s, op, &job, w);",
        "        told(s, op);",
    ),
    "the wait for an agent is not doubled": (
        FUNCTIONS,
        "min(t.wait * 2 ^ rec.unstarted, WAIT_CAP)",
        "min(t.wait, WAIT_CAP)",
    ),
    "a heartbeat makes a lease longer than it was given": (
        FUNCTIONS,
        "'R', min(limit, now + 3 * t.heartbeat))",
        "'R', now + 3 * t.heartbeat + t.lock)",
    ),
    "a migration changes a step that has begun": (
        FUNCTIONS,
        "  return rec.unstarted < rec.attempt - (flies and 1 or 0)",
        "  return rec.current == 'A'",
    ),
    "a migration does not count anew": (
        FUNCTIONS,
        "  local spreads = job.spreads\n  count_anew(job)\n",
        "  local spreads = job.spreads\n",
    ),
    "a migration leaves the record of a step that is no more": (
        FUNCTIONS,
        "    job.records[i] = nil\n    call('HDEL', job.key, int(i))\n",
        "    job.records[i] = nil\n",
    ),
    "a migration keeps the old definition's count": (
        FUNCTIONS,
        "  release_definition(job.p, job.def.digest)\n  call('HSET'",
        "  call('HSET'",
    ),
    "a migration voids timers": (
        FUNCTIONS,
        "    local turned = rec.since < job.since\n",
        "    local turned = true\n",
    ),
    "a request that came back is taken for one that nobody had": (
        FUNCTIONS,
        "  if routed then\n    rec.current = 'U'\n",
        "  if false then\n",
    ),
    "a failed step is tried again at once": (
        FUNCTIONS,
        "  return floor(wait * (1 + t.jitter * fraction))",
        "  return 0",
    ),
    "an undo does not wait for the dependents": (
        FUNCTIONS,
        "  return job.desired == 'A' and step.n_after or step.n_dependents\nend",
        "  return job.desired == 'A' and step.n_after or min(step.n_dependents, 1)\nend",
    ),
    "a step in flight counts as undone": (
        FUNCTIONS,
        "  if rec.state ~= 'W' then\n    return false\n  elseif rec.current ~= job.desired and",
        "  if rec.state == 'R' and rec.current == 'D' then\n    return job.desired == 'D'\n"
        "  elseif rec.current ~= job.desired and",
    ),
    "what is not known is not undone": (
        FUNCTIONS,
        "  rec.current, rec.unstarted = proven and 'D' or 'U', 0\n",
        "  rec.current, rec.unstarted = 'D', 0\n",
    ),
    "a failure proves more than it does": (
        FUNCTIONS,
        "op.effect == 'N' and rec.asked == 'A' and step.waived",
        "op.effect == 'N' and rec.asked == 'A'",
    ),
    "an undo in flight is forgotten when the job turns again": (
        FUNCTIONS,
        "rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then",
        "rec.current == 'U' and rec.turn < job.since and rec.asked == 'A' then",
    ),
    "what an earlier turn may have done is done again": (
        FUNCTIONS,
        "rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then",
        "rec.current == 'U' and rec.asked == 'D' then",
    ),
    "a turn keeps the old key": (
        FUNCTIONS,
        "    rec.turn = (asked == 'D' and job.desired == 'A') and job.since - 1 or job.turn\n",
        "    rec.turn = max(rec.turn, 1)\n",
    ),
    "a try of an undo has a key of its own": (
        FUNCTIONS,
        "    or rec.current == 'U' and (asked == 'D' or rec.turn >= job.since))",
        "    or rec.current == 'U' and asked == 'A' and rec.turn >= job.since)",
    ),
    "counters go on from one turn to the next": (
        FUNCTIONS,
        "    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0\n  end\n  if asked == 'A' then",
        "  end\n  if asked == 'A' then",
    ),
    "the undo is told another key than the do had": (
        FUNCTIONS,
        "  if asked == 'A' then\n    rec.forward = rec.turn",
        "  if asked == 'A' then\n    rec.forward = job.since",
    ),
    "a forward step begins after the turn": (
        FUNCTIONS,
        "  return job.ending ~= '' or rec.asked == 'A' and (job.desired == 'D' or rec.turn < job.since)\n",
        "  return job.ending ~= ''\n",
    ),
    "a held job sends": (
        FUNCTIONS,
        "  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''\n",
        "  return job.phase == 'PROCESSING' and job.ending == ''\n",
    ),
    "a resumed job forgets what waited": (
        FUNCTIONS,
        "  note(job, 'resumed')\n  if job.phase == 'PROCESSING' then\n",
        "  note(job, 'resumed')\n  if job.phase == 'NEVER' then\n",
    ),
    "timers of the way that was left strike": (
        FUNCTIONS,
        "    if rec.state ~= 'R' then\n      set_state(job, i, rec, 'W', 0)\n    end\n  end\n  return rec",
        "  end\n  return rec",
    ),
    "a killed job takes answers": (
        FUNCTIONS,
        "if rec.token ~= op.token or rec.state == 'R' and finished(job) then",
        "if rec.token ~= op.token then",
    ),
    "a job fails while steps are in flight": (
        FUNCTIONS,
        "  elseif idle and job.ending ~= '' then",
        "  elseif job.ending ~= '' then",
    ),
    "a job gives up while another undo can go on": (
        FUNCTIONS,
        "  elseif idle and #job.spreads == 0 and job.hold == '' and job.stuck_undo > 0 then",
        "  elseif #job.spreads == 0 and job.hold == '' and job.stuck_undo > 0 then",
    ),
    "a retry leaves the counters": (
        FUNCTIONS,
        "      rec.failures, rec.expiries, rec.unstarted = 0, 0, 0\n      set_state(job, i, rec, 'W', 0)\n",
        "      set_state(job, i, rec, 'W', 0)\n",
    ),
    "a command that comes again is carried out again": (
        FUNCTIONS,
        "    if known.id == id then\n",
        "    if false then\n",
    ),
    "a notice tells of the turn that came after": (
        FUNCTIONS,
        "  put(out, match(facts, '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S*) ?([%d ]*)$'))\n",
        "  put(out, call('HGET', p .. 'job:' .. a[2], 'outcome'), 'ERROR', '1', '1', '0', '',\n"
        "    call('HGET', p .. 'job:' .. a[2], 'failed') or '')\n",
    ),
    "a step without a way back keeps the job from going back": (
        FUNCTIONS,
        "  if next_asked(job, rec) == 'A' or step_of(job.def, i).has_revert then",
        "  if true then",
    ),
    "a deadline is forgotten": (
        FUNCTIONS,
        "  return job.complete_by > 0 and job.now >= job.complete_by and not job.late and job.desired",
        "  return false and job.desired",
    ),
    "nobody looks at a job when its deadline passes": (
        FUNCTIONS,
        "  if at > job.now and job.desired == 'A' then\n    touch(job, at)",
        "  if false then\n    touch(job, at)",
    ),
    "a job that is brought forward again does not wait for its time": (
        FUNCTIONS,
        "  elseif to == 'A' and job.start_at > job.now then",
        "  elseif false then",
    ),
    "a deadline takes the place of a pause": (
        FUNCTIONS,
        "    if job.hold == '' then -- a person's",
        "    if true then -- a person's",
    ),
    "a job that could not be undone names no step": (
        FUNCTIONS,
        "int(job.open), reason, job.failed}, ' '))",
        "int(job.open), reason, ''}, ' '))",
    ),
    "a command does not heed if_seq": (
        FUNCTIONS,
        "  elseif if_seq ~= '0' and tonumber(if_seq) ~= job.seq then",
        "  elseif false then",
    ),
    "an overtaken command is carried out": (
        FUNCTIONS,
        "> tonumber(issued_at) then\n    return true",
        "> tonumber(issued_at) then\n    return false",
    ),
    "a handler starts after its lease": (
        "agent/run.c",
        "    if (a->now >= stop_time(a, run)) { /* we stood still for so long */",
        "    if (false) {",
    ),
    "an undo carries the key of another turn": (
        "scheduler/driven.c",
        "key_of(s, op, step, r->forward_turn);",
        "key_of(s, op, step, r->forward_turn + 1);",
    ),
    "a permanent failure is tried again": (
        FUNCTIONS,
        "  elseif op.kind == 'P' or t.non_retryable[op.class] then",
        "  elseif false then",
    ),
    "a deferred step counts as failed": (
        FUNCTIONS,
        "  if op.kind == 'F' then\n    note(job, 'deferred'",
        "  if false then\n    note(job, 'deferred'",
    ),
    "what a person resolves is not kept": (
        FUNCTIONS,
        "  rec.current = a[12]\n",
        "",
    ),
    "a tried job is tried for ever": (
        FUNCTIONS,
        "  return tried < tries and not late, tried",
        "  return not late, tried",
    ),
    "what the job does not want ends in silence": (
        "agent/run.c",
        "        reply_set(a, run, run->cut);\n",
        "        return leave_slot(a, run), run_end(a, run);\n",
        "test_agent",
    ),
    "an agent that is cut off goes on": (
        "agent/run.c",
        "run->held_until < stop ? run->held_until : stop, on_deadline",
        "stop, on_deadline",
        "test_agent",
    ),
    "the first Progress comes late": (
        "agent/run.c",
        "        on_beat(a, &run->beat);",
        "        timer_set(a, &run->beat, a->now + request->heartbeat_ms, on_beat);",
        "test_agent",
    ),
    "workflows that are being registered are not registered again": (
        "scheduler/scheduler.c",
        "--s->registering == 0 && s->register_again",
        "--s->registering == 0 && false",
        "test_scheduler",
    ),
    "an emptied store gets no workflows": (
        "scheduler/rollback.c",
        "        rollback_look(s);\n        workflows_register(s);\n",
        "        rollback_look(s);\n",
        "test_scheduler",
    ),
    "a notice that is not known is settled": (
        "scheduler/notice.c",
        "        return; /* forgotten, or not owed: nothing to tell */\n",
        "        op_call(s, op, settle_call, settle_answered);\n        return;\n",
        "test_scheduler",
    ),
    "a suspect is read before it is acknowledged": (
        "agent/suspects.c",
        "    effects_add(a->out, EFFECT_ACK, s->delivery->handle);\n    timer_set(a, &a->alone, a->now + ACK_MS",
        "    timer_set(a, &a->alone, a->now",
        "test_agent",
    ),
    "suspects are read side by side": (
        "agent/suspects.c",
        "#define ALONE_MS 100",
        "#define ALONE_MS 0",
        "test_agent",
    ),
    "what was answered is run again": (
        "agent/run.c",
        "if (d->repeated && recent_has",
        "if (false && recent_has",
        "test_agent",
    ),
    "an agent takes more than it has slots for": (
        "agent/requeue.c",
        "if (free_slot || a->unseen == 0)",
        "if (true)",
        "test_agent",
    ),
    "an agent that had no slot consumes no more": (
        "agent/requeue.c",
        "if (a->paused && free_slot)",
        "if (false)",
    ),
    "an agent that drains keeps what it has not begun": (
        "agent/agent.c",
        "        effects_add(a->out, EFFECT_REQUEUE, d->handle);\n",
        "        ;\n",
        "test_agent",
    ),
}  # fmt: skip


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def copy_tree(to):
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, to / folder, ignore=shutil.ignore_patterns("narratives", "__pycache__")
        )
    protos = sorted((to / "proto/drover/v1").glob("*.proto"))
    subprocess.run(["protoc-c", f"--c_out={to}/proto", f"-I{to}/proto", *protos], check=True)


def packages():
    known = [lua for lua in LUAS if subprocess.run(["pkg-config", "--exists", lua]).returncode == 0]
    return [*known[:1], *PACKAGES]


class Build:
    """The simulator, from a folder of sources; knows which objects are up to date."""

    def __init__(self, folder):
        self.folder = folder
        self.cc = shlex.split(os.environ.get("CC", "cc"))
        self.flags = ["-std=gnu17", "-O2", "-D_GNU_SOURCE"]
        self.flags += [f"-I{folder}/{at}" for at in (".", "common", "proto", "tests/sim")]
        self.flags += shlex.split(output_of("pkg-config", "--cflags", *packages()))
        self.flags += [f'-DSIM_DROVER_LUA="{folder}/{FUNCTIONS}"']
        self.libs = shlex.split(output_of("pkg-config", "--libs", *packages())) + ["-lm"]
        names = {path for pattern in SOURCES for path in folder.glob(pattern)}
        self.sources = sorted(path for path in names if not path.name.startswith("test_"))
        self.program = folder / "drover-sim"

    def compile(self, source):
        subprocess.run(
            [*self.cc, *self.flags, "-c", source, "-o", source.with_suffix(".o")], check=True
        )

    def make(self, sources=None):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.compile, sources or self.sources))
        objects = [source.with_suffix(".o") for source in self.sources]
        subprocess.run([*self.cc, "-o", self.program, *objects, *self.libs], check=True)

    def run(self, seeds):
        """What was violated, or None."""
        done = subprocess.run(
            [self.program, "--seeds", f"1..{seeds}"], capture_output=True, text=True
        )
        found = re.findall(r"^(seed \d+: .*)$", done.stdout, re.M)
        if done.returncode == 1 and found:
            return found[0]
        if done.returncode == 0:
            return None
        return f"the simulator ended with {done.returncode}: {done.stderr.strip()[-200:]}"


    def run_test(self, name):
        """Which of its cases failed, or None."""
        source, program = next(self.folder.glob(f"tests/*/{name}.c")), self.folder / name
        objects = [s.with_suffix(".o") for s in self.sources if s.name != "main.c"]
        cmocka = shlex.split(output_of("pkg-config", "--cflags", "--libs", "cmocka"))
        subprocess.run(
            [*self.cc, *self.flags, source, "-o", program, *objects, *cmocka, *self.libs], check=True
        )
        done = subprocess.run([program], capture_output=True, text=True)
        failed = re.findall(r"FAILED +\] (test_\w+)", done.stderr)
        if done.returncode == 0:
            return None
        return f"{name}: {failed[0] if failed else done.stderr.strip()[-200:]}"


def try_bug(build, bug, seeds):
    file, old, new, *test = bug
    path = build.folder / file
    text = path.read_text()
    if text.count(old) != 1:
        return None, False
    path.write_text(text.replace(old, new))
    try:
        if path.suffix == ".c":
            build.make([path])
        return build.run_test(test[0]) if test else build.run(seeds), True
    finally:
        path.write_text(text)
        if path.suffix == ".c":
            build.make([path])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--only")
    options = parser.parse_args()
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        copy_tree(folder)
        build = Build(folder)
        build.make()
        clean = build.run(options.seeds)
        print(f"without a bug: {clean or 'nothing found'}", flush=True)
        status = 1 if clean else 0
        for name, bug in BUGS.items():
            if options.only and options.only not in name:
                continue
            caught, planted = try_bug(build, bug, options.seeds)
            missed = "GOT THROUGH" if planted else "CANNOT BE PLANTED"
            print(f"{name}: {caught or missed}", flush=True)
            status = max(status, 0 if caught else 1 if planted else 2)
    return status


if __name__ == "__main__":
    sys.exit(main())
