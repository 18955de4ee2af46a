# SPDX-License-Identifier: Apache-2.0
"""The grid: which boundary must survive which fault. The two make a cell, such as B7.F6

Data only. GRID has the demands; DEPARTURES says where Drover does something else, and why.
test_cells.py runs the cells in AROUND, one test each. Other tests name in their docstrings the
cells that they cover. tests/sim/world/feature.c has those that the simulator's worlds must show.
faults_page.py makes docs/FAULTS.md of all these.
"""

import collections

# What must happen in each cell, from the survey that preceded the code.
MUST = """\
The column *must* has one or more of these letters, or names the mechanism that has to answer.

| | what must happen |
|---|---|
| A | nothing has happened, and another try is safe |
| R | the broker delivers the message again |
| I | the store answers the repeated call ALREADY |
| P | the publish is repeated |
| S | the supervisor recovers the step |
| F | the token fences it |
| D | the agent drops the request, or the reply |
| K | the agent kills the handler at its deadline |
| C | the client repeats the Submit or command |
| U | it is unroutable: backoff, not counted |
| Q | it becomes a dead letter |
| W | it waits, and nothing is lost |
| L | it is lost only with `redis.durability = "fast"`, and an alert says so |
| T | the guard against clock jumps applies |
| h | harmless |
"""
GRID = """
B1  |R|R,I|C|I|h|reject EXPIRED|R,C|W,C|L,C|L,C|T|-|-|Q|Q|C|W,C|W,C|R|R|h
B2  |R,I|R,I|C|I|h|C|R|W|L|L|h|-|-|-|-|U|W|h|R|R|h
B3  |A,S|P|-|I|h|S|h|h|L,S|L,S|T|F|F|-|-|-|W|W|A|A,S|h
B4  |P|P,I|S|I|h|D (not sent),S|P|W,S|F|F|h|-|F|-|-|U|W,S|W|P|P|h
B5  |R,S|S|S|I|h|D|R,I|R,I|F|F,S|T,D|D|h|Q|Q|-|h|D,S|R|R,S|h
B6  |S|S,I|-|I|h|K,D|h|h|I|I|T,K|K,D|F|S → threshold|-|-|h|h|finish if lease allows else K|S,K|h
B7  |S|R,I|S|I|h|D|W,S|W,S|F|F|T,D|D,F|F|-|-|U,S|W,S|h|flush ≤ lease|S|h
B8  |R|R,I|S|I|F|F|R|W,R|L,S,I|L,S,I|T|F|F|Q|Q|-|h|allow-oom|R|R|h
B9  |A|I|-|I|h|h|h|h|L,S|L,S|h|F|F|-|-|-|h|allow-oom|A|A|h
B10 |P|P,dup ok|P|dup ok (seq)|seq|h|P|W,P|L,P|L,P|h|-|F|-|-|U,P, then park|W,P|h|P|P|h
B11 |h|lease expiry|-|-|-|F|h|h|F (new epoch)|F|T|F|F|-|-|-|h|W|release|lease expiry|h
B12 |A|I|-|I|h|h|h|h|S (rescan)|S|T|F|F (CAS once)|quarantine step|-|-|h|allow-oom|A|A|h
B13 |A|I,P|S|I|F|F,S|P|W,S|L,S|L,S|T|F|F|COMP_FAILED + alert|Q|U|W,S|allow-oom|A|A,S|h
B14 |A|I|C|I|F|h|R|W|L,C|L,C|T|F|F|Q|Q|C|W|allow-oom|A|A|versioned
"""

