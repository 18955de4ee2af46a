#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a run of Drover from outside, by the evidence of others

    checker.py DIRECTORY [--all]

DIRECTORY has the evidence (see run_evidence.py). Prints each violation as "RULE JOB STEP text", at
most 20 of a rule without --all. Exits with 0 if there is none, else with 1. RULE is the number of
the broken promise in docs/RELIABILITY.md. The checker does not use what Drover reports about
itself.
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_evidence import Evidence, Violation
import fsck
import replay
import story
import terms
import wire

SHOWN = 20


def _replays(evidence, trace):
    """job -> Replay, of the jobs whose definition is known."""
    clock_set = any(f.what == "clock set" for f in evidence.faults)
    definitions, out = {}, {}
    for job in evidence.jobs.values():
        workflow = job.definition(evidence.workflows)
        if not workflow or not job.history:
            continue
        encoded = workflow.SerializeToString()
        if encoded not in definitions:
            definitions[encoded] = terms.Definition(workflow)
        out[job.id] = replay.Replay(job, definitions[encoded], trace, clock_set)
    return out


def _answers(evidence):
    """I6: all answers to a command are the same, except to one that has overtaken its job."""
    for command_id, answers in evidence.answers.items():
        codes = {answer.message.code for answer in answers} - {wire.ANSWER_CODE_UNKNOWN_JOB}
        if len(codes) > 1:
            job_id = answers[0].message.job_id
            yield Violation("I6", job_id, "", f"command {command_id} was answered {codes}")


def _timing(evidence, replays):
    """How close the run came to the limits: L1 in figures, over all jobs that have ended."""
    over = evidence.faults_over()
    settled = [(r.settlings[-1].at - over, job_id)
               for job_id, r in replays.items() if r.settlings and over]
    moved = [(r.latest_move(over, evidence.world)[0], job_id) for job_id, r in replays.items()]
    lines = []
    if settled:
        lines.append(
            "the last job ended {:.1f} s after the last fault: {}".format(*_worst(settled))
        )
    if moved:
        lines.append(
            "nothing was later than {:.1f} s with what it had to do then: {}".format(*_worst(moved))
        )
    return "\n".join(lines)


def _worst(times):
    ms, job_id = max(times)
    return max(ms, 0) / 1000, job_id


def examine(directory):
    """@directory: of evidence. Return: a list of run_evidence.Violation, and a text that says how
    late the latest job was."""
    evidence = Evidence(pathlib.Path(directory))
    trace = story.Trace(evidence)
    replays = _replays(evidence, trace)
    return _judge(evidence, trace, replays), _timing(evidence, replays)


def judge(directory):
    """@directory: of evidence. Return: a list of run_evidence.Violation."""
    return examine(directory)[0]


def _judge(evidence, trace, replays):
    violations = [Violation("I10", "", "", f"a run of {key}, which is no job's")
                  for key in evidence.strays]
    violations += _answers(evidence)
    for job in evidence.jobs.values():
        if job.id in replays:
            violations += replays[job.id].violations
        violations += story.Story(evidence, job, replays.get(job.id), trace).judge()
    violations += fsck.Fsck(evidence, replays).judge()
    return violations


def report(violations, limit=SHOWN):
    """The violations as text, one per line, at most @limit of a rule, and their number."""
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
