"""Throughput when everything is due at once, from claim to durable result, compared with APScheduler 3 and 4 and Huey.

herdbeat durably writes a beat, a run and a decision with its reasons for each. The peers write less: see each script.
A peer that would take minutes gets fewer jobs, which favours it: none of them is slower with few.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.subprocesses import Measurement, fresh_folder, run_ours, run_peer
from bench.timing import Result, format_table

BEATS = 10_000
GOAL = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`at_least` is the smallest allowed ratio of our rate to its rate."""

    name: str
    run: Callable[[], Measurement]
    at_least: float | None = None


CONTENDERS = (
    Contender(
        name="APScheduler 3, documented",
        run=lambda: run_peer("apscheduler3", "apscheduler3", BEATS, "documented"),
        at_least=10,
    ),
    Contender(
        name="APScheduler 3, tuned", run=lambda: run_peer("apscheduler3", "apscheduler3", BEATS, "tuned"), at_least=3
    ),
    Contender(
        name="APScheduler 4, documented", run=lambda: run_peer("apscheduler4", "apscheduler4", BEATS // 10), at_least=10
    ),
    Contender(name="Huey, documented", run=lambda: run_peer("huey", "huey_sqlite", BEATS, "documented"), at_least=1),
    Contender(name="Huey, durable", run=lambda: run_peer("huey", "huey_sqlite", BEATS, "durable"), at_least=1),
)


def run() -> list[Result]:
    """Measure ours before, between and after the peers, and use its median round: other processes share the machine."""
    rounds = [_ours()]
    rates: dict[str, float] = {}
    for at, contender in enumerate(CONTENDERS):
        rates[contender.name] = _rate(contender.name, contender.run())
        if at % 2:
            rounds.append(_ours())
    middle = sorted(rounds)[len(rounds) // 2]
    rows = [("beats a second", "rate", "ours is"), ("herdbeat", f"{middle:,.0f}/s", "")]
    rows += [(name, f"{rate:,.0f}/s", f"{middle / rate:.1f} x") for name, rate in rates.items()]
    print(format_table(rows))
    return [
        *(_result(each, middle / rates[each.name]) for each in CONTENDERS),
        Result(what="throughput", measured=f"{middle:,.0f}/s", goal=f"{GOAL:,}/s", is_met=middle >= GOAL),
    ]


def _ours() -> float:
    with fresh_folder() as folder:
        return _rate("herdbeat", run_ours("throughput", folder, beats=BEATS))


def _rate(name: str, measured: Measurement) -> float:
    rate: float = measured["beats"] / measured["seconds"]
    print(f"{name}: {measured['beats']:,} in {measured['seconds']:.2f} s, {rate:,.0f}/s", flush=True)
    return rate


def _result(contender: Contender, ratio: float) -> Result:
    at_least = contender.at_least or 0
    return Result(
        what=f"throughput beside {contender.name}",
        measured=f"{ratio:.1f} x",
        goal=f"at least {at_least:g} x",
        is_met=ratio >= at_least,
    )
