#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/PROTOCOL.md: its examples, its programs, its tables of fields

    protocol_examples.py check [ROOT] [PROTOC]      fails if the page differs
    protocol_examples.py write [ROOT] [PROTOC]      writes the examples and programs into the page

Between `<!-- example NAME -->` and `<!-- end -->` is the message EXAMPLES[NAME], as Drover writes
it in JSON and as the bytes of its protobuf; between `<!-- file PATH -->` and `<!-- end -->` is that
file. Every message and enum of proto/drover/v1 has a heading, with a table row for each of its
fields or values, in order: `| number | name | type | ...`, or `| number | name | ...`.

Without protoc or Python's protobuf the check is skipped: exit code 77.
"""

import base64
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
PAGE = "docs/PROTOCOL.md"
FILES = ("types", "submit", "task", "control", "event")
PAYLOAD_DATA = "drover.v1.Payload.data"
JSON_TYPE = "application/json"
TEXT_WIDTH = 92
HEX_BYTES = 40  # in a line


# --- the examples --------------------------------------------------------------------------------


def as_json(value):
    data = json.dumps(value, separators=(",", ":")).encode()
    return {"content_type": JSON_TYPE, "data": base64.b64encode(data).decode()}


NOW = 1769861000000  # 2026-01-31T12:03:20Z
TOKEN = "1.nyxB0HvoOmUD2OHEWpty9s"
REPLY_TO = "shop.replies"
WORKFLOW = "order@1"
LABELS = [{"name": "region", "value": "eu"}]
INPUT = as_json({"order": 17})
RESERVED = as_json({"reservation": "r-88"})
CHARGED = as_json({"charge": "ch_52"})
ATTEMPT = {"job_id": "order-17", "step": "charge", "token": TOKEN}
DECLINED = {
    "class": "card_declined",
    "message": "the bank says no",
    "details": "HTTP 402",
    "verdict": "VERDICT_PERMANENT",
    "effect": "EFFECT_NONE",
}
TIMED_OUT = {
    "class": "timeout",
    "message": "no answer from the bank within 5 s",
    "verdict": "VERDICT_TRANSIENT",
    "effect": "EFFECT_UNKNOWN",
}
REQUEST = {
    **ATTEMPT,
    "workflow": WORKFLOW,
    "actor": "payments",
    "action": "charge",
    "desired": "STATE_ACTIVE",
    "current": "STATE_UNKNOWN",
    "attempt": 2,
    "failures": 1,
    "last_error": TIMED_OUT,
    "turn": 1,
    "idempotency_key": "order-17/charge/1",
    "sent_at": NOW,
    "locked_until": NOW + 60000,
    "lock_ms": 30000,
    "heartbeat_ms": 5000,
    "complete_by": NOW + 3600000,
    "arguments": as_json({"currency": "EUR"}),
    "input": INPUT,
    "results": [{"step": "reserve", "payload": RESERVED}],
    "labels": LABELS,
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}
UNDO = {
    "job_id": "order-17",
    "workflow": WORKFLOW,
    "step": "reserve",
    "actor": "stock",
    "action": "release",
    "desired": "STATE_DISABLED",
    "current": "STATE_ACTIVE",
    "token": "0.g6ZR8snQe-QcbpXSsHpD-O",
    "attempt": 2,
    "turn": 2,
    "idempotency_key": "order-17/reserve/2",
    "sent_at": NOW,
    "locked_until": NOW + 120000,
    "lock_ms": 60000,
    "input": INPUT,
    "forward_key": "order-17/reserve/1",
    "forward_result": RESERVED,
    "labels": LABELS,
}


def control(command, body, **more):
    return {"job_id": "order-17", "command_id": "c-1", "issued_at": NOW, command: body, **more}


# Name in the page -> message, fields by their names in the .proto.
EXAMPLES = {
    "Submits": ("Submits", {"submits": [
        {"job_id": job, "workflow": "order", "batches": True}
        for job in ("order-17", "order-18")]}),
    "Receipts": ("Receipts", {"receipts": [
        {"job_id": "order-17", "code": "RECEIPT_CODE_CREATED", "workflow": WORKFLOW, "steps": 2},
        {"job_id": "order-18", "code": "RECEIPT_CODE_ALREADY", "workflow": WORKFLOW, "steps": 2}]}),
    "JobEvents": ("JobEvents", {"events": [
        {"kind": "EVENT_KIND_SETTLED", "job_id": "order-17", "seq": 9,
         "outcome": "OUTCOME_SUCCEEDED"},
        {"kind": "EVENT_KIND_SETTLED", "job_id": "order-18", "seq": 7,
         "outcome": "OUTCOME_SUCCEEDED"}]}),
    "Submit": (
        "Submit",
        {
            "job_id": "order-17",
            "workflow": "order",
            "input": INPUT,
            "complete_by": NOW + 3600000,
            "labels": LABELS,
            "reply_to": REPLY_TO,
        },
    ),
    "Submit with its steps": (
        "Submit",
        {
            "job_id": "order-18",
            "definition": {
                "steps": [
                    {"name": "reserve", "actor": "stock"},
                    {
                        "name": "charge",
                        "actor": "payments",
                        "after": ["reserve"],
                        "lock_ms": 30000,
                        "heartbeat_ms": 5000,
                    },
                ]
            },
        },
    ),
    "Workflow": (
        "Workflow",
        {
            "name": "order",
            "version": 1,
            "steps": [
                {"name": "reserve", "actor": "stock", "revert": {"action": "release"}},
                {
                    "name": "charge",
                    "actor": "payments",
                    "after": ["reserve"],
                    "take": ["reserve"],
                    "arguments": as_json({"currency": "EUR"}),
                    "lock_ms": 30000,
                    "heartbeat_ms": 5000,
                    "retry": {"maximum_attempts": 3, "non_retryable": ["card_declined"]},
                },
            ],
            "retry": {"backoff_coefficient": 1.5},
            "complete_within_ms": 3600000,
        },
    ),
    "Receipt": (
        "Receipt",
        {
            "job_id": "order-17",
            "code": "RECEIPT_CODE_CREATED",
            "workflow": WORKFLOW,
            "steps": 2,
            "recorded_at": NOW,
        },
    ),
    "Receipt of a rejection": (
        "Receipt",
        {
            "job_id": "order-18",
            "code": "RECEIPT_CODE_REJECTED",
            "field": "definition.steps[1].after[0]",
            "reason": 'step "pay": "reserv" is no step of this workflow',
        },
    ),
    "Requests": ("Requests", {"requests": [REQUEST]}),
    "Requests of an undo": ("Requests", {"requests": [UNDO]}),
    "Replies": (
        "Replies",
        {
            "replies": [
                {
                    **ATTEMPT,
                    "achieved": "STATE_ACTIVE",
                    "result": CHARGED,
                    "agent": "payments-1",
                    "duration_ms": 412,
                }
            ]
        },
    ),
    "Replies with a failure": (
        "Replies",
        {
            "replies": [
                {
                    **ATTEMPT,
                    "achieved": "STATE_UNKNOWN",
                    "error": DECLINED,
                    "agent": "payments-1",
                    "duration_ms": 380,
                }
            ]
        },
    ),
    "Replies with progress": (
        "Replies",
        {"progress": [{**ATTEMPT, "fraction": 0.25, "note": "1 of 4", "agent": "payments-1"}]},
    ),
    "ProgressAnswers": (
        "ProgressAnswers",
        {"answers": [{**ATTEMPT, "wanted": True, "locked_until": NOW + 15000, "now": NOW}]},
    ),
    "Query": (
        "Control",
        control("query", {"max_steps": 100}, reply_to=REPLY_TO),
    ),
    "Cancel": (
        "Control",
        control("cancel", {}, if_seq=5, reason="customer changed her mind", reply_to=REPLY_TO),
    ),
    "Recover": (
        "Control",
        {"job_id": "order-17", "issued_at": NOW, "recover": {"steps": [1]}},
    ),
    "Notify": (
        "Control",
        {"job_id": "order-17", "issued_at": NOW, "notify": {"seq": 8}},
    ),
    "SetDesired": ("Control", control("set_desired", {"desired": "STATE_DISABLED"})),
    "Kill": ("Control", control("kill", {})),
    "Pause": ("Control", control("pause", {})),
    "Resume": ("Control", control("resume", {})),
    "Acknowledge": ("Control", control("acknowledge", {})),
    "Retry": (
        "Control",
        control("retry", {"steps": ["charge"], "arguments": as_json({"currency": "USD"})}),
    ),
    "Resolve": (
        "Control",
        control("resolve", {"step": "charge", "state": "STATE_ACTIVE", "result": CHARGED}),
    ),
    "Migrate": ("Control", control("migrate", {"workflow": "order@2"})),
    "Answer": (
        "Answer",
        {
            "job_id": "order-17",
            "command_id": "c-1",
            "code": "ANSWER_CODE_DONE",
            "status": {
                "job_id": "order-17",
                "workflow": WORKFLOW,
                "definition": "5d41402abc4b2a76b9719d911017c592",
                "current": "STATE_DISABLED",
                "desired": "STATE_ACTIVE",
                "phase": "PHASE_PROCESSING",
                "turn": 1,
                "seq": 5,
                "steps_total": 2,
                "steps_open": 1,
                "created": NOW - 9000,
                "updated": NOW - 1000,
                "complete_by": NOW + 3600000,
                "locked_by": "scheduler-1",
                "submitter": "shop",
                "labels": LABELS,
                "steps": [
                    {
                        "name": "reserve",
                        "actor": "stock",
                        "state": "STEP_STATE_DONE",
                        "current": "STATE_ACTIVE",
                        "desired": "STATE_ACTIVE",
                        "turn": 1,
                        "attempt": 1,
                    },
                    {
                        "index": 1,
                        "name": "charge",
                        "actor": "payments",
                        "state": "STEP_STATE_BACKOFF",
                        "current": "STATE_UNKNOWN",
                        "desired": "STATE_ACTIVE",
                        "turn": 1,
                        "attempt": 1,
                        "failures": 1,
                        "until": NOW + 80,
                        "last_error": TIMED_OUT,
                        "after": ["reserve"],
                    },
                ],
                "now": NOW,
            },
        },
    ),
    "JobEvent": (
        "JobEvent",
        {
            "kind": "EVENT_KIND_SETTLED",
            "job_id": "order-17",
            "workflow": WORKFLOW,
            "seq": 8,
            "at": NOW + 412,
            "turn": 1,
            "phase": "PHASE_PROCESSED",
            "outcome": "OUTCOME_SUCCEEDED",
            "results": [{"step": "charge", "payload": CHARGED}],
            "labels": LABELS,
            "steps_total": 2,
        },
    ),
    "JobEvent of an alert": (
        "JobEvent",
        {
            "kind": "EVENT_KIND_ALERT",
            "job_id": "order-17",
            "workflow": WORKFLOW,
            "at": NOW,
            "reason": "PARKED",
            "step": "charge",
        },
    ),
    "JobEvent of a step": (
        "JobEvent",
        {
            "kind": "EVENT_KIND_STEP",
            "job_id": "order-17",
            "workflow": WORKFLOW,
            "at": NOW,
            "step": "charge",
            "step_state": "STEP_STATE_RUNNING",
            "attempt": 2,
            "steps_total": 2,
            "steps_open": 1,
        },
    ),
}


# --- protobuf ------------------------------------------------------------------------------------


def protos(root, protoc):
    """The generated modules of drover.v1."""
    with tempfile.TemporaryDirectory() as out:
        source = root / "proto"
        names = [source / "drover" / "v1" / f"{name}.proto" for name in FILES]
        subprocess.run([protoc, f"--python_out={out}", f"-I{source}", *names], check=True)
        sys.path.insert(0, out)
        return [importlib.import_module(f"drover.v1.{name}_pb2") for name in FILES]


def message_of(modules, name, content):
    from google.protobuf import json_format

    kind = next(getattr(m, name) for m in modules if hasattr(m, name))
    return json_format.ParseDict(content, kind())


# --- JSON as Drover writes it --------------------------------------------------------------------


def shown_value(field, value):
    if field.message_type:
        return shown(value)
    if field.enum_type:
        return field.enum_type.values_by_number[value].name
    if field.type in (field.TYPE_INT64, field.TYPE_UINT64):
        return str(value)
    if field.type == field.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return value


def shown(message):
    """The fields that are not defaults; a payload of JSON shows its value."""
    out = {}
    for field, value in message.ListFields():
        if field.full_name == PAYLOAD_DATA and message.content_type == JSON_TYPE:
            out["json"] = json.loads(value)
        elif field.label == field.LABEL_REPEATED:
            out[field.json_name] = [shown_value(field, item) for item in value]
        else:
            out[field.json_name] = shown_value(field, value)
    return out


def laid_out(value, indent="", before=0):
    """JSON for people: one line if it fits, else one item per line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) <= TEXT_WIDTH or not isinstance(value, (dict, list)):
        return line
    deeper = indent + "  "
    if isinstance(value, list):
        items = [deeper + laid_out(item, deeper) for item in value]
        return "[\n" + ",\n".join(items) + "\n" + indent + "]"
    items = []
    for name, item in value.items():
        head = json.dumps(name) + ": "
        items.append(deeper + head + laid_out(item, deeper, len(head) + 1))
    return "{\n" + ",\n".join(items) + "\n" + indent + "}"