# Where Drover does something else: cell -> what, and why.
DEPARTURES = {
    "B1.F6": "REJECTED, with the field `complete_by`: there is no code EXPIRED.",
    "B5.F14": (
        "No dead letter. Before an agent reads a message again that may have killed an agent, it "
        "acknowledges it, so the queue moves on. The crash costs a lease and counts as an expiry; "
        "at `maximum_expiries` the step parks, with an alert. The store counts expiries already, "
        "and those of all hosts (`docs/decisions/0016-what-an-agent-can-know-by-itself.md`)."
    ),
    "B10.F16": (
        "A dead letter, not parked: the notification goes to `drover.dead` after five tries in an "
        "hour. The job has ended, so no step can park, and the dead letter holds the whole "
        "notification."
    ),
    "B12.F14": (
        "The step parks, which has the effect of a quarantine: one dispatch after "
        "`silence_interval_ms`, then each time after twice as long, until the step succeeds or a "
        "person acts."
    ),
    "B13.F14": (
        "An undo that kills its agents parks, with an alert, as a forward action does: an expiry "
        "is no answer of the business. An undo ends COMPENSATION_FAILED, with an alert, if its "
        "agent *reports* that it cannot be done (`on_permanent`), or if its `on_exhausted` is "
        "`compensate` or `fail`. Retry or Resolve lets it go on."
    ),
}

# What no test shows, in any cell.
NOT_SHOWN = (
    "B*.F7, B*.F8 with three brokers: the cells have one node. `./dev test reach` runs a cluster "
    "of three, whose nodes are killed, stopped and cut off (results/reliability.md).",
    "A full disk of the store: in column F17 it is the disk of the broker that is full.",
)

BOUNDARIES = {
    "B1": "the Submit → the record of the job",
    "B2": "the record of the job → Receipt and ack",
    "B3": "the dispatch is recorded, with its token",
    "B4": "the StepRequest is published",
    "B5": "the agent receives the request and takes it up",
    "B6": "the agent runs the handler",
    "B7": "the StepReply is published, the request acknowledged",
    "B8": "the reply → its record",
    "B9": "the job goes on, or ends",
    "B10": "the notification of the end → the client",
    "B11": "the lead of the supervisor",
    "B12": "the supervisor's scan → expiry, recovery",
    "B13": "the job turns back, undoes, has undone",
    "B14": "cancel, forget, new store functions",
}

FAULTS = {
    "F1": "crash before",
    "F2": "crash after",
    "F3": "a message lost",
    "F4": "a message or call doubled",
    "F5": "order changed",
    "F6": "a delay past the deadline",
    "F7": "broker restart",
    "F8": "broker cut off",
    "F9": "store loses its last second",
    "F10": "store failover",
    "F11": "clock jumps forward or steps back",
    "F12": "a process stalls and goes on",
    "F13": "two supervisors",
    "F14": "poison message",
    "F15": "malformed message",
    "F16": "unroutable message",
    "F17": "broker alarm, disk full",
    "F18": "store out of memory",
    "F19": "SIGTERM",
    "F20": "SIGKILL",
    "F21": "reload of the settings",
}


def required():
    """cell -> what must happen in it, without impossible cells."""
    out = {}
    for line in GRID.strip().splitlines():
        boundary, *codes = (word.strip() for word in line.split("|"))
        for fault, code in zip(FAULTS, codes, strict=True):
            if code != "-":
                out[f"{boundary}.{fault}"] = code
    return out


# --- on real processes: a fault at exactly this place ---

# Where the fault strikes; for a crash after the boundary: the place behind it. @job: a kind of
# trial.py; @text: a substring of what must pass before; @nth: only the n-th time; @running: the
# process goes on, and a handler runs.
Place = collections.namedtuple("Place", "role before after job text nth running",
                               defaults=("", 1, False))
