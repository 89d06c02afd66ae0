"""`python -m bench.load [--json]`: measure this machine with a store in the current folder, for a minute."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.load.suite import Step, StepResult, SuiteSize, build_steps, run_steps

SLOW_DISK_MS = 2.0
"""The goal of the median lateness: a disk this slow uses all of it."""


def main(argv: list[str], folder: Path, size: SuiteSize | None = None) -> None:
    """Print the results; missed goals are no error. Tests pass a smaller size."""
    steps = build_steps(size or SuiteSize())
    # In the current folder, not in /tmp, which may be in memory: the disk of the fleet is what matters.
    with TemporaryDirectory(dir=folder, prefix=".herdbeat-bench-") as own:
        results = list(run_steps(steps, Path(own), _show_progress))
    if "--json" in argv:
        print(json.dumps({"items": [_to_json(result) for result in results]}, indent=2))
    else:
        _show(results)


def _show_progress(step: Step, place: int) -> None:
    print(f"{place + 1}. {step.name}", file=sys.stderr, flush=True)


def _show(results: list[StepResult]) -> None:
    for result in results:
        mark = "" if not result.goal else "✓" if result.is_met else "✗"
        print(f"{result.name:<60} {result.measured:<28} {result.goal:<24} {mark}".rstrip())
    slowest = results[0].values["p50"]
    if slowest > SLOW_DISK_MS:
        print(f"A durable write takes {slowest:.1f} ms on this disk, and a beat is recorded before it starts.")


def _to_json(result: StepResult) -> dict[str, object]:
    return {"name": result.name, "values": result.values, "goal": result.goal or None, "met": result.is_met}


if __name__ == "__main__":
    main(sys.argv[1:], Path.cwd())
