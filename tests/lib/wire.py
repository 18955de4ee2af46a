# SPDX-License-Identifier: Apache-2.0
"""Drover's messages in Python: wire.Submit, wire.Requests, ..., from proto/drover/v1

The modules are generated into the build folder (DROVER_BUILD) whenever a .proto is newer.
"""

import fcntl
import hashlib
import importlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DROVER_BUILD", ROOT / "build")).absolute()
PROTOS = sorted((ROOT / "proto" / "drover" / "v1").glob("*.proto"))


def _generate():
    out = BUILD / "python"
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "stamp", "a+") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # tests run in parallel
        newest = max(proto.stat().st_mtime for proto in PROTOS)
        if not (out / "drover").is_dir() or os.fstat(stamp.fileno()).st_mtime < newest:
            subprocess.run(
                ["protoc", f"--python_out={out}", f"-I{ROOT / 'proto'}", *map(str, PROTOS)],
                check=True,
            )
            os.utime(stamp.name)
    return str(out)


sys.path.insert(0, _generate())
for _proto in PROTOS:
    _module = importlib.import_module(f"drover.v1.{_proto.stem}_pb2")
    for _name, _item in vars(_module).items():
        if not _name.startswith("_") and _name not in ("DESCRIPTOR", "sys"):
            globals()[_name] = _item


def payload(data, content_type="application/octet-stream"):
    return Payload(content_type=content_type, data=data)


def step(name, actor="demo", action="noop", after=(), **fields):
    return Step(name=name, actor=actor, action=action, after=after, **fields)


def chain(length, **fields):
    """Returns steps s0 <- s1 <- ...; the fields are those of each step."""
    return [step(f"s{i}", after=[f"s{i - 1}"] if i else [], **fields) for i in range(length)]


def fan(width, **fields):
    """Returns one step, then `width` parallel steps, then one that waits for all of them."""
    middle = [f"m{i}" for i in range(width)]
    return [
        step("first", **fields),
        *(step(name, after=["first"], **fields) for name in middle),
        step("last", after=middle, take_none=True, **fields),
    ]


def submit(job_id, steps, **fields):
    return Submit(job_id=job_id, definition=Workflow(steps=steps), **fields)


def token_id(token):
    """Returns how a history shows a token: the step and a digest."""
    return f"{token.partition('.')[0]}.{hashlib.sha1(token.encode()).hexdigest()[:8]}"


def is_reply_exchange(name):
    """Whether agents publish Replies there: the exchange of their actor, or the older one for
    all."""
    return name == "drover.replies" or name.startswith("drover.reply.")
