#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passwords for the users of Drover, and the files that RabbitMQ and Redis read them from

    deploy/accounts.py [--dir DIR] [--actor NAME]... [--agent NAME=ACTOR[,ACTOR...]]...
                       [--client NAME]... [--no-shared-agent] [--cluster]
                       [--replication none|quorum]

The users and their rights are in rabbitmq/definitions.json and redis/users.acl beside this file,
without passwords, so nobody can log in with them. This program makes, in DIR (deploy/secrets):

    rabbitmq-USER, redis-USER    one password each, unless the file exists; for ..._PASSWORD_FILE
    rabbitmq-definitions.json    the definitions with the hashes of the passwords; for each actor a
                                 task queue, the exchange of its replies, and the user
                                 drover-agent-ACTOR, who may read that queue and publish to that
                                 exchange only; for load_definitions
    redis-users.acl              the users with the hashes of the passwords; for aclfile

--client makes the user NAME, who may submit and command jobs, and may have reply queues: those that
the broker names, and those whose names begin with NAME and a dot, which the broker deletes when
they were unused for 30 days.

--agent makes the user drover-agent-NAME for an agent of several actors. The user drover-agent may
serve all actors: it is for installations whose agents trust one another, and for the time of an
upgrade. --no-shared-agent leaves it out.

--replication is rabbitmq.replication of the daemons: quorum (the default) defines quorum queues;
none, for one node of RabbitMQ, defines classic queues and drover.marker. RabbitMQ keeps a queue
that it has already as it is: change_queues.py changes its type.

--cluster adds what several nodes of RabbitMQ, and Redis with Sentinels, need (compose.ha.yaml):

    rabbitmq-cookie              the secret that the nodes share
    redis-users.acl              has the users of redis/users.ha.acl as well
    redis-replication            the user as whom a Redis follows the primary; for include
    sentinel-users.acl           the users of redis/sentinel.acl; for aclfile
    sentinel-login               the users as whom a Sentinel logs in; for its configuration

Run it again after a change; it keeps the passwords. To change one, remove its file first. Only the
owner of DIR can enter it. The files in it are readable to all, because containers run as other
users.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import re
import secrets

# For each user that is not one of Drover's own.
LIMITS = {"max-connections": 1000, "max-channels": 2000}
MARKER = "drover.marker"
HERE = pathlib.Path(__file__).resolve().parent
# no dots: a queue "a.b.x" would be named after user "a", too
CLIENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
ACTOR = re.compile(r"[A-Za-z0-9._-]{1,128}")


def write(path, text):
    """Writes a file atomically: a reader finds the old content or the new."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.chmod(0o444)
    new.replace(path)


def password(path):
    """Returns the password in a file, and makes the file if there is none."""
    if not path.exists():
        write(path, secrets.token_urlsafe(32) + "\n")
    word = path.read_text().strip()
    if not word:
        raise SystemExit(f"{path} is empty: remove it for a new password")
    return word.encode()


def rabbitmq_hash(word):
    """Returns the hash of rabbit_password_hashing_sha256."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + word).digest()).decode()


def queue(name, arguments):
    return {"name": name, "vhost": "drover", "durable": True, "auto_delete": False,
            "arguments": arguments}


def fanout(name):
    return {"name": name, "vhost": "drover", "type": "fanout", "durable": True,
            "auto_delete": False, "internal": False, "arguments": {}}


def task_queue(actor):
    """Returns the queue as daemons declare it: a request that no agent takes in time goes to
    drover.expired."""
    return queue(f"drover.task.{actor}",
                 {"x-dead-letter-exchange": "drover.expired", "x-queue-type": "quorum"})


def task_binding(actor):
    return {"source": "drover.tasks", "vhost": "drover", "destination": f"drover.task.{actor}",
            "destination_type": "queue", "routing_key": actor, "arguments": {}}


def reply_binding(actor):
    return {"source": f"drover.reply.{actor}", "vhost": "drover", "destination": "drover.replies",
            "destination_type": "exchange", "routing_key": "", "arguments": {}}


def agent_rights(user, actors):
    """Returns the rights of an agent: to read the requests of its actors, and to reply for these
    only. The exchange of a reply proves its actor."""
    one_of = "|".join(map(re.escape, actors))
    return {"user": user, "vhost": "drover", "configure": r"^drover\.pulse\.",
            "write": rf"^drover\.(reply\.({one_of})|dead|pulse(\..*)?)$",
            "read": rf"^drover\.(task\.({one_of})|pulse(\..*)?)$"}


def client_rights(user):
    """Returns the rights of drover-client, with durable reply queues named after the user, as
    schedulers allow."""
    own = rf"^(amq\.gen|{re.escape(user)}\.).*"
    return {
        "user": user,
        "vhost": "drover",
        "configure": own,
        "write": r"^drover\.(submit|control)$",
        "read": own,
    }


def client_policy(user):
    """Returns the policy of a client's queues: the same size as those that the broker names,
    deleted after a long time without use."""
    definition = {"max-length-bytes": 134217728, "overflow": "drop-head", "expires": 30 * 86400000}
    return {
        "vhost": "drover",
        "name": f"client-{user}",
        "pattern": f"^{re.escape(user)}[.]",
        "apply-to": "queues",
        "priority": 0,
        "definition": definition,
    }


def without(out, user):
    out["users"] = [u for u in out["users"] if u["name"] != user]
    out["permissions"] = [p for p in out["permissions"] if p["user"] != user]


