# SPDX-License-Identifier: Apache-2.0
"""A network of this process and its children alone, in which addresses of this machine can be cut
off from one another

    if not partition.inside():
        partition.enter()                   # starts this program again, in such a network
    partition.cut("127.0.1.1", "127.0.1.2")
    partition.heal()

No packet filter is needed: routing rules lead from one address to the other into nothing. A server
has to bind the address from which it connects to others; processes that do not are not cut off.
"""

import itertools
import os
import subprocess
import sys

INSIDE = "DROVER_TEST_NETWORK"
LOCAL = "1000"  # the place of the rule for local addresses, which is 0 at first
CUT = "10"
# As root, or as one who becomes root in a namespace of users.
WAYS = (["unshare", "--net"], ["unshare", "--map-root-user", "--net"])
SET_UP = ("link set lo up", f"rule add pref {LOCAL} lookup local", "rule del pref 0")


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _works(way):
    command = " && ".join(f"ip {words}" for words in SET_UP)
    try:
        return subprocess.run([*way, "sh", "-c", command], capture_output=True).returncode == 0
    except OSError:
        return False


def inside():
    """Whether this process has such a network."""
    return INSIDE in os.environ


def enter():
    """Starts this program again in such a network, and does not return; returns why that is
    impossible here."""
    for way in WAYS:
        if _works(way):
            environment = {**os.environ, INSIDE: "1"}
            command = [*way, sys.executable, "-B", os.path.abspath(sys.argv[0]), *sys.argv[1:]]
            os.execvpe(command[0], command, environment)
    return "no network of one's own here: be root, and install iproute2"


def prepare():
    """Makes the network ready; call it once, inside."""
    for words in SET_UP:
        _ip(*words.split())


def cut(*addresses):
    """Cuts all of these addresses off from one another."""
    for one, other in itertools.permutations(addresses, 2):
        _ip("rule", "add", "pref", CUT, "from", one, "to", other, "blackhole")


def heal():
    """Ends all cuts."""
    while True:
        try:
            _ip("rule", "del", "pref", CUT)
        except subprocess.CalledProcessError:
            return
