"""How long the terminal lets people wait: processor time until a command has answered, and until `up` is ready."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic

from bench.alone import fresh_folder
from bench.race import Result, table

TIMES = 15
GOAL = 0.150
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
ASKED: tuple[tuple[str, Sequence[str]], ...] = (
    ("herdbeat --help", ("--help",)),
    ("herdbeat next EXPR", ("next", "0 9 * * 1-5")),
    ("herdbeat list", ("list",)),
    ("herdbeat status", ("status",)),
    ("herdbeat explain", ("explain", "poll")),
)
"""The first three have a goal; the others are here to be seen."""

WITH_GOAL = 3


def run() -> list[Result]:
    with fresh_folder() as folder:
        (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
        ready = median(_ready(folder) for _ in range(5))
        spent = [(what, _processor(folder, words)) for what, words in ASKED]
    rows = [*((what, f"{seconds * 1000:.0f} ms") for what, seconds in spent), ("herdbeat up, ready", f"{ready:.2f} s")]
    print(table(rows))
    results = [
        Result(
            what=f"{what}, processor time",
            measured=f"{seconds * 1000:.0f} ms",
            goal=f"under {GOAL * 1000:.0f} ms",
            is_met=seconds < GOAL,
        )
        for what, seconds in spent[:WITH_GOAL]
    ]
    goal = f"under {GOAL_READY:.0f} s"
    return [
        *results,
        Result(what="herdbeat up, ready", measured=f"{ready:.2f} s", goal=goal, is_met=ready < GOAL_READY),
    ]


def _processor(folder: Path, words: Sequence[str]) -> float:
    """The median of user and system time of the whole call, the interpreter's own start included."""
    return median(_once(folder, words) for _ in range(TIMES))


def _once(folder: Path, words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(_herdbeat(*words), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ready(folder: Path) -> float:
    """Seconds on the wall from the call until the node takes up work."""
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
    """The installed program, as people call it."""
    return [str(Path(sys.executable).with_name("herdbeat")), *words]