def hex_lines(data):
    return "\n".join(data[i : i + HEX_BYTES].hex() for i in range(0, len(data), HEX_BYTES))


# --- the page ------------------------------------------------------------------------------------

BLOCK = re.compile(r"<!-- (example|file) ([^\n]+) -->\n.*?<!-- end -->", re.DOTALL)


def example_text(modules, name):
    message = message_of(modules, *EXAMPLES[name])
    text, data = laid_out(shown(message)), hex_lines(message.SerializeToString())
    return f"```json\n{text}\n```\n```\n{data}\n```"


FENCES = {".py": "python", ".mjs": "js"}


def file_text(root, path):
    fence = FENCES[pathlib.Path(path).suffix]
    return f"```{fence}\n{(root / path).read_text(encoding='utf-8').rstrip()}\n```"


def rendered(root, modules, page):
    """The page with every block up to date."""

    def block(found):
        kind, name = found.groups()
        text = example_text(modules, name) if kind == "example" else file_text(root, name)
        return f"<!-- {kind} {name} -->\n{text}\n<!-- end -->"

    return BLOCK.sub(block, page)


def block_problems(page, wanted):
    names = [name for kind, name in BLOCK.findall(page) if kind == "example"]
    for name in EXAMPLES:
        if names.count(name) != 1:
            yield f"the example {name} must stand there once, not {names.count(name)} times"
    for was, should in zip(BLOCK.finditer(page), BLOCK.finditer(wanted)):
        if was.group(0) != should.group(0):
            yield f"the {was.group(1)} {was.group(2)} is out of date: run {sys.argv[0]} write"


