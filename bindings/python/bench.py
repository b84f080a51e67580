#!/usr/bin/env python3
"""Generator.next_id() beside time.time_ns(), interleaved in one run: medians, their ratio, and a verdict.

    build/python/venv/bin/python bindings/python/bench.py      exits 1 if a goal is missed or an ID came twice

What is timed throws its values away, as it does the clock's; before and after, IDs are kept and compared.
"""

import statistics
import sys
import time

import kazahana

LAYOUT = "41-2-20@2026-01-01"
ROUNDS = 41
CALLS = 20_000
BATCH = 1_000
GOALS = {"next_id()": 3.0, "next_ids(1000), for each ID": 0.5}


def clock_calls():
    time_ns = time.time_ns
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        time_ns()
    return time.perf_counter_ns() - started


def empty_calls():
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        pass
    return time.perf_counter_ns() - started


def id_calls(generator, ids):
    next_id = generator.next_id
    ids.append(next_id())
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        next_id()
    spent = time.perf_counter_ns() - started
    ids.extend(next_id() for _ in range(CALLS))
    return spent


def batch_calls(generator, ids):
    next_ids = generator.next_ids
    ids += next_ids(BATCH)
    started = time.perf_counter_ns()
    for _ in range(CALLS // BATCH):
        next_ids(BATCH)
    spent = time.perf_counter_ns() - started
    ids += next_ids(BATCH)
    return spent


def main():
    ids, times = [], {"time.time_ns()": [], "next_id()": [], "next_ids(1000), for each ID": []}
    with kazahana.Generator("static:1", layout=LAYOUT) as generator:
        for _ in range(ROUNDS):
            loop = empty_calls()
            times["time.time_ns()"].append((clock_calls() - loop) / CALLS)
            times["next_id()"].append((id_calls(generator, ids) - loop) / CALLS)
            times["next_ids(1000), for each ID"].append(batch_calls(generator, ids) / CALLS)
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["time.time_ns()"]
    print(f"kazahana {kazahana.version}, Python {sys.version.split()[0]}, layout {LAYOUT}, {ROUNDS} rounds")
    print(f"{'time.time_ns()':<30}{base:8.1f} ns")
    missed = False
    for name, goal in GOALS.items():
        ratio = medians[name] / base
        missed |= ratio > goal
        verdict = "met" if ratio <= goal else "MISSED"
        print(f"{name:<30}{medians[name]:8.1f} ns {ratio:6.2f} x   goal {goal} x: {verdict}")
    unique = len(set(ids)) == len(ids) and ids == sorted(ids)
    print(f"{len(ids)} IDs looked at: {'all different, in order' if unique else 'TWINS OR DISORDER'}")
    return 1 if missed or not unique else 0


if __name__ == "__main__":
    sys.exit(main())
