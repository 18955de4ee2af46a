# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ as processes

    class Some(examples.TestCase):
        def test_it(self):
            agent = self.start_agent("python")          # of the actor "python"
            code, output = self.submit("node", "job", "hello", "python").end()

Nothing is written into the source tree: the modules that the Node programs need are installed in
the build folder, beside copies of the programs, because Node looks for modules there. If that is
not possible on a machine the test is skipped, with the reason.
"""

import atexit
import fcntl
import filecmp
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import cluster
import servers
import wire

AGENTS = {"python": "agents/echo_agent.py", "node": "agents/echo_agent.mjs"}
CLIENTS = {"python": "clients/submit.py", "node": "clients/submit.mjs"}

SOURCE = wire.ROOT / "examples"
NODE_ROOT = wire.BUILD / "node"  # has examples/ and proto/, like the source tree
NODE_MIN = 18
# Codes of npm's errors when it has no registry, or none that it may use.
NO_REGISTRY = re.compile(
    r"code (ENOTFOUND|EAI_AGAIN|ECONN\w+|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT"
    r"|EPROTO|ENOTCACHED|CERT_\w+|SELF_SIGNED\w*|UNABLE_TO_\w+|E40[1347]|E5\d\d)"
)

_running = set()


@atexit.register
def _kill_all():
    for program in list(_running):
        program.kill()


def each_language(function):
    """Marks a function(self, language) that becomes one test for each language."""
    function.languages = tuple(AGENTS)
    return function


def with_languages(cls):
    """Adds the tests of each_language() to a class."""
    for name, function in list(vars(cls).items()):
        for language in getattr(function, "languages", ()):
            test = lambda self, f=function, l=language: f(self, l)
            setattr(cls, f"{name.replace('each_', 'test_')}_{language}", test)
    return cls


def _check_node():
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise unittest.SkipTest(f"{tool} is not installed")
    version = subprocess.run(
        ["node", "--version"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    if int(re.match(r"v(\d+)", version).group(1)) < NODE_MIN:
        raise unittest.SkipTest(f"node {version.strip()} is older than {NODE_MIN}")


def _copy(source, target):
    """Copies only what has changed, and atomically: another test may be about to run the target."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy(source, f"{target}.new")
        os.replace(f"{target}.new", target)


def _copy_sources():
    for name in ("examples", "proto"):
        shutil.copytree(
            wire.ROOT / name,
            NODE_ROOT / name,
            dirs_exist_ok=True,
            copy_function=_copy,
            ignore=shutil.ignore_patterns("node_modules"),
        )


def _install():
    """Runs npm ci, unless exactly these modules are installed."""
    stamp = NODE_ROOT / "installed"
    wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
        + ["--fetch-retries=1", "--fetch-timeout=30000", f"--cache={NODE_ROOT / 'cache'}"],
        cwd=NODE_ROOT / "examples",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode == 0:
        stamp.write_text(wanted)
        return
    found = NO_REGISTRY.search(done.stderr)
    if found:
        raise unittest.SkipTest(f"npm ci cannot reach a registry: {found.group(1)}")
    raise AssertionError(f"npm ci: {done.stderr}")


def _remembered(function):
    """Calls the function once a process. If it skips a test, later calls skip for the same
    reason."""
    outcomes = []

    def call():
        if not outcomes:
            try:
                outcomes.append(function())
            except unittest.SkipTest as reason:
                outcomes.append(reason)
        if isinstance(outcomes[0], unittest.SkipTest):
            raise outcomes[0]

    return call


