#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hostile submitter and a hostile agent besides an honest user

    hostile.py [--minutes N] [--rate N] [--full-seconds N]

Uses the users, rights and broker limits of deploy/, and jobs that have owners. An honest user
submits jobs at a share (a quarter) of the rate that this machine reaches, because the others and
the broker need it, too, and now and then a job that has to raise an alert. Then a second submitter
and the agent of another actor begin to send N messages a second each (200) of the worst kinds
found, for N minutes (10), and then as many as they can for N seconds (60). It is wrong if

    a job of the honest user does not succeed, or alert_command does not get an alert about one;
    the honest rate is below 70 % besides the limited ones, or a minute after the fast ones ended;
    a daemon or Redis uses more memory than its bound.

The output, with a sample of rate, memory and processor time every five seconds, stays in the build
folder, in hostile/. Exits with 0 if nothing is wrong.
"""

import argparse
import base64
import json
import multiprocessing
import os
import pathlib
import random
import secrets
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import pika
import pika.exceptions

import cluster
import servers
import wire

VHOST = "drover"
ADMIN, WORD = "test-admin", secrets.token_hex(16)
HONEST, MALLORY, AGENT, EVIL = "ann", "mallory", "drover-agent-work", "drover-agent-evil"
KEEPS = 0.7
SAMPLE_S = 5
ALARM_S = 5
WINDOW = 64  # honest jobs in progress, if that is the limit
STORE_MIB = 512
# MiB of anonymous memory.
BOUNDS = {"scheduler": 400, "agent": 64, "supervisor": 64}
WORKFLOWS = {
    "honest": 'name = "honest"; version = 1; steps = ('
              '{ name = "a"; actor = "work"; action = "echo"; },'
              ' { name = "b"; actor = "work"; action = "echo"; after = [ "a" ]; },'
              '{ name = "c"; actor = "work"; action = "echo"; after = [ "b" ]; } );',
    "alarm": 'name = "alarm"; version = 1; steps = ('
             ' { name = "a"; actor = "work"; action = "nothing-like-it";'
             ' retry = { on_permanent = "park"; }; } );',
    "evil": 'name = "evil"; version = 1; steps = ('
            ' { name = "a"; actor = "evil"; action = "x"; lock = "1s"; wait = "1s"; },'
            ' { name = "b"; actor = "work"; action = "nothing-like-it";'
            ' retry = { on_permanent = "park"; }; } );',
}


# --- connections ---


class Line:
    """One connection of one user; opened again if the broker has closed it."""

    def __init__(self, port, user, word, replies=True):
        self._parameters = pika.ConnectionParameters(servers.HOST, port, VHOST,
                                                     pika.PlainCredentials(user, word),
                                                     heartbeat=0, blocked_connection_timeout=300)
        self.user, self._replies, self.closed = user, replies, 0
        self.held = []  # requests that were taken and are not answered
        self._connection = None
        self.open()

    def open(self):
        if not self._connection or not self._connection.is_open:
            self._connection = pika.BlockingConnection(self._parameters)
        self.channel = self._connection.channel()
        self.queue = None
        if self._replies:
            self.queue = self.channel.queue_declare("", exclusive=True).method.queue

    def publish(self, exchange, key, body, user_id=True, **properties):
        if user_id:
            properties["user_id"] = self.user
        if not isinstance(body, bytes):
            body = body.SerializeToString()
        try:
            self.channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))
        except (pika.exceptions.AMQPError, ValueError):
            self.closed += 1
            self.open()

    def take(self):
        """Yields the messages in its queue."""
        try:
            self._connection.process_data_events(0)
            while True:
                method, properties, body = self.channel.basic_get(self.queue, auto_ack=True)
                if not method:
                    return
                yield properties.type, body
        except pika.exceptions.AMQPError:
            self.closed += 1
            self.open()


    def hold(self, queue, n, most):
        """Takes up to n requests and never answers them. Return: Progress of the last ones."""
        try:
            for _ in range(n):
                method, _, body = self.channel.basic_get(queue, auto_ack=True)
                if not method:
                    break
                self.held += wire.Requests.FromString(body).requests
        except pika.exceptions.AMQPError:
            self.closed += 1
            self.open()
        del self.held[:-most]
        return wire.Replies(progress=[wire.Progress(job_id=r.job_id, step=r.step, token=r.token)
                                      for r in self.held]).SerializeToString()


# --- the hostile users ---


def nowhere(n):
    """A direct reply-to address at a node that has never been used."""
    node = f"reply@{n}".encode()
    process = bytes((131, 88, 119, len(node))) + node + bytes((0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 0, 1))
    return f"amq.rabbitmq.reply-to.{base64.b64encode(process).decode()}.a2V5"


def deep(levels):
    table = "end"
    for _ in range(levels):
        table = {"x": table}
    return table


def submissions(line, draw):
    """Yields the messages of mallory without end: kind, and exchange, key, body, properties."""
    gone = "amq.rabbitmq.reply-to.g1h3D3JlcGx5QDEyNzA5NTk5MAAAAAMAAAAAZmVkYw==.a2V5"
    many = [wire.step(f"s{i}", f"absent-{i}") for i in range(400)]
    wide = wire.submit("wide", wire.fan(9998, actor="absent")).SerializeToString()
    empty = wire.Submit(job_id="empty",
                        definition=wire.Workflow(steps=[wire.Step()] * 100000)).SerializeToString()
    bomb = wire.Submit(job_id="bomb",
                       definition=wire.Workflow(steps=[wire.Step()] * 32000)).SerializeToString()
    far = int(time.time() + 300 * 86400) * 1000
    labels = [wire.Label(name=f"{i}" * 60, value="v" * 256) for i in range(10, 42)]
    large = wire.Submit(job_id="large", workflow="evil",
                        input=wire.payload(b"x" * 2**20)).SerializeToString()
    n = 0
    while True:
        n += 1
        victim = f"honest-{draw.randrange(max(n * 2, 1))}"
        yield from enumerate((
            ("drover.submit", "submit",
             wire.Submit(job_id=victim, workflow="honest", reply_to=line.queue), {}),
            ("drover.submit", "submit",
             wire.Submit(job_id=f"m-{n}", workflow="evil", reply_to=line.queue), {}),
            ("drover.submit", "submit",
             wire.Submit(job_id=f"t-{n}", workflow="evil", start_at=253402300799000), {}),
            ("drover.submit", "submit", wire.Submit(job_id=f"g-{n}", workflow="evil"),
             {"reply_to": gone}),
            ("drover.submit", "submit", wire.Submit(job_id=f"f-{n}", workflow="evil"), {
                "reply_to": "amq.rabbitmq.reply-to.!!!!.key"}),
            ("drover.submit", "submit",
             wire.Submit(job_id=f"q-{n}", workflow="evil", reply_to="drover.task.work"), {}),
            ("drover.submit", "submit",
             wire.Submit(job_id=f"b-{n}", workflow="evil", reply_to="billing"), {}),
            ("drover.submit", "submit", wire.submit(f"d-{n}", many), {"reply_to": line.queue}),
            ("drover.submit", "submit", wire.Submit(job_id=f"h-{n}", workflow="evil"),
             {"headers": deep(90)}),
            ("drover.submit", "submit", wire.Submit(job_id=f"n-{n}", workflow="evil"),
             {"user_id": None}),
            ("drover.submit", "submit", b"\xff" * 1000, {}),
            ("drover.submit", "submit", b'{"jobId": ' + b"[" * 5000, {"reply_to": line.queue}),
            ("drover.control", "control",
             wire.Control(job_id=victim, command_id="c", kill=wire.Kill(), reply_to=line.queue),
             {}),
            ("drover.control", "control",
             wire.Control(job_id=victim, query=wire.Query(with_data=True), reply_to=line.queue),
             {}),
            ("drover.control", "control",
             wire.Control(command_id="c", reply_to=line.queue, list_jobs=wire.ListJobs(
                limit=200, labels=[wire.Label(name="no", value="where")])), {}),
            ("drover.control", "control",
             wire.Control(job_id=f"m-{n}", history=wire.History(), reply_to=line.queue), {}),
            ("drover.control", "control",
             wire.Control(job_id=victim, recover=wire.Recover(steps=range(9999))), {}),
            ("drover.control", "control",
             wire.Control(job_id="m-1", command_id=f"c-{n}", reply_to=line.queue,
                          cancel=wire.Cancel(), issued_at=int(time.time() * 1000) + 300000), {}),
            ("drover.submit", "submit", wire.Submit(job_id=f"a-{n}", workflow="evil"),
             {"reply_to": nowhere(n)}),
            ("drover.submit", "submit",
             wire.Submit(job_id=f"w-{n}", workflow="evil", start_at=far, labels=labels), {}),
            ("drover.control", "control",
             wire.Control(job_id=f"w-{n % 50 + 1}", command_id=f"p-{n}", reason="r" * 1000, **(
                {"pause": wire.Pause()} if n // 50 % 2 else {"resume": wire.Resume()})), {}),
            ("drover.submit", "submit", bomb, {}),
        ))
        if n % 4 == 0:
            yield 22, ("drover.submit", "submit", large, {"reply_to": line.queue})
        if n % 8 == 0:
            yield 23, ("drover.submit", "submit", wide, {"reply_to": line.queue})
            yield 24, ("drover.submit", "submit", empty, {})


def replies(line, draw):
    """Yields the messages of the agent of another actor."""
    reply = "drover.reply.evil"
    n = 0
    # Replies that look like others: they take another exchange.
    line.channel.exchange_bind(destination=reply, source="drover.pulse", routing_key="reply")
    forged = wire.StepReply(job_id="honest-1", step="a", token=f"0.{secrets.token_urlsafe(16)}",
                            achieved=wire.STATE_ACTIVE)
    many = wire.Replies(replies=[forged] * 1000).SerializeToString()
    crowd = wire.Replies(replies=[wire.StepReply()] * 100000).SerializeToString()
    while True:
        n += 1
        victim = f"honest-{draw.randrange(n * 5)}"
        made_up = f"{draw.randrange(3)}.{secrets.token_urlsafe(16)}"
        forged = wire.StepReply(job_id=victim, step="a", token=made_up, achieved=wire.STATE_ACTIVE,
                                result=wire.payload(b"forged"))
        if n % 10 == 1:
            wanted = line.hold("drover.task.evil", 50, 1000)
        yield from enumerate((
            (reply, "reply", wire.Replies(replies=[forged]), {}),
            (reply, "reply", many, {}),
            (reply, "reply",
             wire.Replies(progress=[wire.Progress(job_id=victim, step="a", token=made_up)] * 20),
             {}),
            (reply, "reply",
             wire.Replies(replies=[wire.StepReply(job_id="nowhere", step="a", token=made_up)] * 20),
             {}),
            (reply, "reply", wire.Replies(replies=[forged]), {"headers": deep(90)}),
            (reply, "reply",
             wire.Replies(progress=[wire.Progress(job_id=victim, step="a", token=made_up)]), {
                "reply_to": "billing"}),
            (reply, "reply", b"\x00" * 5000, {}),
            ("drover.dead", "", b"forged", {"headers": {"drover-reason": "STORE_REFUSED"}}),
            ("drover.pulse", "reply", many, {}),
            (reply, "reply",
             wire.Replies(progress=[wire.Progress(job_id=victim, step="a", token=made_up)]), {
                "reply_to": nowhere(10**6 + n)}),
            (reply, "reply", wanted, {}),
        ))
        if n % 10 == 0:
            yield 11, (reply, "reply", crowd, {})


def chosen(messages, kinds):
    """The messages of these kinds; None: all of them."""
    for kind, message in messages:
        if kinds is None or kind in kinds:
            yield message


def attack(what, port, user, word, rate, until, sent, kinds):
    """Runs in a process of its own; @rate: 0 means as fast as possible."""
    line = Line(port, user, word, replies=what is submissions)
    began, n = time.monotonic(), 0
    for exchange, key, body, properties in chosen(what(line, random.Random(1)), kinds):
        if time.time() >= until.value:
            break
        known = properties.pop("user_id", True) if "user_id" in properties else True
        line.publish(exchange, key, body, user_id=bool(known), **properties)
        n += 1
        sent.value = n
        if n % 20 == 0 and line.queue:
            for _ in line.take():
                pass
        if rate and (ahead := n / rate - (time.monotonic() - began)) > 0:
            time.sleep(ahead)


# --- the honest user ---


class Honest:
    """Submits jobs and counts their ends; submits again if there is no Receipt."""

    def __init__(self, line):
        self._line = line
        self.begun, self.ended, self.alarms, self.later = 0, 0, [], 0
        self.open = {}  # job -> when it was last submitted
        self.wrong = []

    def _submit(self, job, workflow):
        self._line.publish("drover.submit", "submit",
                           wire.Submit(job_id=job, workflow=workflow, reply_to=self._line.queue),
                           delivery_mode=2)

    def go_on(self, seconds, rate=0):
        """@rate: jobs a second; 0: as many at a time as WINDOW. Return: ended jobs a second."""
        began, ended, first = time.monotonic(), self.ended, self.begun
        alarm = began
        while (passed := time.monotonic() - began) < seconds:
            while (self.begun - first < passed * rate) if rate else len(self.open) < WINDOW:
                job = f"honest-{self.begun}"
                self.begun += 1
                self.open[job] = time.monotonic()
                self._submit(job, "honest")
            if rate and time.monotonic() >= alarm:
                alarm += ALARM_S
                self.alarms.append(f"alarm-{len(self.alarms)}")
                self._submit(self.alarms[-1], "alarm")
            self._hear()
            time.sleep(0.002)
        return (self.ended - ended) / seconds

    def _end(self, job, outcome):
        if self.open.pop(job, None):
            self.ended += 1
            if outcome != wire.OUTCOME_SUCCEEDED:
                self.wrong.append(f"{job} ended as {wire.Outcome.Name(outcome)}")

    def _hear(self):
        for kind, body in self._line.take():
            if kind == "drover.v1.JobEvent":
                event = wire.JobEvent.FromString(body)
                self._end(event.job_id, event.outcome)
            elif kind == "drover.v1.Answer":
                status = wire.Answer.FromString(body).status
                if status.outcome:
                    self._end(status.job_id, status.outcome)
            elif kind == "drover.v1.Receipt":
                receipt = wire.Receipt.FromString(body)
                if receipt.code == wire.RECEIPT_CODE_RETRY_LATER:
                    self.later += 1
                elif receipt.code == wire.RECEIPT_CODE_ALREADY:
                    # it may have ended while another queue was declared
                    self._line.publish("drover.control", "control", wire.Control(
                        job_id=receipt.job_id, query=wire.Query(max_steps=1),
                        reply_to=self._line.queue))
                elif receipt.code not in (wire.RECEIPT_CODE_CREATED, wire.RECEIPT_CODE_ALREADY):
                    self.wrong.append(f"{receipt.job_id}: {receipt}")

    def closed(self):
        return self._line.closed

    def finish(self, seconds):
        """Waits for the ends of all open jobs."""
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end:
            for job, when in self.open.items():
                if time.monotonic() > when + 10:
                    self.open[job] = time.monotonic()
                    self._submit(job, "honest")
            self._hear()
            time.sleep(0.01)
        if self.open:
            self.wrong.append(
                f"{len(self.open)} jobs have not ended, among them {list(self.open)[:3]}"
            )


# --- the run ---


class Hostile:
    def __init__(self, directory, options, say):
        self._directory, self._options, self._say = directory, options, say
        self._daemons, self._peaks, self._took, self.wrong = [], {}, {}, []
        self._samples = open(directory / "samples", "w", encoding="utf-8")

    def run(self):
        accounts = self._directory / "secrets"
        subprocess.run([sys.executable, "-B", wire.ROOT / "deploy" / "accounts.py",
                        "--dir", accounts, "--no-shared-agent", "--actor=work", "--actor=evil",
                        f"--client={HONEST}", f"--client={MALLORY}"], check=True)
        self._word = lambda user: (WORD if user == ADMIN else
                                   (accounts / f"rabbitmq-{user}").read_text().strip())
        workflows = self._directory / "workflows"
        workflows.mkdir()
        for name, text in WORKFLOWS.items():
            (workflows / f"{name}.cfg").write_text(text + "\n")
        self._alerts = self._directory / "alerts"
        self._alerts.touch()
        page = self._directory / "page"
        page.write_text(f"#!/bin/sh\n{{ cat; echo; }} >>{self._alerts}\n")
        page.chmod(0o755)
        conf = (f"load_definitions = {accounts / 'rabbitmq-definitions.json'}\n"
                "max_message_size = 4194304\n")
        with servers.Rabbit(conf=conf) as self.rabbit, \
                servers.Redis(options=["--maxmemory", f"{STORE_MIB}mb", "--maxmemory-policy",
                                       "noeviction"]) as self.redis:
            self.store = cluster.Store(self.redis.port, "drover:")
            self.rabbit.rabbitmqctl("add_user", ADMIN, WORD)
            self.rabbit.rabbitmqctl("set_permissions", "-p", VHOST, ADMIN, ".*", ".*", ".*")
            try:
                self._start(workflows, page)
                self._phases()
            finally:
                for daemon in self._daemons:
                    daemon.stop() if not self.wrong else daemon.kill()

    def _start(self, workflows, page):
        security = {"identity": "required", "operators": "drover-operator", "submitters": [
            {"user": HONEST, "workflows": ["honest", "alarm"]},
            {"user": MALLORY, "workflows": ["evil"], "megabytes": STORE_MIB // 4}]}
        more = {
            "scheduler": {"scheduler": {"workflows": str(workflows), "definitions": "registered",
                                        "alert_command": str(page),
                                        "alert_interval": "1s"},
                          "security": security},
            "supervisor": {"supervisor": {"retention": "60s"}},
            "agent": {"agent": {"concurrency": 64,
                                "actors": [{"name": "work", "handler": "builtin"}]}},
        }
        for role, user in (("scheduler", "drover-scheduler"), ("scheduler", "drover-scheduler"),
                           ("supervisor", "drover-supervisor"), ("agent", AGENT)):
            name = f"{role}-{1 + len([d for d in self._daemons if d.role == role])}"
            settings = {"name": name, "log": {"format": "json"},
                        "rabbitmq": {"host": servers.HOST, "port": self.rabbit.port, "vhost": VHOST,
                                     "user": user,
                                     "password": self._word(user), "declare": False}}
            if role != "agent":
                settings["redis"] = {"host": servers.HOST, "port": self.redis.port}
            daemon = cluster.Daemon(role, name, self._directory,
                                    cluster.merged(settings, more[role]))
            self._daemons.append(daemon)
            daemon.start()
            servers.wait_for(daemon.up, f"{name} to be up")

    # --- phases ---

    def _attack(self, rate):
        until = multiprocessing.Value("d", time.time() + 10**9)
        out = []
        for what, user in ((submissions, MALLORY), (replies, EVIL)):
            if self._options.only and (self._options.only == "agent") != (user == EVIL):
                continue
            sent = multiprocessing.Value("Q", 0)
            process = multiprocessing.Process(
                target=attack,
                args=(what, self.rabbit.port, user, self._word(user), rate, until, sent,
                       self._options.kinds), daemon=True)
            process.start()
            out.append((process, sent, user))
        return until, out

    def _beside(self, name, seconds, honest, rate, attack_rate=None):
        """Honest jobs for some seconds, with or without attackers; returns their rate."""
        until, attackers = self._attack(attack_rate) if attack_rate is not None else (None, [])
        began, ended, n = time.monotonic(), honest.ended, 0
        while (left := seconds - (time.monotonic() - began)) > 0:
            self._sample(name, honest.go_on(min(SAMPLE_S, left), rate))
        took = time.monotonic() - began
        got = (honest.ended - ended) / took
        if until:
            until.value = 0
        for process, sent, user in attackers:
            process.join(20)
            if process.is_alive():
                process.kill()
            self._say(f"{name}: {user} has sent {sent.value / took:.0f} messages a second")
        self._say(f"{name}: {got:.1f} honest jobs a second, of {rate:.1f}"
                  if rate else f"{name}: {got:.1f} honest jobs a second")
        return got

    def _phases(self):
        honest = Honest(Line(self.rabbit.port, HONEST, self._word(HONEST)))
        honest.go_on(5)
        most = honest.go_on(20)
        honest.finish(60)
        rate = most * self._options.share / 100
        self._say(f"at most {most:.1f} jobs a second of 3 steps, {rate:.1f} from now on")
        self._beside("alone", 30, honest, rate)
        held = self._beside("held", self._options.minutes * 60, honest, rate, self._options.rate)
        if held < KEEPS * rate:
            self.wrong.append(f"beside held ones {held:.1f} of {rate:.1f} jobs a second")
        if self._options.full_seconds:
            self._beside("full", self._options.full_seconds, honest, rate, 0)
            began = time.monotonic()
            self._beside("after", 60, honest, rate)
            after = self._beside("recovered", 20, honest, rate)
            if after < KEEPS * rate:
                self.wrong.append(
                    f"a minute after the fast ones {after:.1f} of {rate:.1f} jobs a second"
                )
            self._say(f"recovered within {time.monotonic() - began:.0f} s: {after / rate:.0%}")
        honest.finish(300)
        self._say(f"{honest.begun} honest jobs, {honest.ended} ended, {honest.later} times refused "
                  f"for now; {honest.closed()} times their connection was closed")
        self.wrong += honest.wrong
        self._alarms(honest)
        self._bounds()

    def _alarms(self, honest):
        """Checks that each alert was sent, perhaps later."""
        def missing():
            alerts = self._alerts.read_text()
            return [job for job in honest.alarms if f'"jobId":"{job}"' not in alerts]

        end = time.monotonic() + 120
        while missing() and time.monotonic() < end:
            time.sleep(1)
        left_out = self._alerts.read_text().count("LEFT_OUT")
        self._say(f"{len(honest.alarms)} honest alerts, {len(missing())} missing; {left_out} "
                  "times that others were left out")
        if missing():
            self.wrong.append(f"alerts missing: {missing()[:5]} of {len(honest.alarms)}")

    # --- memory ---

    def _sample(self, phase, rate):
        now, took = {}, {}
        for daemon in self._daemons:
            if not daemon.alive():
                self.wrong.append(f"{daemon.name} has ended")
                continue
            text = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
            now[daemon.name] = int(next(l.split()[1]
                                        for l in text.splitlines()
                                        if l.startswith("RssAnon"))) >> 10
            took[daemon.name] = sum(
                map(int, pathlib.Path(f"/proc/{daemon.pid}/stat").read_text().split()[13:15])
            ) / 100
        now["store"] = self.store.redis.info("memory")["used_memory"] >> 20
        cpu = self.store.redis.info("cpu")
        took["store"] = cpu["used_cpu_user"] + cpu["used_cpu_sys"]
        for name, mib in now.items():
            self._peaks[name] = max(self._peaks.get(name, 0), mib)
        cpu_s = {name: round(seconds - self._took.get(name, 0), 2)
                 for name, seconds in took.items()}
        sample = {"phase": phase, "rate": round(rate, 1), "mib": now, "cpu_s": cpu_s}
        self._samples.write(json.dumps(sample) + "\n")
        self._took = took
        self._samples.flush()

    def _bounds(self):
        self._say("most memory, MiB: " + ", ".join(f"{name} {mib}"
                                                   for name, mib in self._peaks.items()))
        self._say("logs, MiB: " + ", ".join(f"{d.name} {d.log.stat().st_size >> 20}"
                                            for d in self._daemons))
        for name, mib in self._peaks.items():
            bound = BOUNDS.get(name.partition("-")[0], STORE_MIB)
            if mib > bound:
                self.wrong.append(f"{name} has taken {mib} MiB, more than {bound}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10,
                        help="with attackers that are held to a rate (10)")
    parser.add_argument("--rate", type=int, default=200,
                        help="messages a second of each of them (200)")
    parser.add_argument("--share", type=int, default=25,
                        help="percent of what the machine takes that honest jobs are (25)")
    parser.add_argument("--only", choices=("submitter", "agent"), help="one of them alone")
    parser.add_argument("--kinds", type=int, nargs="*",
                        help="of their messages only these, counted from 0")
    parser.add_argument("--full-seconds", type=int, default=60,
                        help="then with both at full speed; 0: not (60)")
    options = parser.parse_args()
    directory = wire.BUILD / "hostile"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    log = open(directory / "log", "w", encoding="utf-8")

    def say(text):
        print(text, flush=True)
        print(text, file=log, flush=True)

    run = Hostile(directory, options, say)
    run.run()
    for text in run.wrong:
        say(f"WRONG {text}")
    say("nothing is wrong" if not run.wrong else f"{len(run.wrong)} wrong")
    os._exit(1 if run.wrong else 0)


if __name__ == "__main__":
    main()
