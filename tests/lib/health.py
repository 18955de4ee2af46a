# SPDX-License-Identifier: Apache-2.0
"""The health of daemons, for tests

    c = self.cluster(settings=health.settings())    # each daemon listens on a port of its own
    health.await_ready(*c.daemons)
    health.metrics(c.agents[0])["drover_ready"]
"""

import contextlib
import http.client
import re

import cluster
import servers

SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$")
ROLES = ("scheduler", "agent", "supervisor")


def settings(role_settings=None, **health):
    """Returns settings by which each daemon serves its health on any free port."""
    mine = {"health": {"listen": f"{servers.HOST}:0", **health}}
    return {role: cluster.merged(mine, (role_settings or {}).get(role)) for role in ROLES}


def port_of(daemon):
    return daemon.records("health_listening")[-1]["port"]


def ask(daemon, path, method="GET", timeout=30):
    """Returns (status, headers, body)."""
    connection = http.client.HTTPConnection(servers.HOST, port_of(daemon), timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


def readiness(daemon):
    """Returns (status, body) of /readyz."""
    status, _, body = ask(daemon, "/readyz")
    return status, body


def metrics(daemon):
    """Returns name -> value, without labels."""
    found = {}
    for line in ask(daemon, "/metrics")[2].splitlines():
        if not line.startswith("#"):
            name, _, value = SAMPLE.match(line).groups()
            found[name] = float(value)
    return found


def await_ready(*daemons):
    for daemon in daemons:
        servers.wait_for(
            lambda d=daemon: readiness(d) == (200, "ready\n"), f"{daemon.name} to be ready", 60
        )


def await_reason(reason, *daemons):
    for daemon in daemons:
        servers.wait_for(
            lambda d=daemon: readiness(d)[0] == 503 and reason in readiness(d)[1],
            f"{daemon.name} to say '{reason}'",
            60,
        )
