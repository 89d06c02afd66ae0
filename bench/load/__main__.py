"""`python -m bench.load [--json]`: how fast this machine is, in a store of its own beside you. About a minute."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.load.program import Finding, Size, Step, measure, steps

SLOW_DISK_MS = 2.0
"""The goal of the median lateness, which such a disk uses up alone."""


def main(argv: list[str], folder: Path, size: Size | None = None) -> None:
    """A slow machine is an answer, not an error. Tests give a smaller size."""
    todo = steps(size or Size())
    # Beside the user and not in /tmp, which may be memory: the question is about the disk of the fleet.
    with TemporaryDirectory(dir=folder, prefix=".herdbeat-bench-") as own:
        found = list(measure(todo, Path(own), _show_progress))
    if "--json" in argv:
        print(json.dumps({"items": [_to_json(each) for each in found]}, indent=2))
    else:
        _show(found)


def _show_progress(step: Step, place: int) -> None:
    print(f"{place + 1}. {step.name}", file=sys.stderr, flush=True)


def _show(found: list[Finding]) -> None:
    for each in found:
        mark = "" if not each.goal else "✓" if each.is_met else "✗"
        print(f"{each.name:<60} {each.measured:<28} {each.goal:<24} {mark}".rstrip())
    slowest = found[0].values["p50"]
    if slowest > SLOW_DISK_MS:
        print(f"A durable write takes {slowest:.1f} ms on this disk, and a beat is recorded before it starts.")


def _to_json(each: Finding) -> dict[str, object]:
    return {"name": each.name, "values": each.values, "goal": each.goal or None, "met": each.is_met}


if __name__ == "__main__":
    main(sys.argv[1:], Path.cwd())
