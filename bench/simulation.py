"""How long a simulation takes: a month of 1,000 schedules, `herdbeat simulate` in a process of its own.

Six in ten run daily, three in ten every six hours, one in ten every hour: 130,000 runs, each claimed and completed by
the real scheduler on a temporary ledger. Wall time depends on what else the machine does, so processor time is shown
beside it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table

SCHEDULES = 1_000
DAYS = 30
GOAL_S = 60.0


def run() -> list[Result]:
    with fresh_folder() as folder:
        (folder / "herdbeat.yaml").write_text(_fleet(), encoding="utf-8")
        before, began = os.times(), perf_counter()
        runs = _simulate(folder)
        wall, after = perf_counter() - began, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    rows = [
        (f"{DAYS} days of {SCHEDULES:,} schedules", "runs", "wall", "processor", "processor per run"),
        ("herdbeat simulate", f"{runs:,}", f"{wall:.1f} s", f"{processor:.1f} s", f"{processor / runs * 1e6:.0f} µs"),
    ]
    print(format_table(rows))
    return [
        Result(
            what=f"simulate {DAYS} days of {SCHEDULES:,} schedules",
            measured=f"{wall:.1f} s ({processor:.1f} s of processor time)",
            goal=f"under {GOAL_S:g} s",
            is_met=wall < GOAL_S,
        )
    ]


def _simulate(folder: Path) -> int:
    command = [sys.executable, "-m", "herdbeat", "simulate", "--days", str(DAYS), "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    runs: int = json.loads(done.stdout)["totals"]["runs"]
    return runs


def _fleet() -> str:
    lines = [_line(number) for number in range(SCHEDULES)]
    return "\n".join(["version: 1", "fleet: { name: bench }", "timezone: UTC", "commands:", *lines, ""])


def _line(number: int) -> str:
    minute, hour = number % 60, number % 24
    match number % 10:
        case 0:
            when = f'cron: "{minute} * * * *"'
        case 1 | 2 | 3:
            when = "every: 6h"
        case _:
            when = f'cron: "{minute} {hour} * * *"'
    return f"  - {{ name: c{number}, command: [x], {when} }}"
