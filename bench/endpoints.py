"""Throughput of HTTP endpoints that are all due at once: claim, request, answer, durable result."""

from statistics import median

from bench.subprocesses import fresh_folder, run_ours
from bench.timing import Result, format_table

BEATS = 5_000
ROUNDS = 3
GOAL = 4_000


def run() -> list[Result]:
    rounds = [_measure() for _ in range(ROUNDS)]
    rate, cost = median(rate for rate, _ in rounds), median(cost for _, cost in rounds)
    print(
        format_table([("endpoints a second", f"{rate:,.0f}/s"), ("processor time of the node", f"{cost:,.0f} us each")])
    )
    return [Result(what="HTTP endpoints", measured=f"{rate:,.0f}/s", goal=f"{GOAL:,}/s", is_met=rate >= GOAL)]


def _measure() -> tuple[float, float]:
    """Return endpoints a second, and microseconds of processor time for each."""
    with fresh_folder() as folder:
        measured = run_ours("endpoints", folder, beats=BEATS)
    assert measured["answered"] == BEATS, f"the server has answered {measured['answered']} of {BEATS} requests"
    return BEATS / measured["seconds"], measured["cpu_seconds"] / BEATS * 1_000_000