# --- the tables ----------------------------------------------------------------------------------

HEADING = re.compile(r"^#+ (.*)$")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (?:(repeated \w+|\w+) \|)?")


def described(modules):
    """Heading -> the rows that it must have, for every message and enum."""
    out = {}
    for module in modules:
        for name, message in module.DESCRIPTOR.message_types_by_name.items():
            out[name] = [(f.number, f.name, type_name(f)) for f in message.fields]
        for name, enum in module.DESCRIPTOR.enum_types_by_name.items():
            out[name] = [(v.number, v.name, None) for v in enum.values]
    return {name: sorted(rows) for name, rows in out.items()}


def type_name(field):
    plain = {
        field.TYPE_STRING: "string",
        field.TYPE_BYTES: "bytes",
        field.TYPE_BOOL: "bool",
        field.TYPE_DOUBLE: "double",
        field.TYPE_INT64: "int64",
        field.TYPE_UINT32: "uint32",
        field.TYPE_UINT64: "uint64",
    }
    kind = field.message_type or field.enum_type
    name = kind.name if kind else plain[field.type]
    return f"repeated {name}" if field.label == field.LABEL_REPEATED else name


def tables(page, names):
    """Heading -> its rows in the page as (number, name, type)."""
    out, here = {}, None
    for line in page.splitlines():
        heading, row = HEADING.match(line), ROW.match(line)
        if heading:
            word = heading.group(1).strip("`")
            here = word if word in names else None
            if here:
                out.setdefault(here, [])
        elif row and here:
            out[here].append((int(row.group(1)), row.group(2), row.group(3)))
    return out


