# SPDX-License-Identifier: Apache-2.0
"""A network of this process and its children alone, in which addresses of this machine can be cut
off from one another

    if not partition.inside():
        partition.enter()                   # starts this program again, in such a network
    partition.cut(["127.0.1.1"], ["127.0.1.2", "127.0.1.3"])
    partition.heal()

No packet filter is needed: routing rules lead from one address to the other into an interface that
drops everything. Open connections fall silent, and new ones get no answer, as if a cable were cut.
A server has to bind the address from which it connects to others; all other processes connect from
127.0.0.1.
"""

import os
import subprocess
import sys

INSIDE = "DROVER_TEST_NETWORK"
CUT = 10  # the place of the rules of cuts, and their routing table
# As root, or as one who becomes root in a namespace of users.
WAYS = (["unshare", "--net"], ["unshare", "--map-root-user", "--net"])
# The rule for local addresses, whose place is 0 at first, comes after those of cuts. The other end
# of the interface is down. Without `arp off` the kernel itself would answer that there is no route.
SET_UP = f"""\
ip link set lo up
ip rule add pref 1000 lookup local
ip rule del pref 0
ip link add nowhere type veth peer name beyond
ip link set nowhere arp off up
echo 1 >/proc/sys/net/ipv4/conf/nowhere/route_localnet
ip route add default dev nowhere table {CUT}
"""


def _set_up(way=()):
    subprocess.run([*way, "sh", "-ec", SET_UP], check=True, capture_output=True)


def _works(way):
    try:
        _set_up(way)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


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
    _set_up()


def cut(one_side, other_side):
    """Cuts each address of one side off from each of the other, in both directions."""
    pairs = [pair for one in one_side for other in other_side
             for pair in ((one, other), (other, one))]
    rules = "".join(f"rule add pref {CUT} from {source} to {target} lookup {CUT}\n"
                    for source, target in pairs)
    subprocess.run(["ip", "-batch", "-"], input=rules, text=True, check=True, capture_output=True)


def heal():
    """Ends all cuts."""
    while subprocess.run(["ip", "rule", "del", "pref", str(CUT)],
                         capture_output=True).returncode == 0:
        pass
