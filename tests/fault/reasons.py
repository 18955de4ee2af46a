# SPDX-License-Identifier: Apache-2.0
"""Checks causes: each parking, turn, hold and end of a job has a cause, and each cause its effect

A cause is a command that a client has sent, a permanent failure, a step that has used up the
failures or expiries that its policy allows, or the deadline of the job.
"""

import wire

STEERED = {  # entry of the history → the commands that cause it
    "killed": ["kill"],
    "resumed": ["resume"],
    "retried": ["retry"],
    "edited": ["change"],
    "resolved": ["resolve"],
    "held paused": ["pause"],
    "turned A REQUESTED": ["enable"],
    "turned D REQUESTED": ["disable"],
    "turned D CANCELLED": ["cancel"],
}
OF_STEPS = ("retried", "edited")  # one command can cause several of these
DEADLINES = {  # entry of the history → the recourse of a deadline that causes it
    "held deadline": wire.RECOURSE_PARK,
    "overdue": wire.RECOURSE_PARK,
    "ending DEADLINE": wire.RECOURSE_FAIL,
    "turned D FAILURE DEADLINE": wire.RECOURSE_COMPENSATE,
}
ANYTHING = None  # an observer from outside cannot know which entry follows


def command_name(control):
    """The name of a command in a history."""
    name = control.WhichOneof("command")
    retry = control.retry
    if name == "retry" and (retry.HasField("arguments") or retry.HasField("change")):
        return "change"
    if name != "set_desired":
        return name
    return "enable" if control.set_desired.desired == wire.STATE_ACTIVE else "disable"


