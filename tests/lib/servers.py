# SPDX-License-Identifier: Apache-2.0
"""Private RabbitMQ and Redis servers for tests and for development

In a test:

    with servers.Rabbit() as rabbit, servers.Redis() as redis:
        with rabbit.vhost() as vhost:
            connect to 127.0.0.1, rabbit.port, vhost, guest/guest
        rabbit.kill(); rabbit.start()       # same port, same data

From a shell:

    python3 tests/lib/servers.py run -- command ...     start both, run the command, end both
    python3 tests/lib/servers.py up --dir D             start both, and leave them running
    python3 tests/lib/servers.py env --dir D            print their variables, for eval
    python3 tests/lib/servers.py down --dir D [--wipe]  stop them

Each server listens on 127.0.0.1 only, on ports of its own, with its data in a folder of its own,
and uses nothing of other servers on the machine. RabbitMQ takes seconds to boot, so tests that do
it no harm use the servers that the suite shares (see shared()), and each test has a vhost of its
own.

Whatever ends the test (an exception, SIGTERM, SIGINT), the servers end with it, and temporary
folders are removed.

The command of `run` gets the variables that environment() describes.
"""

import argparse
import atexit
import contextlib
import errno
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import authority

HOST = "127.0.0.1"
RABBITMQ_BIN = pathlib.Path("/usr/lib/rabbitmq/bin")  # not the wrappers in /usr/sbin, which use su
START_TIMEOUT_S = 120  # a boot takes 5 to 8 s on an idle machine
STOP_TIMEOUT_S = 30
POLL_S = 0.05
# The program in the place of Redis: redis-server, valkey-server, or the path of one of them.
STORE_SERVER = os.environ.get("DROVER_TEST_STORE_SERVER", "redis-server")
TLS = os.environ.get("DROVER_TEST_TLS") == "1"  # ./dev test --tls: daemons connect by TLS
# shorter in runs in which much is expected to fail
PATIENCE_S = float(os.environ.get("DROVER_TEST_PATIENCE_S", "inf"))

_running = []  # servers that end with this process


class ServerError(Exception):
    """A server that cannot be started; the text says what to do about it."""


# --- ports, waiting, processes -------------------------------------------------------------------


NO_DELIVERY_LIMIT = 10**9  # accepted by every version, unlike -1
PORTS = (20000, 32000)  # below the ports that the kernel gives to clients
_reservations = []  # until this process ends


def _bind(candidate, address):
    """Returns whether the address was free."""
    try:
        candidate.bind(address)
    except OSError as error:
        candidate.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _reserve(port):
    """Reserves a port among tests, because a server may take a while until it listens. Returns
    whether no other test has reserved it."""
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if not _bind(reservation, f"\0drover-test-port-{port}"):
        return False
    _reservations.append(reservation)
    return True


def free_ports(count):
    """Returns ports that are free now, and that no other test gets while this process exists."""
    found = []
    while len(found) < count:
        port = random.SystemRandom().randrange(*PORTS)
        if not _reserve(port):
            continue
        with socket.socket() as candidate:
            if _bind(candidate, (HOST, port)):
                found.append(port)
    return found


def wait_for(condition, what, timeout=START_TIMEOUT_S):
    """Calls condition() until it returns something true, and returns that."""
    return _wait_for(condition, what, min(timeout, PATIENCE_S))


def _wait_for(condition, what, timeout):
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise ServerError(f"waited {timeout} s for {what}")
        time.sleep(POLL_S)


def _start_time(pid):
    """Returns when a process began, in clock ticks since boot, or None if it has ended; pids are
    reused."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def gone(pid):
    """Whether a process has ended."""
    return _start_time(pid) is None


class Process:
    """A process group that this program has started, possibly in an earlier run."""

    def __init__(self, pid, started, popen=None):
        self.pid = pid
        self.started = started
        self._popen = popen

    @classmethod
    def spawn(cls, command, log, env=None):
        with open(log, "ab") as out:
            popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=log.parent,
                start_new_session=True,
            )
        return cls(popen.pid, _start_time(popen.pid), popen)

    def alive(self):
        if self._popen:
            return self._popen.poll() is None
        return self.started is not None and _start_time(self.pid) == self.started

    def signal(self, number):
        """Signals the whole group: the broker's shell and its virtual machine, or the one
        server."""
        if self.started is not None and (self.alive() or self._popen):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def end(self, number, timeout=STOP_TIMEOUT_S):
        """Sends a signal, and waits until the process has ended; sends SIGKILL after the
        timeout."""
        self.signal(number)
        try:
            wait_for(lambda: not self.alive(), f"process {self.pid} to end", timeout)
        finally:
            self.signal(signal.SIGKILL)
            if self._popen:
                self._popen.wait()


# --- ending with this process --------------------------------------------------------------------


def _close_all():
    """Ends all servers that still run, without being interrupted."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for server in list(_running):
        server.close()


