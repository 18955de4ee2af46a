# SPDX-License-Identifier: Apache-2.0
"""The supervisor at work: an agent stops answering while it works on a request

Each line that was not typed is an event of the daemons: an entry of a job's history, a line of a
log, or an alert at the receiver of examples/alerts.
"""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import time

import stage
from stage import check, say, typed

import servers
import wire

ALERTS = wire.ROOT / "examples" / "alerts"
GIVE_UP_S = 60
WORK_MS = 1500  # how long the step takes
LOCK_MS = 20000  # the agent's lease
HEARTBEAT_MS = 1000  # after three of them without a Progress the lease has ended
ALONE = {
    "@include": None,
    "agent": {"concurrency": 1, "actors": [{"name": "demo", "handler": "builtin"}]},
}


class Receiver:
    """Receives what scheduler.alert_command sends."""

    def __init__(self, directory):
        self._log = directory / "alerts.log"
        with open(self._log, "wb") as log:
            self._program = subprocess.Popen(
                [sys.executable, "-B", str(ALERTS / "receiver.py"), "--port", "0"], stdout=log)
        atexit.register(self.close)
        servers.wait_for(lambda: self._text(), "the receiver of alerts")
        url = re.match(r"alerts are taken at (\S+)", self._text())[1]
        self.command = directory / "alert.sh"
        self.command.write_text(f"#!/bin/sh\nexec {ALERTS / 'alert.sh'} {url}\n")
        self.command.chmod(0o755)

    def _text(self):
        return self._log.read_text()

    def lines(self, job):
        return [line for line in self._text().splitlines() if f" {job} " in line]

    def close(self):
        self._program.kill()
        self._program.wait()


class Silence:
    def __init__(self, drover, receiver):
        self.drover, self.receiver = drover, receiver
        self._shown = {}  # job -> number of history entries that were shown

    def _command(self, *words, text=None):
        typed("drover", *words)
        return stage.drover(self.drover.url, *words, text=text)

    def _submit(self, job, **policy):
        step = {"name": "work", "actor": "demo", "action": "sleep", "arguments": {"json": WORK_MS},
                "lockMs": LOCK_MS, "heartbeatMs": HEARTBEAT_MS, "retry": policy}
        given = {"definition": {"steps": [step]}, "events": "EVENTS_STEP_REPLY"}
        self._command("submit", "-", "--id", job, text=json.dumps(given))

    def _entries(self, job):
        return json.loads(stage.drover(self.drover.url, "history", job, "-o", "json"))

    def _show(self, job):
        """Prints the new entries of a job's history; returns all entries."""
        entries = self._entries(job)
        for entry in entries[self._shown.get(job, 0):]:
            about = [entry.get(key, "") for key in ("step", "detail", "agent")]
            attempt = f"attempt {entry['attempt']}" if entry.get("attempt") else ""
            say("  " + " ".join(filter(None, (f"{job}:", entry["event"], *about, attempt))))
        self._shown[job] = len(entries)
        return entries

    def _await(self, job, event, times=1):
        """Waits until the history has the event, and prints the history."""
        def has_event():
            entries = self._show(job)
            return sum(entry["event"] == event for entry in entries) >= times

        servers.wait_for(has_event, f"{job} to be {event}", GIVE_UP_S)

    def _agent(self):
        agent = self.drover.add_agent(ALONE)
        typed(
            "drover-agent", "--config", agent.config.name,
            comment=f"{agent.name}: one request at a time",
        )
        servers.wait_for(agent.up, f"{agent.name} to be up", GIVE_UP_S)
        return agent

    def _stop(self, agent):
        typed("kill", "-STOP", agent.pid, comment=agent.name)
        os.kill(agent.pid, signal.SIGSTOP)

    def _continue(self, agent):
        typed("kill", "-CONT", agent.pid, comment=agent.name)
        os.kill(agent.pid, signal.SIGCONT)

    def run(self):
        first = self._agent()
        self._answered_by_another(first)
        self._parked(first)

    def _answered_by_another(self, first):
        self._submit("nap")
        self._await("nap", "began")
        self._stop(first)
        # without Progress LockedUntil has passed, and the supervisor has noticed it
        self._await("nap", "expired")
        second = self._agent()
        self._await("nap", "settled")
        self._continue(first)
        say(
            "  "
            + servers.wait_for(
                lambda: self._too_late(first), f"{first.name} to continue", GIVE_UP_S
            )
        )
        entries = self._entries("nap")
        done = [entry.get("agent") for entry in entries if entry["event"] == "done"]
        check(
            done == [second.name],
            f"{second.name} has done it, once, and the answer of {first.name} does not count",
        )
        second.stop()
        self.drover.agents.remove(second)

    def _too_late(self, agent):
        """Returns the log record about the late answer, or about the agent noticing by itself that
        it is late."""
        for daemon, event in (
            *((s, "reply_not_recorded") for s in self.drover.schedulers),
            *((agent, event) for event in ("step_unwanted", "step_cut_off", "lease_over")),
        ):
            for record in daemon.records(event):
                if record.get("job.id") == "nap":
                    return f"{daemon.name}: {event} {record.get('code', '')}"
        return None

    def _parked(self, first):
        self._submit("mute", maximumExpiries=1, silenceIntervalMs=-1)
        self._await("mute", "began")
        self._stop(first)
        self._await("mute", "parked")
        for line in servers.wait_for(lambda: self.receiver.lines("mute"), "the alert", GIVE_UP_S):
            say(f"  receiver: {line}")
        for line in self._command("list", "--needs", "parked").splitlines():
            say(f"  {line}")
        self._continue(first)
        self._command("retry", "mute", "work", "--set", "lock=1m", "--reason", "its agent is back")
        self._await("mute", "settled")
        check(
            self._entries("mute")[-1]["detail"].startswith("SUCCEEDED"),
            "repaired, retried and done",
        )
        parked = stage.drover(self.drover.url, "list", "--needs", "parked", "-o", "json")
        check(json.loads(parked) == [], "no parked step needs attention any more")


def settings(receiver):
    return {"scheduler": {"scheduler": {"alert_command": str(receiver.command)}}}
