# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ as processes

    class Some(examples.TestCase):
        def test_it(self):
            agent = self.start_agent("python")          # of the actor "python"
            code, said = self.submit("node", "job", "hello", "python").end()

Nothing is written into the source tree: what the Node programs need is installed below the build
folder, beside copies of them, because Node looks for modules where the program is. Where that is not
possible on this machine, the test that asks for it is skipped and says why.
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
NODE_ROOT = wire.BUILD / "node"  # with examples/ and proto/ as in the source tree
NODE_MIN = 18
# What npm calls it when there is no registry for it, or none that lets it in.
NO_REGISTRY = re.compile(
    r"code (ENOTFOUND|EAI_AGAIN|ECONN\w+|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|EPROTO"
    r"|ENOTCACHED|CERT_\w+|SELF_SIGNED\w*|UNABLE_TO_\w+|E40[1347]|E5\d\d)"
)

_running = set()


@atexit.register
def _kill_all():
    for program in list(_running):
        program.kill()


def each_language(function):
    """One test for each: function(self, language)."""
    function.languages = tuple(AGENTS)
    return function


def with_languages(cls):
    """Puts the tests of each_language() into a class."""
    for name, function in list(vars(cls).items()):
        for language in getattr(function, "languages", ()):
            test = lambda self, f=function, l=language: f(self, l)
            setattr(cls, f"{name.replace('each_', 'test_')}_{language}", test)
    return cls


def _check_node():
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise unittest.SkipTest(f"{tool} is not installed")
    said = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if int(re.match(r"v(\d+)", said).group(1)) < NODE_MIN:
        raise unittest.SkipTest(f"node {said.strip()} is older than {NODE_MIN}")


def _copy(source, target):
    """Only what has changed, and at once: another test may be about to run what is there."""
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
    """npm ci, unless these very modules are there already."""
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
    """Once a process; where it skips a test, it skips the next ones for the same reason."""
    said = []

    def call():
        if not said:
            try:
                said.append(function())
            except unittest.SkipTest as reason:
                said.append(reason)
        if isinstance(said[0], unittest.SkipTest):
            raise said[0]

    return call


@_remembered
def _prepare_node():
    _check_node()
    NODE_ROOT.mkdir(parents=True, exist_ok=True)
    with open(NODE_ROOT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        _copy_sources()
        _install()


def node_examples():
    """The folder of the examples with all that Node needs; skips the test where it cannot be had."""
    _prepare_node()
    return NODE_ROOT / "examples"


def command(path):
    """How a program of examples/ is run."""
    if path.endswith(".mjs"):
        return ["node", str(node_examples() / path)]
    return ["/usr/bin/python3", "-B", str(SOURCE / path)]


def with_handler(path, handler, directory):
    """An agent of examples/ whose run() is @handler instead, as a reader would put his own there;
    returns how to run it."""
    text = (SOURCE / path).read_text()
    pattern = r"^def run\(.*?(?=^\S)" if path.endswith(".py") else r"^async function run .*?^}\n"
    text, count = re.subn(pattern, lambda _: handler, text, flags=re.MULTILINE | re.DOTALL)
    assert count == 1, f"{path} has {count} functions run"
    return _copy_of(path, text, directory)


def with_change(path, old, new, directory):
    """A program of examples/ in which @old, which is there once, is @new; returns how to run it."""
    text = (SOURCE / path).read_text()
    assert text.count(old) == 1, f"{path} has {text.count(old)} times {old}"
    return _copy_of(path, text.replace(old, new), directory)


def _copy_of(path, text, directory):
    """In @directory, or beside the modules that Node needs; returns how to run it."""
    if path.endswith(".py"):
        copy = directory / pathlib.Path(path).name
        words = ["/usr/bin/python3", "-B", str(copy)]
    else:
        copy = node_examples() / pathlib.Path(path).parent / f"{directory.name}.mjs"
        words = ["node", str(copy)]
    copy.write_text(text)
    return words


class Program:
    """One process of an example; @words as command() and with_handler() give them."""

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
        """Waits for its end; returns its exit code and all that it said."""
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
        self.client = self.c.client
        rabbit = self.c.rabbit
        self.url = (
            f"amqp://{rabbit.user}:{rabbit.password}@{servers.HOST}:{rabbit.port}/{self.c.name}"
        )
        self.programs = 0

    def begin(self):
        """The cluster that the test wants."""
        return self.cluster(agents=0)

    def start(self, words):
        """Runs a program of the examples until it ends, or the test does."""
        self.programs += 1
        program = Program(words, self.url, self.directory / f"program-{self.programs}.log")
        self.addCleanup(program.kill)
        return program

    def make_queue(self, actor):
        """As a scheduler does before it sends the first request to an actor."""
        queue, arguments = f"drover.task.{actor}", {"x-dead-letter-exchange": "drover.expired"}

        def declare(channel):
            channel.queue_declare(queue, durable=True, arguments=arguments)
            channel.queue_bind(queue, "drover.tasks", actor)
            channel.exchange_declare(f"drover.reply.{actor}", "fanout", durable=True)
            channel.exchange_bind("drover.replies", f"drover.reply.{actor}", "")

        self.client.call(declare)

    def start_agent(self, language, handler=None, queue=True):
        """One for the actor that is called like its language; it consumes when this returns. @queue: there is its queue,
        which nobody has made else."""
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
        """Starts a client: job, input, actors; its end says how the job ended."""
        return self.start([*command(CLIENTS[language]), *words])

    def connections(self):
        lines = self.c.rabbit.rabbitmqctl("list_connections", "pid", "vhost").splitlines()
        return {line.split()[0] for line in lines if line.split()[1] == self.c.name}

    def cut_off(self, others):
        """The broker closes the one connection that is not among @others."""
        (connection,) = self.connections() - others
        self.c.rabbit.rabbitmqctl("close_connection", connection, "test")

    def results(self, job):
        """Step -> what it gave."""
        status = self.client.control(job, query=wire.Query(with_data=True)).status
        return {step.name: step.result.data.decode() for step in status.steps}