def _exit_on_signal(number, _frame):
    raise SystemExit(128 + number)


def _watch(server):
    """Closes the server when this process ends, also by a signal if the test handles none."""
    if not _running:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        ):
            signal.signal(signal.SIGTERM, _exit_on_signal)
    _running.append(server)


class Scope:
    """What has start() and close(), started for the time of a block."""

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception):
        self.close()


class Server(Scope):
    """What both kinds of server share: a folder, a port, one main process."""

    name = ""  # names the kind, its folder and its log
    host = HOST
    start_timeout_s = START_TIMEOUT_S

    def __init__(self, directory=None, port=None):
        self._temporary = directory is None
        if directory is None:
            directory = tempfile.mkdtemp(prefix=f"drover-{self.name}-")
        self.directory = pathlib.Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        self.port = port or free_ports(1)[0]
        self._own_port = port is None and self._temporary
        self.process = None
        self.tls = None
        _watch(self)

    @property
    def known_port(self):
        """The port by which daemons and Sentinels know it: that for TLS, if there is one."""
        return self.tls.port if self.tls else self.port

    @property
    def addresses(self):
        """Returns (host, port) of each node that clients may connect to."""
        return [(self.host, self.port)]

    @property
    def tls_addresses(self):
        """The same for TLS."""
        return [(self.host, self.tls.port)]

    def start(self):
        """Starts the server and waits until it serves, on the same port and data as before."""
        self.begin()
        self.await_start()

    def begin(self):
        """The first half of start(), so that several servers can boot at the same time."""
        self.process = self._spawn()

    def await_start(self):
        for left in (2, 1, 0):
            try:
                what = f"{self.name}, see {self.log}"
                _wait_for(self._serves_or_died, what, self.start_timeout_s)
                self._own_port = False  # from now on clients may know the port
                return
            except ServerError:
                if left == 0 or not self._own_port or not self._lost_its_port():
                    raise
                self.port = free_ports(1)[0]
                self.begin()

    def _lost_its_port(self):
        """Whether another process has taken the port since it was free."""
        return not self.process.alive() and "Address already in use" in self.log_tail()

    def stop(self):
        """Stops the server as an operator would; its data are kept."""
        if self.process:
            self.process.end(signal.SIGTERM)
            self.process = None

    def kill(self):
        """Ends the server with SIGKILL; its data are kept."""
        if self.process:
            self.process.end(signal.SIGKILL)
            self.process = None

    def restart(self, hard=False):
        (self.kill if hard else self.stop)()
        self.start()

    def pause(self):
        """Stops the process: connections stay open and get no answer until resume()."""
        self.process.signal(signal.SIGSTOP)

    def resume(self):
        self.process.signal(signal.SIGCONT)

    def close(self):
        """Ends the server for good, and removes a temporary folder."""
        self.kill()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self in _running:
            _running.remove(self)

    def release(self):
        """Lets the server outlive this process; another process needs state() to end it."""
        _running.remove(self)

    def state(self):
        return {
            "port": self.port,
            "pid": self.process.pid,
            "started": self.process.started,
        }

    def adopt(self, state):
        """Takes over a server that an earlier process released."""
        self.port = state["port"]
        self.process = Process(state["pid"], state["started"])

    def environment(self):
        """Returns variables for a program under test."""
        raise NotImplementedError

    def _spawn(self):
        raise NotImplementedError

    def _serves(self):
        raise NotImplementedError

    def _serves_or_died(self):
        if not self.process.alive():
            raise ServerError(f"{self.name} ended at start, see {self.log}:\n{self.log_tail()}")
        return self._serves()

    def log_tail(self):
        return "".join(self.log.read_text(errors="replace").splitlines(True)[-20:])

    def _ask(self, question, answer):
        """Whether the server answers the first bytes of its protocol."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                connection.sendall(question)
                return connection.recv(len(answer)) == answer
        except OSError:
            return False


# --- RabbitMQ ------------------------------------------------------------------------------------


def _check_localhost():
    """The node is named x@localhost, and hangs if that is no loopback address."""
    try:
        address = socket.gethostbyname("localhost")
    except OSError:
        address = "nothing"
    if address != HOST:
        raise ServerError(
            f"localhost is {address}: put the line '{HOST} localhost' into /etc/hosts"
        )


class Tls:
    """A port of a server for TLS. ca: the authority that has signed its certificate, a path.
    Servers with one directory have one authority; those with one name have one certificate."""

    def __init__(self, directory, port=None, name="server", host=HOST):
        self.directory = directory
        self.port = port or free_ports(1)[0]
        self.ca = directory / "ca.pem"
        self.cert, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        self._name, self._host = name, host

    def prepare(self):
        """Makes the certificates, unless they are there."""
        self.authority = authority.Authority(self.directory)
        if not self.cert.exists():
            self.authority.issue_server(self._name, "localhost", self._host)


class Rabbit(Server):
    """A RabbitMQ node with a port mapper (epmd) of its own. conf: more lines of its rabbitmq.conf.

    With load_definitions among them it has no other users than those, and no vhost. tls: it serves
    TLS at another port as well.
    """

    name = "rabbitmq"
    user = "guest"
    password = "guest"
    node = "drover@localhost"
    node_names = "-sname"  # of erl_call
    queue_arguments = {}  # of the durable queues of tests
    last = None  # that this process has made

    def __init__(self, directory=None, port=None, conf="", tls=TLS, plugins=()):
        super().__init__(directory, port)
        Rabbit.last = self
        self.conf = conf
        self.plugins = plugins
        self.tls = Tls(self.directory / "tls") if tls else None
        self.dist_port, self.epmd_port = free_ports(2)
        self.epmd = None
        self.ctl_path = self.directory / "rabbitmqctl"
        self.evaluate_path = self.directory / "evaluate"

    def rabbitmqctl(self, *arguments, timeout=60):
        """Runs rabbitmqctl for this node, and returns its output; takes 0.6 s a call."""
        done = subprocess.run(
            [str(self.ctl_path), "--quiet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            text=True,
        )
        if done.returncode != 0:
            raise ServerError(f"rabbitmqctl {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def _evaluate(self, expression, timeout=60):
        """Has the node evaluate an Erlang expression that must give ok. This takes 20 ms;
        rabbitmqctl boots a virtual machine of its own, and takes two seconds of processor time."""
        done = subprocess.run(
            [str(self.evaluate_path), expression],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            text=True,
        )
        if done.returncode != 0:
            raise ServerError(f"{expression}: {done.stdout}")

    def add_vhost(self, name):
        """Makes a vhost in which the user may do everything."""
        self._evaluate(
            f'ok = rabbit_vhost:add(<<"{name}">>, <<"test">>), '
            f'rabbit_auth_backend_internal:set_permissions(<<"{self.user}">>, <<"{name}">>, '
            '<<".*">>, <<".*">>, <<".*">>, <<"test">>)'
        )
        self._lift_delivery_limit(name)

    def _lift_delivery_limit(self, vhost):
        """From RabbitMQ 4 on a quorum queue gives up a message that was delivered 20 times. Does
        nothing if there is no such vhost, as with load_definitions."""
        self._evaluate(
            f'ok = case rabbit_vhost:exists(<<"{vhost}">>) of true -> '
            f'rabbit_policy:set(<<"{vhost}">>, <<"drover">>, <<"^drover[.]">>, '
            f'[{{<<"delivery-limit">>, {NO_DELIVERY_LIMIT}}}], 0, <<"queues">>, <<"test">>); '
            'false -> ok end'
        )

    def await_start(self):
        super().await_start()
        self._evaluate("ok = rabbit:await_startup()")  # it listens before rabbitmqctl may be used
        self._lift_delivery_limit("/")

    @contextlib.contextmanager
    def vhost(self, name=None):
        """Makes a new vhost for the time of the block."""
        name = name or f"test-{random.SystemRandom().getrandbits(48):012x}"
        self.add_vhost(name)
        try:
            yield name
        finally:
            if self.process and self.process.alive():
                self._evaluate(f'rabbit_vhost:delete(<<"{name}">>, <<"test">>)')

    def has_acknowledgements(self, vhost, queue):
        """Whether the broker has the acknowledgements of all that it has delivered from a queue.

        What a quorum queue reports is up to five seconds old, so this asks the leader for its
        state.
        """
        try:
            self._evaluate(
                f'Name = rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>), '
                "{ok, Q} = rabbit_amqqueue:lookup(Name), "
                "case amqqueue:get_type(Q) of rabbit_quorum_queue -> {ok, {_, 0}, _} = "
                "ra:leader_query(amqqueue:get_pid(Q), "
                "fun rabbit_fifo:query_messages_checked_out/1); "
                "_ -> [{_, 0}] = rabbit_amqqueue:info(Q, [messages_unacknowledged]) end, ok"
            )
        except ServerError:
            return False
        return True

    def await_acknowledged(self, vhost, queue):
        wait_for(
            lambda: self.has_acknowledgements(vhost, queue),
            f"acknowledgements of the deliveries of {queue}",
        )

    def wipe(self):
        """Kills the node and removes all its data: queues, users, vhosts. start() makes a new
        node."""
        self.kill()
        shutil.rmtree(self.directory / "mnesia")

    def trace(self, vhost):
        """Has each message of a vhost published to its exchange amq.rabbitmq.trace, until the node
        ends.

        The node keeps one list of the vhosts that it traces. rabbit_trace:start reads the list and
        writes it back without a lock: of two calls at the same time one would be lost.
        """
        self._evaluate(
            f'ok = global:trans({{drover_trace, self()}}, '
            f'fun() -> rabbit_trace:start(<<"{vhost}">>) end, [node()])'
        )

    @contextlib.contextmanager
    def deaf(self, vhost, name):
        """During the block the node reads nothing from the connections of that name; they stay
        open."""
        self._evaluate(
            f"""[_ | _] = [sys:suspend(Pid) || Pid <- rabbit_networking:connections(),
            [{{vhost, V}}, {{client_properties, P}}] <-
                [catch rabbit_networking:connection_info(Pid, [vhost, client_properties])],
            V =:= <<"{vhost}">>,
            lists:member({{<<"connection_name">>, longstr, <<"{name}">>}}, P)], ok"""
        )
        try:
            yield
        finally:
            self._evaluate("[catch sys:resume(Pid) || Pid <- rabbit_networking:connections()], ok")

    @contextlib.contextmanager
    def mute(self, vhost, name):
        """During the block the node delivers nothing over the connections of that name; they stay
        open."""
        # catch: a channel of another test may end meanwhile
        channels = "[Channel || Channel <- rabbit_channel:list(), [{connection, Pid}] <- " \
            "[catch rabbit_channel:info(Channel, [connection])], lists:member(Pid, Pids)]"
        self._evaluate(
            f"""Pids = [Pid || Pid <- rabbit_networking:connections(),
            [{{vhost, V}}, {{client_properties, P}}] <-
                [catch rabbit_networking:connection_info(Pid, [vhost, client_properties])],
            V =:= <<"{vhost}">>,
            lists:member({{<<"connection_name">>, longstr, <<"{name}">>}}, P)],
            [_ | _] = [sys:suspend(Channel) || Channel <- {channels}], ok"""
        )
        try:
            yield
        finally:
            self._evaluate("[catch sys:resume(Pid) || Pid <- rabbit_channel:list()], ok")

    def sync(self):
        """Makes the node record its quorum queues now; without this it does so half a second
        later or more. A queue that is not on disk when the node is killed comes back empty and,
        until an election is called, without a leader: consumers and publishers get no answer
        (3.10)."""
        self._evaluate("[ok = dets:sync(Table) || Table <- dets:all()], ok")

    def disk_alarm(self, on):
        """Raises or ends a disk alarm, with the same effect as alarm()."""
        self._evaluate(f"rabbit_disk_monitor:set_disk_free_limit({10**18 if on else 10**7})")

    def alarm(self, on):
        """Raises or ends a memory alarm: the node reads nothing from connections that publish."""
        self._evaluate(
            f"vm_memory_monitor:set_vm_memory_high_watermark({'1.0e-9' if on else 0.4}), ok"
        )

    def stop(self):
        super().stop()
        self._stop_epmd()

    def close(self):
        self._stop_epmd()
        super().close()

    def state(self):
        return {
            **super().state(),
            "dist_port": self.dist_port,
            "epmd_port": self.epmd_port,
            "tls_port": self.tls and self.tls.port,
            "epmd_pid": self.epmd.pid,
            "epmd_started": self.epmd.started,
        }

    def adopt(self, state):
        super().adopt(state)
        self.dist_port = state["dist_port"]
        self.epmd_port = state["epmd_port"]
        self.tls = _adopted_tls(self, state)
        self.epmd = Process(state["epmd_pid"], state["epmd_started"])

    def environment(self):
        return {
            "DROVER_TEST_AMQP_HOST": HOST,
            "DROVER_TEST_AMQP_PORT": str(self.port),
            "DROVER_TEST_AMQP_VHOST": "/",
            "DROVER_TEST_AMQP_USER": self.user,
            "DROVER_TEST_AMQP_PASSWORD": self.password,
            "DROVER_TEST_RABBITMQCTL": str(self.ctl_path),
            "DROVER_TEST_EVALUATE": str(self.evaluate_path),
            **self._tls_environment(),
        }

    def _stop_epmd(self):
        if self.epmd:
            self.epmd.end(signal.SIGKILL)
            self.epmd = None

    def _node_environment(self):
        """Returns the complete environment: no setting of the machine's own RabbitMQ may apply."""
        home = self.directory
        interface = "{" + self.host.replace(".", ",") + "}"
        loopback = f"-kernel inet_dist_use_interface {interface}"
        return {
            "HOME": str(home),  # for the Erlang cookie
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_BASE": str(home),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
            "RABBITMQ_CTL_ERL_ARGS": loopback,
        }

    def _tls_environment(self):
        if not self.tls:
            return {}
        return {"DROVER_TEST_AMQP_TLS_PORT": str(self.tls.port),
                "DROVER_TEST_AMQP_CA_FILE": str(self.tls.ca)}

    def _tls_configuration(self):
        if not self.tls:
            return ""
        self.tls.prepare()
        return (
            f"listeners.ssl.default = {self.host}:{self.tls.port}\n"
            f"ssl_options.cacertfile = {self.tls.ca}\n"
            f"ssl_options.certfile = {self.tls.cert}\n"
            f"ssl_options.keyfile = {self.tls.key}\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
        )

    def _write_configuration(self):
        (self.directory / "rabbitmq.conf").write_text(
            # A test must not fail because the disk is nearly full, or the machine small.
            "disk_free_limit.absolute = 10MB\n"
            "vm_memory_high_watermark.relative = 0.8\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
            + self._tls_configuration() + self.conf
        )
        (self.directory / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")

    def _write_script(self, path, env, text):
        lines = ["#!/bin/sh"]
        lines += [f"export {key}={shlex.quote(value)}" for key, value in env.items()]
        path.write_text("\n".join(lines) + "\n" + text)
        path.chmod(0o700)

    def _write_scripts(self, env):
        """Writes scripts for this test, for programs under test and for people."""
        self._write_script(self.ctl_path, env, f'exec {RABBITMQ_BIN}/rabbitmqctl "$@"\n')
        # Each call has a node name of its own: the node accepts only one connection for each name.
        self._write_script(self.evaluate_path, env, f"""\
answer=$(echo "$1." | erl_call {self.node_names} "$RABBITMQ_NODENAME" -h "test-$$" -e)
[ "$answer" = "{{ok, ok}}" ] || {{ echo "$answer"; exit 1; }}
""")

    def _spawn(self):
        _check_localhost()
        if not RABBITMQ_BIN.is_dir():
            raise ServerError(f"{RABBITMQ_BIN} is missing: install the package rabbitmq-server")
        env = self._node_environment()
        self._write_configuration()
        self._write_scripts(env)
        if not self.epmd:
            # In the foreground: otherwise the node would start one that outlives it.
            epmd = ["epmd", "-address", HOST, "-port", self.epmd_port]
            self.epmd = Process.spawn(epmd, self.directory / "epmd.log", env)
            wait_for(self._epmd_listens, "epmd")
        return Process.spawn([RABBITMQ_BIN / "rabbitmq-server"], self.log, env)

    def _epmd_listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, self.epmd_port), timeout=5).close()
            return True
        return False

    def _serves(self):
        """The listener comes last at boot. It answers with a method frame (1) on channel 0."""
        return self._ask(b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00")


def _adopted_tls(server, state):
    port = state.get("tls_port")
    return Tls(server.directory / "tls", port) if port else None


# --- Redis ---------------------------------------------------------------------------------------


class Redis(Server):
    """A Redis with an append-only file and no snapshots. options: more command line options. tls:
    it serves TLS at another port as well."""

    name = "redis"

    def __init__(self, directory=None, port=None, options=(), tls=TLS):
        super().__init__(directory, port)
        self.options = list(options)
        self.tls = Tls(self.directory / "tls") if tls else None

    def state(self):
        return {**super().state(), "tls_port": self.tls and self.tls.port}

    def adopt(self, state):
        super().adopt(state)
        self.tls = _adopted_tls(self, state)

    def _tls_options(self):
        if not self.tls:
            return []
        self.tls.prepare()
        return ["--tls-port", self.tls.port, "--tls-ca-cert-file", self.tls.ca,
                "--tls-cert-file", self.tls.cert, "--tls-key-file", self.tls.key,
                "--tls-auth-clients", "optional"]

    def environment(self):
        return {"DROVER_TEST_REDIS_HOST": HOST, "DROVER_TEST_REDIS_PORT": str(self.port)}

    def _spawn(self):
        command = [STORE_SERVER, "--bind", HOST, "--port", self.port, "--dir", self.directory]
        # Redis writes its process title over its environment, by which `dev` finds servers that
        # were left behind.
        command += ["--set-proc-title", "no"]
        command += ["--appendonly", "yes", "--save", "", "--daemonize", "no"]
        command += [*self._tls_options(), *self.options]
        return Process.spawn(command, self.log, self._spawn_environment())

    def _spawn_environment(self):
        """None: the environment of this process."""

    def _serves(self):
        """A server that asks for a password serves, too."""
        return self._ask(b"PING\r\n", b"+PONG") or self._ask(b"PING\r\n", b"-NOAUTH")


def _start_all(servers):
    for server in servers:
        server.begin()
    for server in servers:
        server.await_start()


def start_for(test_class, *servers):
    """Starts servers of a test class at the same time; they end with it."""
    for server in servers:
        test_class.addClassCleanup(server.close)
    _start_all(servers)


# --- servers that several processes share ---

SHARED = "DROVER_TEST_SERVERS"  # names the folder of the servers that `run` has started


def shared():
    """Returns the RabbitMQ and the Redis that `run` has started around this program, or None. A
    test must not stop, fill or reconfigure them, because other tests use them at the same time."""
    directory = os.environ.get(SHARED)
    servers = {server.name: server for server in _adopt_all(directory) or []} if directory else {}
    return (servers["rabbitmq"], servers["redis"]) if len(servers) == len(KINDS) else None


# --- command line --------------------------------------------------------------------------------

KINDS = {"rabbitmq": Rabbit, "redis": Redis}


def environment(servers):
    """Returns the variables for tests: DROVER_TEST_{AMQP,REDIS}_{HOST,PORT}, the AMQP ..._VHOST,
    _USER, _PASSWORD, and with TLS _TLS_PORT and _CA_FILE, DROVER_TEST_RABBITMQCTL, a rabbitmqctl
    for that broker, and DROVER_TEST_EVALUATE, which has the broker evaluate an Erlang expression
    and is quicker."""
    return {key: value for server in servers for key, value in server.environment().items()}


def _forward(child):
    """Passes signals that would end this process on to the command, whose end ends this process."""

    def handler(number, _frame):
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def _run(arguments):
    with tempfile.TemporaryDirectory(prefix="drover-servers-") as temporary:
        directory = pathlib.Path(arguments.dir or temporary).absolute()
        kinds = [arguments.only] if arguments.only else list(KINDS)
        servers = [KINDS[kind](directory / kind) for kind in kinds]
        try:
            _start_all(servers)
            env = {**os.environ, **share(directory, servers)}
            with subprocess.Popen(arguments.command, env=env) as child:
                _forward(child)
                code = child.wait()
        finally:
            _close_all()
    return 128 - code if code < 0 else code


def share(directory, servers):
    """Makes these servers those that shared() returns in a process with the returned variables.
    Each has a folder of its name in the directory."""
    _write_state(directory, servers)
    return {**environment(servers), SHARED: str(directory)}


def _state_path(directory):
    return pathlib.Path(directory) / "servers.json"


def _write_state(directory, servers):
    state = {server.name: server.state() for server in servers}
    _state_path(directory).write_text(json.dumps(state, indent=2) + "\n")


def _adopt_all(directory):
    """Returns the servers that another process started, or None."""
    try:
        state = json.loads(_state_path(directory).read_text())
    except FileNotFoundError:
        return None
    servers = []
    for kind, details in state.items():
        server = KINDS[kind](pathlib.Path(directory) / kind, details["port"])
        server.release()
        server.adopt(details)
        servers.append(server)
    return servers


def _up(arguments):
    servers = _adopt_all(arguments.dir)
    if servers and all(server.process.alive() for server in servers):
        print(f"up already, in {arguments.dir}")
        return 0
    for server in servers or []:
        server.stop()
    directory = pathlib.Path(arguments.dir)
    servers = [
        Rabbit(directory / "rabbitmq", arguments.amqp_port),
        Redis(directory / "redis", arguments.redis_port),
    ]
    _start_all(servers)
    _write_state(directory, servers)
    for server in servers:
        print(f"{server.name} {HOST}:{server.port}")
        server.release()
    return 0


DAEMONS_KEYS = {
    "DROVER_TEST_AMQP_PORT": "DROVER_RABBITMQ__PORT",
    "DROVER_TEST_REDIS_PORT": "DROVER_REDIS__PORT",
}


def _env(arguments):
    servers = _adopt_all(arguments.dir)
    if not servers:
        raise ServerError(f"nothing is up in {arguments.dir}")
    for key, value in environment(servers).items():
        print(f"export {key}={shlex.quote(value)}")
        if key in DAEMONS_KEYS:
            print(f"export {DAEMONS_KEYS[key]}={shlex.quote(value)}")
    return 0


def _down(arguments):
    for server in _adopt_all(arguments.dir) or []:
        server.stop()
    _state_path(arguments.dir).unlink(missing_ok=True)
    if arguments.wipe:
        for kind in KINDS:
            shutil.rmtree(pathlib.Path(arguments.dir) / kind, ignore_errors=True)
    return 0


def _parse(argv):
    parser = argparse.ArgumentParser(description="Private RabbitMQ and Redis servers.")
    verbs = parser.add_subparsers(dest="verb", required=True)

    run = verbs.add_parser("run", help="start both, run a command, end both")
    run.add_argument("--dir", help="keep data and logs here (default: temporary)")
    run.add_argument("--only", choices=list(KINDS), help="just this one")
    run.add_argument("command", nargs="+", help="put -- before it")
    run.set_defaults(act=_run)

    up = verbs.add_parser("up", help="start both and leave them running")
    up.add_argument("--amqp-port", type=int, help="default: any free one")
    up.add_argument("--redis-port", type=int, help="default: any free one")
    up.set_defaults(act=_up)

    env = verbs.add_parser("env", help="print the variables of what is up, for eval")
    env.set_defaults(act=_env)

    down = verbs.add_parser("down", help="stop what `up` started; data stay")
    down.add_argument("--wipe", action="store_true", help="remove the data too")
    down.set_defaults(act=_down)

    for verb in (up, env, down):
        verb.add_argument("--dir", required=True, help="where data, logs and servers.json are")
    return parser.parse_args(argv)


def main(argv):
    arguments = _parse(argv)
    try:
        return arguments.act(arguments)
    except ServerError as error:
        print(f"servers.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