@_remembered
def _prepare_node():
    _check_node()
    NODE_ROOT.mkdir(parents=True, exist_ok=True)
    with open(NODE_ROOT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in parallel
        _copy_sources()
        _install()


def node_examples():
    """Returns the folder of the examples with all that Node needs; skips the test if it cannot be
    had."""
    _prepare_node()
    return NODE_ROOT / "examples"


def command(path):
    """Returns the command line of a program of examples/."""
    if path.endswith(".mjs"):
        return ["node", str(node_examples() / path)]
    return ["/usr/bin/python3", "-B", str(SOURCE / path)]


def with_handler(path, handler, directory):
    """Replaces run() of an agent of examples/ by this handler, as a reader would; returns the
    command line."""
    text = (SOURCE / path).read_text()
    pattern = r"^def run\(.*?(?=^\S)" if path.endswith(".py") else r"^async function run .*?^}\n"
    text, count = re.subn(pattern, lambda _: handler, text, flags=re.MULTILINE | re.DOTALL)
    assert count == 1, f"{path} has {count} functions run"
    return _copy_of(path, text, directory)


def with_change(path, old, new, directory):
    """Replaces old, which must occur once, in a program of examples/ by new; returns the command
    line."""
    text = (SOURCE / path).read_text()
    assert text.count(old) == 1, f"{path} has {text.count(old)} times {old}"
    return _copy_of(path, text.replace(old, new), directory)


def _copy_of(path, text, directory):
    """Puts the program into the directory, or beside the modules that Node needs; returns the
    command line."""
    if path.endswith(".py"):
        copy = directory / pathlib.Path(path).name
        words = ["/usr/bin/python3", "-B", str(copy)]
    else:
        copy = node_examples() / pathlib.Path(path).parent / f"{directory.name}.mjs"
        words = ["node", str(copy)]
    copy.write_text(text)
    return words


class Program:
    """One process of an example. words: the command line, from command() or with_handler()."""

    def __init__(self, words, url, log):
        self.log = log
        with open(log, "wb") as out:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "AMQP_URL": url,
                    "PYTHONPATH": str(wire.BUILD / "python"),
                    "PYTHONUNBUFFERED": "1",
                },
                start_new_session=True,
            )
        _running.add(self)

    def alive(self):
        return self._process.poll() is None

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        _running.discard(self)

    def end(self, timeout=60):
        """Waits for its end; returns its exit code and its output."""
        try:
            servers.wait_for(lambda: not self.alive(), f"the end of {self._process.args}", timeout)
        finally:
            self.kill()
        return self._process.returncode, self.text()

    def text(self):
        return self.log.read_text(errors="replace")


class TestCase(cluster.TestCase):
    """A Drover without agents, and what starts programs of examples/ against it."""

    def setUp(self):
        super().setUp()
        self.c = self.begin()
        self.client, self.url = self.c.client, self.c.url
        self.options = self.c.client_options()  # of each program
        self.programs = 0

    def begin(self):
        """Starts the cluster that the test needs."""
        return self.cluster(agents=0)

    def start(self, words):
        """Runs a program of the examples until it, or the test, ends."""
        self.programs += 1
        log = self.directory / f"program-{self.programs}.log"
        program = Program([*words, *self.options], self.url, log)
        self.addCleanup(program.kill)
        return program

    def make_queue(self, actor):
        """Declares what a scheduler declares before it sends the first request to an actor."""
        queue, arguments = f"drover.task.{actor}", {"x-dead-letter-exchange": "drover.expired"}

        def declare(channel):
            channel.queue_declare(queue, durable=True, arguments=arguments)
            channel.queue_bind(queue, "drover.tasks", actor)
            channel.exchange_declare(f"drover.reply.{actor}", "fanout", durable=True)
            channel.exchange_bind("drover.replies", f"drover.reply.{actor}", "")

        self.client.call(declare)

    def start_agent(self, language, handler=None, queue=True):
        """Starts an agent for the actor named like its language, and returns when it consumes.
        queue=False: the queue of the actor is not made before."""
        path, directory = AGENTS[language], self.directory
        if handler:
            words = with_handler(path, handler, directory)
        else:
            words = command(path)
        if not queue:
            return self.start([*words, language])
        self.make_queue(language)
        before = self.client.queue(f"drover.task.{language}")[1]
        program = self.start([*words, language])

        def consumes():
            self.assertTrue(program.alive(), program.text())
            return self.client.queue(f"drover.task.{language}")[1] > before

        servers.wait_for(consumes, f"the agent in {language}")
        return program

    def submit(self, language, *words):
        """Starts a client for: job, input, actors. Its exit code says how the job ended."""
        return self.start([*command(CLIENTS[language]), *words])

    def connections(self):
        lines = self.c.rabbit.rabbitmqctl("list_connections", "pid", "vhost").splitlines()
        return {line.split()[0] for line in lines if line.split()[1] == self.c.name}

    def cut_off(self, others):
        """Has the broker close the one connection that is not among the others."""
        (connection,) = self.connections() - others
        self.c.rabbit.rabbitmqctl("close_connection", connection, "test")

    def results(self, job):
        """Returns step -> result."""
        status = self.client.control(job, query=wire.Query(with_data=True)).status
        return {step.name: step.result.data.decode() for step in status.steps}
