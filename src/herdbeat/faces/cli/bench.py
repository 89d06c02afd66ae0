"""`herdbeat bench`: how fast is it here? The real engine, in a store of its own beside you."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from herdbeat.bench.program import Finding, Size, Step, measure, steps
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.faces.cli.world import Context

_WIDTH = 24
_SLOW_DISK = 2.0
"""Milliseconds. The goal of the median lateness, which such a disk takes all for itself."""


def run(args: ParsedArgs, context: Context, size: Size | None = None) -> int:
    """Always 0: a slow machine is an answer, not an error. Tests give a smaller size."""
    todo = steps(size or Size())
    terminal = context.terminal
    # Beside the user and not in /tmp, which may be memory: the disk of the fleet is what is asked about.
    beside = TemporaryDirectory(dir=context.folder, prefix=".herdbeat-bench-")
    with beside as folder, _progress(terminal, len(todo), is_json=args.has(flags.JSON)) as bar:
        found = list(measure(todo, Path(folder), bar.show))
    if args.has(flags.JSON):
        terminal.print(json.dumps({"items": [_json(each) for each in found]}, indent=2))
    else:
        _show(terminal, found)
    return 0


def _show(terminal: Terminal, found: list[Finding]) -> None:
    rows = [("", "measured", "goal", ""), *(_row(terminal, each) for each in found)]
    for line in terminal.format_table(rows, shrink=(0,)):
        terminal.print(line)
    slowest = found[0].values["p50"]
    if slowest > _SLOW_DISK:
        terminal.info(
            f"A durable write takes {slowest:.1f} ms on this disk, and a beat is recorded before it starts: "
            "lateness cannot be less."
        )


def _row(terminal: Terminal, each: Finding) -> tuple[str, str, str, str]:
    mark = "" if not each.goal else terminal.style("✓", "green") if each.is_met else terminal.style("✗", "yellow")
    return each.name, each.measured, each.goal, mark


def _json(each: Finding) -> dict[str, object]:
    return {"name": each.name, "values": each.values, "goal": each.goal or None, "met": each.is_met}


class _Bar:
    """One line that is written over and over, where somebody watches."""

    def __init__(self, terminal: Terminal, count: int, *, is_seen: bool) -> None:
        self._terminal = terminal
        self._count = count
        self._is_seen = is_seen

    def show(self, step: Step, place: int) -> None:
        if self._is_seen:
            done = _WIDTH * place // self._count
            bar = "█" * done + "░" * (_WIDTH - done)
            self._write(f"\r\x1b[K{bar} {step.name} ({place + 1} of {self._count})")

    def clear(self) -> None:
        if self._is_seen:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._terminal.err.write(text)
        self._terminal.err.flush()


@contextmanager
def _progress(terminal: Terminal, count: int, *, is_json: bool) -> Iterator[_Bar]:
    bar = _Bar(terminal, count, is_seen=not is_json and not terminal.is_quiet and terminal.err.isatty())
    try:
        yield bar
    finally:
        bar.clear()
