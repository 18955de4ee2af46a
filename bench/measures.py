# SPDX-License-Identifier: Apache-2.0
"""The measures: each takes the options, starts servers of its own, and returns lines

A line has a name, a value with its unit, and the least and the most of the repetitions. If there is
one, it has the ratio to the bare loop, whose runs alternated with the others on the same servers.
"""

import argparse
import contextlib
import functools
import itertools
import statistics
import time

import pika
import pika.exceptions

import find
import instructions
from stack import Stack, cpu_seconds, recommended

ROLES = ("scheduler", "supervisor", "agent")
YEAR_MS = 365 * 86_400_000
WINDOW = 200  # default number of jobs in flight
TASKS = "drover.task.bench"
IN_FLIGHT = 10_000  # requests, when RabbitMQ is killed
CLIENT_BATCH = 32  # jobs in a message of a client that sends several at a time
_prefixes = itertools.count()


# --- lines ---------------------------------------------------------------------------------------


def line(name, values, unit, base=None, result=None, **more):
    """base: the figure of the bare loop in the same unit."""
    value = statistics.median(values)
    made = {"name": name, "value": round(value, 3), "unit": unit, "min": round(min(values), 3),
            "max": round(max(values), 3)}
    if base:
        made["ratio"] = round(value / base, 3)
    if result:
        made["cpu_us_per_step"] = {k: round(v, 1) for k, v in result["cpu_us_per_step"].items()}
        made["rss_anon_mib"] = result["rss_anon_mib"]
    return made | more


