"""Latency of the command line: processor time of a command, and wall time until `up` is ready."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic

from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table

TIMES = 15
GOAL_READY = 1.0
FLEET = """\
version: 1
timezone: Europe/Berlin
commands:
  - { name: backup, command: ["true"], cron: "30 2 * * *" }
  - { name: report, command: ["true"], cron: "0 9 * * 1-5" }
  - { name: poll, command: ["true"], every: 5m }
  - { name: tidy, command: ["true"], every: 1h }
  - { name: weekly, command: ["true"], cron: "@weekly" }
"""
COMMANDS: tuple[tuple[str, Sequence[str], float | None], ...] = (
    ("herdbeat --help", ("--help",), 0.150),
    ("herdbeat next EXPR", ("next", "0 9 * * 1-5"), 0.150),
    ("herdbeat list", ("list",), 0.120),
    ("herdbeat status", ("status",), None),
    ("herdbeat explain", ("explain", "poll"), 0.150),
)
"""What is called, with which words, and its goal in seconds of processor time. Without one it is only printed."""


def run() -> list[Result]:
    with fresh_folder() as folder:
        (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
        ready = median(_time_until_ready(folder) for _ in range(5))
        spent = [(what, _median_cpu_time(folder, words), goal) for what, words, goal in COMMANDS]
    rows = [
        *((what, f"{seconds * 1000:.0f} ms") for what, seconds, _ in spent),
        ("herdbeat up, ready", f"{ready:.2f} s"),
    ]
    print(format_table(rows))
    results = [
        Result(
            what=f"{what}, processor time",
            measured=f"{seconds * 1000:.0f} ms",
            goal=f"under {goal * 1000:.0f} ms",
            is_met=seconds < goal,
        )
        for what, seconds, goal in spent
        if goal is not None
    ]
    goal_ready = f"under {GOAL_READY:.0f} s"
    return [
        *results,
        Result(what="herdbeat up, ready", measured=f"{ready:.2f} s", goal=goal_ready, is_met=ready < GOAL_READY),
    ]


def _median_cpu_time(folder: Path, words: Sequence[str]) -> float:
    """Return the median user and system time of the whole call, including the interpreter's start.

    The first call is not counted: it may compile the modules, which an installation has compiled.
    """
    _cpu_time(folder, words)
    return median(_cpu_time(folder, words) for _ in range(TIMES))


def _cpu_time(folder: Path, words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    nowhere = subprocess.DEVNULL
    subprocess.run(_herdbeat(*words), cwd=folder, env=environ, stdout=nowhere, stderr=nowhere, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _time_until_ready(folder: Path) -> float:
    """Return the seconds of wall time from the call until the node is ready."""
    began = monotonic()
    with subprocess.Popen(_herdbeat("up", "--json"), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "node_ready":
                break
        took = monotonic() - began
        process.terminate()
        process.communicate()
    return took


def _herdbeat(*words: str) -> list[str]:
    """Return the command line of the installed program."""
    return [str(Path(sys.executable).with_name("herdbeat")), *words]
