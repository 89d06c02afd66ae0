"""The cost of a million schedules that are not due, and of applying a hundred thousand new ones."""

from time import time

from bench.subprocesses import fresh_folder, run_ours
from bench.timing import Result, format_table

STORED = 1_000_000
APPLIED = 100_000
SECONDS = 10


def run() -> list[Result]:
    with fresh_folder() as folder:
        print(f"filling a store with {STORED:,} schedules", flush=True)
        run_ours("fill", folder, stored=STORED)
        print(f"idle for {SECONDS} s", flush=True)
        idle = run_ours("idle", folder, seconds=SECONDS, began_at=time())
    with fresh_folder() as folder:
        print(f"applying {APPLIED:,} new schedules", flush=True)
        applied = run_ours("apply", folder, schedules=APPLIED)
    rows = [
        ("idle, share of a core", idle["core"], 0.01, "{:.2%}"),
        ("idle, memory in MiB", idle["mebibytes"], 120, "{:.0f}"),
        ("idle, seconds from start to ready", idle["ready_after"], 1, "{:.2f}"),
        (f"apply {APPLIED:,} new, seconds", applied["seconds"], 10, "{:.1f}"),
    ]
    print(format_table([(what, form.format(measured)) for what, measured, _, form in rows]))
    return [
        Result(
            what=what, measured=form.format(measured), goal=f"under {form.format(goal)}", is_met=bool(measured < goal)
        )
        for what, measured, goal, form in rows
    ]