def middle(results, figure="steps_per_second"):
    """Returns the whole result whose figure is the median."""
    return sorted(results, key=lambda r: r[figure])[len(results) // 2]


def line_of(name, results, bare=None, figure="steps_per_second", unit="steps/s", **more):
    base = statistics.median(r[figure] for r in bare) if bare else None
    return line(name, [r[figure] for r in results], unit, base, middle(results, figure), **more)


# --- runs ----------------------------------------------------------------------------------------


def bare(stack, jobs=1000, window=WINDOW, steps=5):
    """Runs the bare loop once; its agent exists as long as it runs."""
    limit = stack.build / "bench/limit"
    stack.start("bare-agent", limit, "agent", "--queue", stack.queue, ready="ready")
    try:
        return stack.measured(limit, "run", "--jobs", jobs, "--window", window, "--steps", steps,
                              "--queue", stack.queue)
    finally:
        stack.stop("bare-agent")


def load(stack, jobs=2000, window=WINDOW, steps=5, **more):
    words = [f"--{name}={value}" if value is not True else f"--{name}"
             for name, value in more.items() if value]
    return stack.measured(stack.build / "bench/load", "--jobs", jobs, "--window", window, "--steps",
                          steps, "--prefix", f"load{next(_prefixes)}", *words)


@contextlib.contextmanager
def drover(options, agent=True, redis=None, replication=None, **settings):
    """Starts servers and a daemon of each role, warmed up; without an agent, cold."""
    with Stack(options, redis, replication) as stack:
        stack.start_daemon("scheduler", **settings)
        stack.start_daemon("supervisor", **settings)
        if agent:
            stack.start_daemon("agent", **settings)
            load(stack, jobs=200)
        yield stack


def in_turn(options, *runs):
    """Runs each function once, as often as the options say. Returns the results of each."""
    results = [[] for _ in runs]
    for _ in range(options.repeat):
        for run, into in zip(runs, results):
            into.append(run())
    return results


# --- the measures --------------------------------------------------------------------------------


def limit(options):
    """The limits: the bare loop, and either server by itself"""
    with Stack(options) as stack:
        binary = stack.build / "bench/limit"
        loops, messages, calls = in_turn(
            options,
            lambda: bare(stack, jobs=2000),
            lambda: stack.run(binary, "broker", "--jobs", 40000, "--queue", stack.queue),
            lambda: stack.run(binary, "store", "--jobs", 100000))
    return [line_of("limit", loops, p50_ms=middle(loops)["p50_ms"]),
            line("limit-broker", [r["per_second"] for r in messages], "messages/s"),
            line("limit-store", [r["per_second"] for r in calls], "calls/s")]


def throughput(options):
    """Chains of five steps; also with batches of Submits and answers, with work, foreign agents, a
    strict store, and a stock one"""
    lines = []
    with drover(options) as stack:
        loops, plain, shared, work = in_turn(
            options, lambda: bare(stack, jobs=2000), lambda: load(stack, jobs=4000),
            lambda: load(stack, jobs=4000, batch=CLIENT_BATCH),
            lambda: load(stack, jobs=2000, sleep=10),
        )
        lines += [line_of("throughput", plain, loops, p50_ms=middle(plain)["p50_ms"],
                          calls_per_step=calls_per_step(stack)),
                  line_of("throughput-batches", shared, loops,
                          of_plain=round(middle(shared)["steps_per_second"] /
                                         middle(plain)["steps_per_second"], 2)),
                  line_of("throughput-work", work, loops)]
    with drover(options) as stack:
        stack.stop("agent")
        for number in range(2):
            stack.start(f"foreign{number or ''}", stack.build / "bench/foreign", "bench",
                        ready="ready")
        loops, foreign = in_turn(options, lambda: bare(stack), lambda: load(stack, jobs=1000))
        lines.append(line_of("throughput-foreign", foreign, loops))
    with drover(options, redis=[*recommended(), "--appendfsync", "always"]) as stack:
        loops, always = in_turn(options, lambda: bare(stack, jobs=600), lambda: load(stack))
        lines.append(line_of("throughput-always", always, loops))
    with drover(options, redis=[]) as stack:
        loops, stock = in_turn(options, lambda: bare(stack), lambda: load(stack))
        lines.append(line_of("throughput-stock", stock, loops))
    return lines


def batch(options):
    """Batches: the same load with agents that take one, two, four, eight requests in a message"""

    def taking(size):
        stack.stop("agent")
        stack.batch = size
        stack.start_daemon("agent")
        load(stack, jobs=200)
        return load(stack)

    sizes = (1, 2, 4, 8)
    with drover(options) as stack:
        loops, *runs = in_turn(options, lambda: bare(stack),
                               *(functools.partial(taking, size) for size in sizes))
    return [line_of(f"batch-{size}", those, loops, p50_ms=middle(those)["p50_ms"],
                    cpu_us=total(those)) for size, those in zip(sizes, runs)]


def calls_per_step(stack):
    """Returns the redis.call()s that one more step of a chain costs, by the server's own
    counters."""
    jobs, more = 40, 20

    def calls(steps):
        before = commands(stack)
        load(stack, jobs, window=1, steps=steps)
        after = commands(stack)
        return {name: after.get(name, 0) - before.get(name, 0) for name in after}

    short, long = calls(5), calls(5 + more)
    found = {name: (long[name] - short.get(name, 0)) / (jobs * more) for name in long}
    return {name: round(each, 2) for name, each in found.items() if each > 0.05}


def commands(stack):
    found = {}
    for text in stack.redis_cli("INFO", "commandstats").splitlines():
        if text.startswith("cmdstat_"):
            name, figures = text[len("cmdstat_"):].split(":")
            found[name] = int(figures.split(",")[0].split("=")[1])
    return found


def latency(options):
    """A chain of five from Submit to the event: alone, fifty in flight, with quorum queues"""
    lines = []
    for behind, more in (
        ("", {}),
        ("-quorum", {"replication": "quorum"}),
    ):
        with drover(options, **more) as stack:
            for name, window, jobs in (("latency-1", 1, 200), ("latency-50", 50, 1000)):
                loops, runs = in_turn(options, lambda: bare(stack, jobs, window),
                                      lambda: load(stack, jobs, window))
                lines.append(line_of(name + behind, runs, loops, "p50_ms", "ms",
                                     p99_ms=middle(runs)["p99_ms"],
                                     bare_ms=round(middle(loops, "p50_ms")["p50_ms"], 3)))
    return lines


def fanout(options):
    """One step, a thousand or nearly ten thousand that depend on it, and one that depends on all"""
    lines = []
    with drover(options) as stack:
        for width, name in ((1000, "fanout"), (9998, "fanout-10000")):
            loops, runs = in_turn(options, lambda: bare(stack, width // 5, WINDOW),
                                  lambda: load(stack, 1, 1, width + 2, fan=True))
            base = (width + 2) / statistics.median(r["steps_per_second"] for r in loops)
            lines.append(line(name, [r["seconds"] for r in runs], "s", base, middle(runs),
                              width=width))
    return lines


def wide(options):
    """The same number of steps in jobs of five, and of up to ten thousand"""
    lines, first = [], None
    with drover(options) as stack:
        for steps in (5, 50, 500, 5000, 10000):
            jobs = max(10000 // steps, 1)
            (runs,) = in_turn(options, lambda: load(stack, jobs, max(1000 // steps, 1), steps,
                                                    fan=True))
            lines.append(line_of(f"wide-{steps}", runs, cpu_us=total(runs)))
            first = first or lines[0]["cpu_us"]
            lines[-1]["of_first"] = round(lines[-1]["cpu_us"] / first, 2)
    return lines


def total(results):
    """Returns processor us of all roles and servers for a step, as the median."""
    return round(statistics.median(sum(r["cpu_us_per_step"].values()) for r in results), 1)


def backlog(options):
    """A hundred thousand jobs at the same time against two hundred in flight"""
    with drover(options) as stack:
        few = load(stack, options.backlog // 10, WINDOW, 1)
        before = stack.memory()["scheduler"]
        many = load(stack, options.backlog, options.backlog, 1)
    return [line("backlog", [many["steps_per_second"]], "steps/s", None, many,
                 of_few=round(many["steps_per_second"] / few["steps_per_second"], 2),
                 scheduler_mib_before=before)]


def payload(options):
    """Inputs and results of a hundred bytes and more"""
    lines = []
    with drover(options) as stack:
        for size in (100, 1024, 4096, 16384, 65536):
            jobs = min(1000, (8 << 20) // size)
            (runs,) = in_turn(options, lambda: load(stack, jobs, 50, payload=size))
            lines.append(line_of(f"payload-{size}", runs, cpu_us=total(runs)))
    return lines


def agents(options):
    """The same load on more and more equal agents"""
    lines = []
    with drover(options) as stack:
        there = 1
        for wanted in (1, 10, 50, 200):
            for number in range(there, wanted):
                stack.start_daemon("agent", number)
            there = wanted
            (runs,) = in_turn(options, lambda: load(stack))
            lines.append(line_of(f"agents-{wanted}", runs, cpu_us=total(runs)))
            lines[-1]["of_first"] = round(lines[-1]["cpu_us"] / lines[0]["cpu_us"], 2)
    return lines


def schedulers(options):
    """One scheduler, and two, on the same load"""

    def both():
        stack.start_daemon("scheduler", 2)
        load(stack, jobs=200)
        try:
            return load(stack)
        finally:
            stack.stop("scheduler2")

    with drover(options) as stack:
        first, second = in_turn(options, lambda: load(stack), both)
    return [line_of("schedulers-1", first, cpu_us=total(first)),
            line_of("schedulers-2", second, first, cpu_us=total(second))]


def tls(options):
    """What encryption costs: daemons that connect in clear text and by TLS, on the same load"""
    plain, encrypted = (argparse.Namespace(**{**vars(options), "tls": on}) for on in (False, True))
    loads = (("", 4000, {}), ("-rate", 2000, {"rate": 600}), ("-1", 300, {"window": 1}))
    lines = []
    with drover(plain) as clear, drover(encrypted) as secure:
        for name, jobs, more in loads:
            before, after = in_turn(options, lambda: load(clear, jobs, **more),
                                    lambda: load(secure, jobs, **more))
            lines.append(line_of(f"tls{name}", after, before, p50_ms=middle(after)["p50_ms"],
                                 clear_p50_ms=middle(before)["p50_ms"],
                                 cpu_of_clear=ratios(before, after)))
    return lines


def ratios(before, after):
    """Returns the processor time of a step of each process, by that of the same before."""

    def median(results, name):
        return statistics.median(r["cpu_us_per_step"][name] for r in results)

    return {name: round(median(after, name) / median(before, name), 2)
            for name in ("scheduler", "agent", "rabbitmq", "redis")}


def restart(options):
    """RabbitMQ is killed with ten thousand requests in it, then with Redis: until all are there
    again"""
    lines = []
    for name, both in (("restart", False), ("restart-redis", True)):
        (runs,) = in_turn(options, functools.partial(sent_again, options, both))
        typical = middle(runs, "all")
        lines.append(line(name, [run["all"] for run in runs], "s", first=typical["first"],
                          half=typical["half"]))
    return lines


def sent_again(options, both):
    """Returns how long after its return the broker has the first request again, half of them, and
    all, in seconds."""
    with drover(options, agent=False) as stack:
        stack.start("load", stack.build / "bench/load", "--jobs", IN_FLIGHT, "--window", IN_FLIGHT,
                    "--steps", 1, ready="")
        rabbit = stack.servers[1]
        while queue_length(rabbit) < IN_FLIGHT:
            time.sleep(0.1)
        stack.stop("load")
        rabbit.kill()
        if both:
            stack.redis.kill()
            stack.redis.start()
        rabbit.start()
        began, found = time.monotonic(), {}
        while "all" not in found:
            there = queue_length(rabbit)
            for part, least in (("first", 1), ("half", IN_FLIGHT // 2), ("all", IN_FLIGHT)):
                if there >= least:
                    found.setdefault(part, round(time.monotonic() - began, 2))
            time.sleep(0.02)
        return found


def queue_length(rabbit):
    try:
        where = pika.ConnectionParameters("127.0.0.1", rabbit.port)
        with contextlib.closing(pika.BlockingConnection(where)) as connection:
            return connection.channel().queue_declare(TASKS, passive=True).method.message_count
    except pika.exceptions.AMQPError:
        return 0  # it is not back yet


def idle(options):
    """Nothing to do: time taken, memory, and how long a start takes"""
    lines = []
    with drover(options) as stack:
        starts = {role: [] for role in ROLES}
        for role in ROLES:
            stack.stop(role)
            for _ in range(options.repeat):
                starts[role].append(1000 * stack.start_daemon(role))
                stack.stop(role)
            stack.start_daemon(role)
        before, began = stack.by_role(cpu_seconds), time.monotonic()
        time.sleep(options.idle)
        after, took = stack.by_role(cpu_seconds), time.monotonic() - began
        memory = stack.memory()
        for role in ROLES:
            percent = 100 * (after[role] - before[role]) / took
            lines.append(line(f"idle-{role}", [percent], "% of a core", None, None,
                              rss_anon_mib={role: memory[role]}))
            lines.append(line(f"start-{role}", starts[role], "ms"))
    return lines


def store_memory(options):
    """Bytes of a job of five steps in Redis, running and ended, by deploy/ and by default"""
    lines = []
    for behind, redis in (("", None), ("-stock", [])):
        lines += [
            line(f"store-memory-settled{behind}", [settled_bytes(options, redis)], "bytes/job"),
            line(f"store-memory-running{behind}", [running_bytes(options, redis)], "bytes/job"),
        ]
    return lines


def settled_bytes(options, redis, jobs=5_000):
    with drover(options, redis=redis) as stack:
        empty = stack.store_bytes()
        load(stack, jobs)
        return (stack.store_bytes() - empty) / jobs


def running_bytes(options, redis, jobs=5_000):
    with drover(options, agent=False, redis=redis) as stack:
        empty = stack.store_bytes()
        stack.start("load", stack.build / "bench/load", "--jobs", jobs, "--window", jobs, ready="")
        while waiting(stack) < jobs:
            time.sleep(0.1)
        return (stack.store_bytes() - empty) / jobs


def waiting(stack):
    """Returns the number of unfinished jobs in the store."""
    return sum(int(stack.redis_cli("ZCARD", f"drover:{{p{p}}}:open")) for p in range(16))


def rewrite(stack):
    """Has Redis rewrite its file, and waits for that; by itself it does so whenever the file has
    doubled."""
    stack.redis_cli("BGREWRITEAOF")
    while any(
        f"aof_rewrite_{state}:1" in stack.redis_cli("INFO", "persistence")
        for state in ("in_progress", "scheduled")
    ):
        time.sleep(0.1)


def growth(options):
    """The same load on a store with more and more jobs in it"""
    lines = []
    with drover(options) as stack:
        there = 0
        for wanted in (10, 1000, 100000, *options.growth):
            # At rest: nothing is due, the outbox is empty, and Redis has rewritten its file.
            find.preload(stack.redis.port, there, wanted, int(1000 * time.time()) + YEAR_MS)
            there = wanted
            rewrite(stack)
            (runs,) = in_turn(options, lambda: load(stack))
            lines.append(line_of(f"growth-{wanted}", runs, cpu_us=total(runs)))
            lines[-1]["of_first"] = round(lines[-1]["cpu_us"] / lines[0]["cpu_us"], 2)
    return lines


MEASURES = {
    "limit": limit,
    "throughput": throughput,
    "batch": batch,
    "latency": latency,
    "fanout": fanout,
    "wide": wide,
    "backlog": backlog,
    "payload": payload,
    "agents": agents,
    "schedulers": schedulers,
    "tls": tls,
    "restart": restart,
    "idle": idle,
    "store-memory": store_memory,
    "growth": growth,
    "find": find.measure,
    "instructions": instructions.measure,
}