class Reasons:
    """Compares each entry of a history with those before it. @replay: of that history."""

    def __init__(self, replay):
        self._replay = replay
        self._last = ""  # the entry before
        self._due = ""  # the recourse that must be the next entry; ANYTHING; "" for none
        # Of the last command: number and time of its entry, its name, the Controls that it may be.
        self._command = None

    def entry(self, entry):
        """Checks an entry before the replay applies it. @entry: see run_evidence.entry_of()."""
        event, text = entry.event, entry.what
        due, self._due = self._due, ""
        if due and text != due:
            self._fail("I12", f"{text}, not {due}")
        if event == "command":
            self._take_command(entry)
        elif event in ("parked", "given_up") or (
            text.startswith("turned D FAILURE") and "DEADLINE" not in entry.about
        ):
            self._takes_recourse(entry, due)
        elif event == "turned" and entry.about[:2] == ["A", "TRY"]:
            self._tries_again()
        elif text in DEADLINES:
            self._is_late(text)
        elif event == "ending":
            reason, *_ = entry.about
            self._require(self._last.startswith("given_up") and self._last.endswith(reason), "I6",
                          f"{text}, and no step was given up")
        elif event in ("held", "turned") or event in STEERED:
            self._is_steered(entry)
        self._last = text

    def control(self):
        """The Control of the client whose command is being carried out."""
        return self._command[3][0]

    def failed(self, flight, answers):
        """A failure was recorded. @answers: the answers that it may be of; none if unknown."""
        if not answers or self._replay.steps[flight.number].vague:
            self._due = ANYTHING
            return
        dues = {self._recourse_of(flight, answer) for answer in answers}
        self._due = dues.pop() if len(dues) == 1 else ANYTHING

    def _fail(self, rule, text):
        self._replay.require(False, rule, text)

    def _require(self, condition, rule, text):
        self._replay.require(condition, rule, text)

    # --- recourse ---

    def _recourse_of(self, flight, answer):
        """The entry that must follow; "" if the step is tried again or not wanted any more."""
        replay, i = self._replay, flight.number
        step, terms = replay.steps[i], replay.terms(i, flight.back)
        if replay.ending or not flight.back and (replay.back or step.turn < replay.since):
            return ""
        if answer == "PERMANENT":
            return self._recourse(i, terms.on_permanent, "PERMANENT")
        if answer == "failed" and step.failures >= terms.maximum_attempts:
            return self._recourse(i, terms.on_exhausted, "EXHAUSTED")
        return ""

    def _recourse(self, i, recourse, reason):
        if recourse == wire.RECOURSE_PARK:
            return f"parked {i} {reason}"
        if recourse == wire.RECOURSE_FAIL or self._replay.steps[i].back:
            return f"given_up {i} {reason}"
        return f"turned D FAILURE {reason} {i}"

    def _takes_recourse(self, entry, due):
        event, text = entry.event, entry.what
        if event == "turned":
            _, _, reason, number, *_ = entry.about
        else:
            number, reason, *_ = entry.about
        i = int(number)
        step = self._replay.steps[i]
        terms = self._replay.terms(i, step.back)
        if step.timer_cancelled and event == "parked" and not self._last.startswith(f"failed {i} "):
            enough = (step.vague or step.failures >= terms.maximum_attempts
                      or step.expiries >= terms.maximum_expiries)
            self._require(enough, "I12", f"{text} again, and its tries are not used up")
            return
        recourse = terms.on_permanent if reason == "PERMANENT" else terms.on_exhausted
        policy = self._recourse(i, recourse, reason)
        self._require(text == policy, "I12", f"{text}, against its policy")
        if reason == "DEATHS":
            enough = step.vague or step.expiries >= terms.maximum_expiries
            self._require(enough, "I9", f"{text} after {step.expiries} expiries")
            return
        failed = self._last.startswith(f"failed {i} ")
        self._require(failed, "I6", f"{text}, and nothing has failed")
        if reason == "EXHAUSTED":
            enough = step.vague or step.failures >= terms.maximum_attempts
            self._require(enough, "I9", f"{text} after {step.failures} failures")
        self._require(due != "", "I12", f"{text}, though it may be tried again")

    def _tries_again(self):
        replay = self._replay
        undone = replay.back and replay.all_there(True) and not replay.settled
        self._require(replay.cause == "FAILURE" and undone, "I6",
                      "tried once more, and no failure was taken back")

    def _is_late(self, text):
        replay = self._replay
        self._require(not replay.back, "I6", f"{text} on the way back")
        self._require(replay.definition.on_deadline == DEADLINES[text], "I12",
                      f"{text}, against its policy")
        self._require(replay.complete_by, "I6", f"{text}, and it has no deadline")
        self._require(replay.clock_set or replay.at >= replay.complete_by, "I12",
                      f"{text} {replay.complete_by - replay.at} ms before its deadline")

    # --- commands ---

    def _take_command(self, entry):
        name, command_id, *_ = entry.about
        replay, wanted = self._replay, "" if command_id == "-" else command_id
        controls = [sent.message for sent in replay.job.commands
                    if sent.message.command_id == wanted and command_name(sent.message) == name
                    and (replay.clock_set or sent.at <= replay.at + 1)]
        self._require(controls, "I10", f"{name} {command_id}, and no client has said so")
        self._command = (replay.seq, replay.at, name, controls)

    def _is_steered(self, entry):
        event, text = entry.event, entry.what
        allowed = STEERED.get(event) or STEERED.get(text, [])
        seq, at, name, controls = self._command or (0, 0, "", [])
        replay = self._replay
        follows = seq == replay.seq - 1 or event in OF_STEPS and at == replay.at
        meant = any(self._means(c, entry) for c in controls)
        self._require(follows and name in allowed and meant, "I10",
                      f"{text}, and no client has said so")

    def _means(self, control, entry):
        """Whether the command is about this step."""
        if entry.event in OF_STEPS:
            number, *_ = entry.about
            steps, edits = list(control.retry.steps), control.retry.HasField("arguments")
            named = not steps if number == "all" else self._replay.name(int(number)) in steps
            return named and edits == (entry.event == "edited")
        if entry.event == "resolved":
            number, letter, *_ = entry.about
            state = wire.STATE_ACTIVE if letter == "A" else wire.STATE_DISABLED
            step = self._replay.name(int(number))
            return (control.resolve.step, control.resolve.state) == (step, state)
        return True