def table_problems(page, wanted):
    found = tables(page, wanted)
    for name, rows in wanted.items():
        if name not in found:
            yield f"{name} has no heading"
            continue
        there = found[name]
        if not any(kind for _, _, kind in rows):  # an enum: the meaning follows the name
            there = [(number, value, None) for number, value, _ in there]
        for number, field, kind in rows:
            if (number, field, kind) not in there:
                yield f"{name} has no row | {number} | `{field}` | {kind or ''}"
        for number, field, kind in there:
            if (number, field, kind) not in rows:
                yield f"{name} has a row of no .proto: | {number} | `{field}` | {kind or ''}"
        if there != rows and len(there) == len(rows) and set(there) == set(rows):
            yield f"the rows of {name} are not in order"


# --- the program ---------------------------------------------------------------------------------


def main(argv):
    action = argv[1]
    root = pathlib.Path(argv[2] if len(argv) > 2 else ".")
    try:
        modules = protos(root, argv[3] if len(argv) > 3 else "protoc")
    except (ImportError, FileNotFoundError) as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return SKIPPED
    page = (root / PAGE).read_text(encoding="utf-8")
    wanted = rendered(root, modules, page)
    if action == "write":
        (root / PAGE).write_text(wanted, encoding="utf-8")
        page = wanted
    problems = [*block_problems(page, wanted), *table_problems(page, described(modules))]
    for problem in problems:
        print(f"{PAGE}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv))