PLACES = {
    "B1": Place("scheduler", "delivery.submit", "store.submit.after", "chain"),
    "B2": Place("scheduler", "publish.receipt.before", "publish.receipt.after", "chain"),
    "B3": Place("scheduler", "store.drive.before", "store.drive.after", "unanswered"),
    "B4": Place("scheduler", "publish.request.before", "publish.request.after", "chain"),
    "B5": Place("agent", "delivery.task", "run.before", "chain"),
    "B6": Place("agent", "run.before", "run.after", "long", running=True),
    "B7": Place("agent", "publish.reply.before", "publish.reply.after", "chain"),
    "B8": Place("scheduler", "delivery.replies", "store.record.after", "chain"),
    "B9": Place("scheduler", "store.record.before", "store.record.after", "single"),
    "B10": Place("scheduler", "publish.notice.before", "publish.notice.after", "chain"),
    "B11": Place("supervisor", "store.lead.before", "store.lead.after", "unanswered"),
    "B12": Place("supervisor", "store.expire.before", "store.expire.after", "unanswered"),
    "B13": Place("scheduler", "publish.request.before", "publish.request.after", "denied",
                 text="undo"),
    "B13_begin": Place("scheduler", "store.record.before", "store.record.after", "denied",
                       text="EXIT_65", nth=3),
    "B13_finish": Place("scheduler", "store.record.before", "store.record.after", "denied",
                        text="/a/2", nth=6),
    "B14": Place("scheduler", "store.steer.before", "store.steer.after", "cancelled"),
    "B14_forget": Place("supervisor", "store.forget.before", "store.forget.after", "forgotten"),
}
ALL = tuple(PLACES)


def boundary_of(place):
    """The boundary of a place: a boundary with several places has names such as B13_begin."""
    return place.partition("_")[0]



# What the store forgets: everything from the time at which a process reaches the point @since until
# another one reaches @at.
Loss = collections.namedtuple("Loss", "since_role since role at job", defaults=("chain",))
FIRST_RECORD = ("scheduler", "store.record.before=1*pause")
LOSSES = {
    "B3": Loss("scheduler", "store.drive.before=1*pause", "scheduler", "store.drive.after=1*pause",
               "unanswered"),
    "B4": Loss(*FIRST_RECORD, "scheduler", "publish.request.before=1*pause"),
    "B5": Loss(*FIRST_RECORD, "agent", "delivery.task=1*pause"),
    "B6": Loss(*FIRST_RECORD, "agent", "run.after=1*pause"),
    "B7": Loss(*FIRST_RECORD, "agent", "publish.reply.before=1*pause"),
    "B8": Loss(*FIRST_RECORD, "scheduler", "delivery.replies=1*pause"),
    "B9": Loss(*FIRST_RECORD, "scheduler", "store.record.after=1*pause"),
    "B10": Loss("scheduler", "store.record.before=2*off->1*pause", "scheduler",
                "publish.notice.before=1*pause"),
    "B11": Loss("supervisor", "store.lead.before=1*pause", "supervisor",
                "store.lead.after=1*pause"),
    "B12": Loss("agent", "publish.reply.before=1*drop", "supervisor",
                "store.expire.after=1*pause@job", "unanswered"),
    "B13": Loss(
        "scheduler", "store.record.before=2*off->1*pause",
        "scheduler", "publish.request.before=1*pause@undo", "denied",
    ),
    "B14": Loss("scheduler", "store.steer.before=1*pause", "scheduler", "store.steer.after=1*pause",
                "cancelled"),
}  # fmt: skip

# fault -> places: the cells that test_cells.py runs. test_handlers.py has F6, F12, F19 and F20 at
# B6, where a handler runs.
NO_HANDLER = tuple(place for place in ALL if not PLACES[place].running)
AROUND = {
    "F1": ALL,
    "F2": ALL,
    "F6": ("B4", "B5", "B7", "B8", "B9", "B13", "B13_begin", "B13_finish"),
    "F7": ALL,
    "F8": ALL,
    "F9": tuple(LOSSES),
    "F10": tuple(LOSSES),
    "F12": ("B3", "B5", "B7", "B8", "B9", "B11", "B12", "B13", "B13_begin", "B13_finish", "B14",
            "B14_forget"),
    "F13": ("B5", "B7", "B8", "B9", "B11", "B13_finish", "B14", "B14_forget"),
    "F17": ALL,
    "F18": ALL,
    "F19": NO_HANDLER,
    "F20": NO_HANDLER,
    "F21": ALL,
}