def make_classic(out):
    """Makes all queues classic, and adds the one that shows whether the broker was restarted."""
    for each in out["queues"]:
        each["arguments"]["x-queue-type"] = "classic"
    out["queues"].append(queue(MARKER, {"x-queue-type": "classic", "x-max-length": 1}))
    out["exchanges"].append(fanout(MARKER))
    out["bindings"].append({"source": MARKER, "vhost": "drover", "destination": MARKER,
                            "destination_type": "queue", "routing_key": "", "arguments": {}})


def definitions(directory, actors, agents, clients, shared_agent, replication):
    out = json.loads((HERE / "rabbitmq" / "definitions.json").read_text())
    if not shared_agent:
        without(out, "drover-agent")
    for actor in actors:
        out["queues"].append(task_queue(actor))
        out["exchanges"].append(fanout(f"drover.reply.{actor}"))
        out["bindings"] += [task_binding(actor), reply_binding(actor)]
    if replication == "none":
        make_classic(out)
    for name, served in agents.items():
        user = f"drover-agent-{name}"
        out["users"].append({"name": user, "tags": "", "limits": LIMITS})
        out["permissions"].append(agent_rights(user, served))
    taken = {user["name"] for user in out["users"]}
    for user in clients:
        if user in taken:
            raise SystemExit(f"there is a user {user} already: another name for the client")
        out["users"].append({"name": user, "tags": "", "limits": LIMITS})
        out["permissions"].append(client_rights(user))
        out["policies"].append(client_policy(user))
    for user in out["users"]:
        user["password_hash"] = rabbitmq_hash(password(directory / f"rabbitmq-{user['name']}"))
        user["hashing_algorithm"] = "rabbit_password_hashing_sha256"
    return json.dumps(out, indent=4) + "\n"


def with_password(line, directory):
    name, switch = line.split()[1:3]
    if switch == "off":
        return line
    return f"{line} #{hashlib.sha256(password(directory / f'redis-{name}')).hexdigest()}"


def users(directory, *files):
    rights = {}  # user -> what all files say of it
    for line in "".join((HERE / "redis" / file).read_text() for file in files).splitlines():
        user, more = line.removeprefix("user ").split(" ", 1)
        rights[user] = f"{rights[user]} {more}" if user in rights else f"user {user} {more}"
    return "".join(with_password(line, directory) + "\n" for line in rights.values())


def write_cluster(directory):
    def word(name):
        return password(directory / f"redis-{name}").decode()

    password(directory / "rabbitmq-cookie")
    write(directory / "sentinel-users.acl", users(directory, "sentinel.acl"))
    write(directory / "redis-replication",
          f"masteruser drover-replica\nmasterauth {word('drover-replica')}\n")
    write(directory / "sentinel-login",
          f"sentinel auth-user drover drover-sentinel\n"
          f"sentinel auth-pass drover {word('drover-sentinel')}\n"
          f"sentinel sentinel-user drover-sentinel-peer\n"
          f"sentinel sentinel-pass {word('drover-sentinel-peer')}\n")


def actor_name(text):
    if not ACTOR.fullmatch(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no name of an actor")
    return text


def client_name(text):
    if not CLIENT.fullmatch(text) or text in ("amq", "drover", "guest", "monitor"):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no name for a client: letters, digits, '_' and '-', and not in use"
        )
    return text


def agent_of(text):
    """Parses NAME=ACTOR[,ACTOR...]."""
    name, _, actors = text.partition("=")
    return actor_name(name), sorted({actor_name(actor) for actor in actors.split(",")})


def agents_of(parser, arguments):
    """Returns name -> the actors that it serves."""
    agents = {actor: [actor] for actor in arguments.actor}
    for name, actors in arguments.agent:
        if name in agents:
            parser.error(f"there are two agents called {name}: each --actor makes one of its name")
        agents[name] = actors
    return agents


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dir", type=pathlib.Path, default=HERE / "secrets",
                        help="folder of passwords and generated files (default: deploy/secrets)")
    parser.add_argument(
        "--actor", type=actor_name, action="append", default=[], metavar="NAME",
        help="gets a task queue, an exchange for its replies, and a user; may be given many times",
    )
    parser.add_argument(
        "--agent", type=agent_of, action="append", default=[], metavar="NAME=ACTOR[,ACTOR...]",
        help="a user for an agent of these actors, who get the same; may be given many times",
    )
    parser.add_argument(
        "--client", type=client_name, action="append", default=[], metavar="NAME",
        help="a user who submits jobs, and whose jobs are its own; may be given many times",
    )
    parser.add_argument("--no-shared-agent", dest="shared_agent", action="store_false",
                        help="without the user drover-agent, which may answer for any actor")
    parser.add_argument("--cluster", action="store_true",
                        help="also what several nodes, and Redis with Sentinels, need")
    parser.add_argument("--replication", choices=("none", "quorum"), default="quorum",
                        help="as rabbitmq.replication of the daemons (default: quorum)")
    arguments = parser.parse_args()
    if arguments.cluster and arguments.replication == "none":
        parser.error("--replication none is for one node: with --cluster a queue would be lost "
                     "with its node")
    arguments.dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if arguments.dir.stat().st_mode & 0o077:
        raise SystemExit(f"others can enter {arguments.dir}: chmod 700 it, or choose another --dir")
    agents = agents_of(parser, arguments)
    actors = sorted({actor for served in agents.values() for actor in served})
    write(arguments.dir / "rabbitmq-definitions.json", definitions(
        arguments.dir, actors, agents, sorted(set(arguments.client)), arguments.shared_agent,
        arguments.replication))
    more = ["users.ha.acl"] if arguments.cluster else []
    write(arguments.dir / "redis-users.acl", users(arguments.dir, "users.acl", *more))
    if arguments.cluster:
        write_cluster(arguments.dir)


if __name__ == "__main__":
    main()
