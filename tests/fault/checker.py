#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges a run of Drover from outside, by what others have seen of it

    checker.py DIRECTORY [--all]

DIRECTORY holds evidence (see book.py). Prints each violation as "RULE JOB STEP what", at most 20 of a
rule unless all are asked for, and ends with 0 where there is none, else with 1. A RULE is the number of
the promise in docs/RELIABILITY.md that is broken. What Drover thinks of itself is asked nowhere.
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import book as books
import fsck
import replay
import story
import terms
import wire

SHOWN = 20


def _replays(book, trace):
    """job -> Replay, of those whose definition is known."""
    clock_set = any(f.what == "clock set" for f in book.faults)
    definitions, out = {}, {}
    for job in book.jobs.values():
        workflow = job.definition(book.workflows)
        if not workflow or not job.history:
            continue
        encoded = workflow.SerializeToString()
        if encoded not in definitions:
            definitions[encoded] = terms.Definition(workflow)
        out[job.id] = replay.Replay(job, definitions[encoded], trace, clock_set)
    return out


def _answers(book):
    """I6: a command gets one answer, however often, but where it has overtaken its job."""
    for command_id, answers in book.answers.items():
        codes = {told.message.code for told in answers} - {wire.ANSWER_CODE_UNKNOWN_JOB}
        if len(codes) > 1:
            job_id = answers[0].message.job_id
            yield books.Violation("I6", job_id, "", f"command {command_id} was answered {codes}")


def _timing(book, replays):
    """How close it was: L1 in figures, of all jobs that have ended."""
    over = book.faults_over()
    settled = [(r.settlings[-1].at - over, job_id) for job_id, r in replays.items() if r.settlings and over]
    moved = [(r.latest_move(over, book.world)[0], job_id) for job_id, r in replays.items()]
    lines = []
    if settled:
        lines.append("the last job ended {:.1f} s after the last fault: {}".format(*_worst(settled)))
    if moved:
        lines.append("nothing was later than {:.1f} s with what it had to do then: {}".format(*_worst(moved)))
    return "\n".join(lines)


def _worst(times):
    ms, job_id = max(times)
    return max(ms, 0) / 1000, job_id


def examine(directory):
    """@directory: of evidence. Return: a list of book.Violation, and a text that says how late the latest was."""
    book = books.Book(pathlib.Path(directory))
    trace = story.Trace(book)
    replays = _replays(book, trace)
    return _judge(book, trace, replays), _timing(book, replays)


def judge(directory):
    """@directory: of evidence. Return: a list of book.Violation."""
    return examine(directory)[0]


def _judge(book, trace, replays):
    violations = [books.Violation("I10", "", "", f"a run of {key}, which is no job's")
                  for key in book.strays]
    violations += _answers(book)
    for job in book.jobs.values():
        if job.id in replays:
            violations += replays[job.id].violations
        violations += story.Story(book, job, replays.get(job.id), trace).judge()
    violations += fsck.Fsck(book, replays).judge()
    return violations


def report(violations, limit=SHOWN):
    """As text: each violation on a line, at most @limit of a rule, and how many there are."""
    lines, counts = [], collections.Counter()
    for violation in violations:
        counts[violation.rule] += 1
        if limit is None or counts[violation.rule] <= limit:
            lines.append(str(violation))
    lines += [f"{rule}: {count} in all" for rule, count in sorted(counts.items())]
    return "\n".join(lines)


def main(arguments):
    directories = [a for a in arguments if a != "--all"]
    if len(directories) != 1 or not pathlib.Path(directories[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    violations, timing = examine(directories[0])
    print(timing)
    if violations:
        print(report(violations, None if "--all" in arguments else SHOWN))
        return 1
    print("no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
