# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ of several nodes for tests, as docs/OPERATIONS.md describes it

    with rabbit_cluster.RabbitCluster() as rabbit:
        c = cluster.Cluster(rabbit, ...)        # its daemons have the list of all nodes
        rabbit.nodes[1].kill(); rabbit.await_running(2)
        rabbit.nodes[1].start(); rabbit.await_running(3)

Each node has an address of its own in 127.0.1.0/24, ports and a folder of its own, and a name of
its own, because one port mapper (epmd) serves all. A queue of a test that must outlive a node is a
quorum queue (queue_arguments).

Inside a network of its own (partition.py) nodes can be cut off from one another: cut_off() and
heal().
"""

import contextlib
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile

import partition
import servers

NET_TICK_S = 10
NET_SETUP_S = 2
START_TIMEOUT_S = 300  # of all nodes together, on a busy machine
COOKIE = "drover-tests"
DEFINITIONS = pathlib.Path(__file__).resolve().parents[2] / "deploy/rabbitmq/definitions.json"


class Node(servers.Rabbit):
    node_names = "-name"
    start_timeout_s = START_TIMEOUT_S
    queue_arguments = {"x-queue-type": "quorum"}

    def __init__(self, group, number, directory):
        self.name = f"rabbitmq-{number}"
        self.host = f"127.0.1.{number}"
        self.node = f"drover{number}@{self.host}"
        self._group = group
        self.paused = False
        super().__init__(directory / self.name, tls=False)
        if servers.TLS:
            self.tls = servers.Tls(directory / "tls", name=self.name, host=self.host)
        self._own_port = True

    def _node_environment(self):
        env = super()._node_environment()
        env["RABBITMQ_USE_LONGNAME"] = "true"  # an address is a long name, and needs no name server
        env["ERL_EPMD_PORT"] = str(self._group.epmd_port)
        address = "{" + self.host.replace(".", ",") + "}"
        env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] += (
            f" -kernel inet_dist_connect_options [{{ip,{address}}}] net_setuptime {NET_SETUP_S}"
        )
        return env

    def _write_configuration(self):
        super()._write_configuration()
        nodes = "".join(
            f"cluster_formation.classic_config.nodes.{number} = {node.node}\n"
            for number, node in enumerate(self._group.nodes, 1)
        )
        with open(self.directory / "rabbitmq.conf", "a", encoding="utf-8") as conf:
            conf.write(
                "cluster_formation.peer_discovery_backend = classic_config\n"
                f"{nodes}"
                "cluster_partition_handling = pause_minority\n"
                f"net_ticktime = {NET_TICK_S}\n"
            )
        traced = ", ".join(f'<<"{vhost}">>' for vhost in sorted(self._group.traced))
        (self.directory / "advanced.config").write_text(
            f"[{{rabbit, [{{trace_vhosts, [{traced}]}}]}}].\n")
        cookie = self.directory / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(COOKIE)
            cookie.chmod(0o400)

    def _spawn(self):
        self.epmd = self._group.epmd  # one for all
        return super()._spawn()

    def _stop_epmd(self):
        pass

    def await_start(self):
        servers.Server.await_start(self)

    def serves(self):
        """Whether clients can use it now."""
        return bool(self.process and self.process.alive() and not self.paused and self._serves())

    def pause(self):
        super().pause()
        self.paused = True

    def resume(self):
        super().resume()
        self.paused = False

    def kill(self):
        super().kill()
        self.paused = False

    def ask(self, expression):
        """Returns the value of an Erlang expression that JSON can express."""
        text = f"binary_to_list(iolist_to_binary(rabbit_json:encode({expression})))"
        done = subprocess.run(
            [str(self.evaluate_path), text],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True,
        )
        kind, _, answer = done.stdout.strip().removeprefix("{").removesuffix("}").partition(", ")
        if kind != "ok":
            raise servers.ServerError(f"{expression}: {done.stdout}")
        return json.loads(answer[1:-1])  # erl_call escapes nothing

    def version(self):
        return self.ask("list_to_binary(rabbit_misc:version())")

    def evaluate(self, expression):
        """Has the node evaluate an expression that must give ok."""
        self._evaluate(expression)


class RabbitCluster(servers.Scope):
    """Has the interface of servers.Rabbit as far as tests of several nodes need it."""

    name = "rabbitmq"
    user, password = Node.user, Node.password
    queue_arguments = Node.queue_arguments

    def __init__(self, nodes=3, directory=None):
        self._temporary = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="drover-rabbitmqs-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.epmd_port,) = servers.free_ports(1)
        self.epmd = None
        self.traced = set()
        self.nodes = []
        self.nodes += [Node(self, number, self.directory) for number in range(1, nodes + 1)]

    # --- begin and end ---

    def start(self):
        self.begin()
        self.await_start()

    def begin(self):
        """The first half of start(). All nodes boot at the same time, and find one another."""
        self._start_epmd()
        for node in self.nodes:
            node.begin()

    def await_start(self):
        for node in self.nodes:
            node.await_start()
        self.await_running(len(self.nodes))
        self.set_policy("/")

    def _start_epmd(self):
        log = self.directory / "epmd.log"
        addresses = ",".join([servers.HOST, *(node.host for node in self.nodes)])
        self.epmd = servers.Process.spawn(
            ["epmd", "-address", addresses, "-port", self.epmd_port], log)
        servers.wait_for(self._epmd_listens, "epmd")

    def _epmd_listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection((servers.HOST, self.epmd_port), timeout=5).close()
            return True
        return False

    def close(self):
        for node in self.nodes:
            node.close()
        if self.epmd:
            self.epmd.end(signal.SIGKILL)
            self.epmd = None
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- as servers.Rabbit ---

    @property
    def addresses(self):
        return [(node.host, node.port) for node in self.nodes]

    @property
    def tls_addresses(self):
        return [(node.host, node.tls.port) for node in self.nodes]

    @property
    def tls(self):
        """Of any node: all have one authority."""
        return self.nodes[0].tls

    def serving(self):
        """Returns the nodes that clients can use."""
        return [node for node in self.nodes if node.serves()]

    def _any(self):
        return servers.wait_for(self.serving, "a node that serves")[0]

    def set_policy(self, vhost):
        """The policy of Drover's queues, as deploy/rabbitmq/definitions.json has it."""
        policies = json.loads(DEFINITIONS.read_text())["policies"]
        (policy,) = (policy for policy in policies if policy["name"] == "drover")
        definition = ", ".join(
            f'{{<<"{key}">>, ' + (f'<<"{value}">>' if isinstance(value, str) else f"{value}") + "}"
            for key, value in policy["definition"].items()
        )
        self._any().evaluate(
            f'rabbit_policy:set(<<"{vhost}">>, <<"drover">>, <<"{policy["pattern"]}">>, '
            f'[{definition}], 0, <<"queues">>, <<"test">>)'
        )

    def add_vhost(self, name):
        self._any().evaluate(
            f'ok = rabbit_vhost:add(<<"{name}">>, <<"test">>), '
            f'rabbit_auth_backend_internal:set_permissions(<<"{self.user}">>, <<"{name}">>, '
            '<<".*">>, <<".*">>, <<".*">>, <<"test">>)'
        )
        self.set_policy(name)
        servers.wait_for(lambda: self._has_vhost(name), f"the vhost {name} on all nodes")

    def _has_vhost(self, name):
        return self._any().ask(
            f'[true || Node <- [node() | nodes()], '
            f'rpc:call(Node, rabbit_vhost_sup_sup, is_vhost_alive, [<<"{name}">>]) =:= true]'
        ) == [True] * len(self.serving())

    @contextlib.contextmanager
    def vhost(self, name=None):
        name = name or f"test-{random.SystemRandom().getrandbits(48):012x}"
        self.add_vhost(name)
        try:
            yield name
        finally:
            if self.serving():
                self._any().evaluate(f'rabbit_vhost:delete(<<"{name}">>, <<"test">>)')

    def trace(self, vhost):
        """As with servers.Rabbit, on each node, also on those that are started later."""
        self.traced.add(vhost)
        for node in self.serving():
            node.trace(vhost)

    def sync(self):
        for node in self.serving():
            node.sync()

    # --- nodes ---

    def await_running(self, count, timeout=START_TIMEOUT_S):
        """Waits until this many nodes run, and each of them knows all of them; if these are all
        nodes, also until each quorum queue can do without any one of them. RabbitMQ says so as soon
        as all members run, although a leader may turn to one that has come back only five seconds
        later, and needs another one until then: so each member must know the leader, too."""
        critical = "" if count < len(self.nodes) else (
            ", rpc:call(Node, rabbit_quorum_queue, list_with_minimum_quorum, []) =:= []"
            ", [Name || Q <- rabbit_amqqueue:list(), {Name, _} <- [amqqueue:get_pid(Q)], "
            "lists:member(Node, rabbit_amqqueue:get_quorum_nodes(Q)), "
            "rpc:call(Node, ra_leaderboard, lookup_leader, [Name]) =:= undefined] =:= []")

        def running(node):
            try:
                return len(node.ask(
                    "[true || Node <- case mnesia:system_info(is_running) of "
                    "yes -> mnesia:system_info(running_db_nodes); _ -> [node() | nodes()] end, "
                    f"rpc:call(Node, rabbit, is_running, []) =:= true{critical}]"))
            except (servers.ServerError, subprocess.TimeoutExpired):
                return 0

        def all_run():
            nodes = self.serving()
            return len(nodes) == count and all(running(node) == count for node in nodes)

        servers.wait_for(all_run, f"{count} nodes of RabbitMQ, see {self.directory}", timeout)

    def connections(self, vhost):
        """Returns the names of the connections that daemons have to each node, by node. A node that
        does not serve has none."""
        names = (
            "[N || Pid <- rabbit_networking:local_connections(), "
            "[{vhost, V}, {client_properties, P}] <- "
            "[catch rabbit_networking:connection_info(Pid, [vhost, client_properties])], "
            f'V =:= <<"{vhost}">>, '
            '{<<"connection_name">>, longstr, N} <- P]'
        )
        return [node.ask(names) if node.serves() else [] for node in self.nodes]

    def close_connections(self, number, vhost):
        """Closes all connections to a node, as `rabbitmqctl close_all_connections` does."""
        self.nodes[number].evaluate(
            "[rabbit_networking:close_connection(Pid, <<\"spread\">>) || "
            "Pid <- rabbit_networking:local_connections(), "
            "[{vhost, V}] <- [catch rabbit_networking:connection_info(Pid, [vhost])], "
            f'V =:= <<"{vhost}">>], ok')

    def _members(self, vhost):
        """Yields (Q, Name, Leader) in Erlang: of each quorum queue."""
        return (
            f'Q <- rabbit_amqqueue:list(<<"{vhost}">>), '
            "amqqueue:get_type(Q) =:= rabbit_quorum_queue, "
            "{ok, _, {Name, Leader}} <- [ra:members(amqqueue:get_pid(Q), 5000)]"
        )

    def leaders(self, vhost):
        """Returns queue -> number of the node that leads it, from 0; of quorum queues that are led.
        """
        numbers = {node.node: number for number, node in enumerate(self.nodes)}
        pairs = self._any().ask(
            "[[element(4, amqqueue:get_name(Q)), atom_to_binary(Leader, utf8)] || "
            + self._members(vhost) + "]")
        return {name: numbers[leader] for name, leader in pairs}

    def node_of(self, vhost, queue):
        """Returns the number of the node that has a queue, or that led it when it was last
        noted."""
        name = self._any().ask(
            f'atom_to_binary(begin {{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, '
            f'queue, <<"{queue}">>)), case amqqueue:get_pid(Q) of {{_, Leader}} -> Leader; '
            "Pid -> node(Pid) end end, utf8)")
        return [node.node for node in self.nodes].index(name)

    def move_leaders(self, vhost, number):
        """Has a node lead all quorum queues of a vhost."""
        self._any().evaluate(
            f"[ra:transfer_leadership({{Name, Leader}}, {{Name, '{self.nodes[number].node}'}}) || "
            + self._members(vhost) + "], ok")

    def cut_off(self, number):
        """Cuts one node off from all others. Clients reach all nodes all the same."""
        victim = self.nodes[number]
        partition.cut([victim.host], [node.host for node in self.nodes if node is not victim])

    def heal(self):
        partition.heal()
