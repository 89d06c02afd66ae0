"""A million agents over several fleets: `python -m bench.partitions [AGENTS] [BEATS_PER_SECOND]`.

Fleets share nothing: each has its own ledger, and an agent belongs to the one that the hash of its name selects. One
hour is simulated, second by second, in which every agent is due once. What a second brings beyond the rate of its fleet
waits in line. The rate is that of the benchmarks; what a run needs on the machine that executes it is not part of it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from zlib import crc32

from bench.timing import format_table

AGENTS = 1_000_000
RATE = 7_500
"""Beats per second of one node on PostgreSQL, measured: see docs/reference/benchmarks.md."""

FLEETS = (1, 2, 4, 8)
HOUR_S = 3_600

Second = Callable[[Random], int]
CALENDARS: dict[str, Second] = {
    'all "0 * * * *"': lambda _: 0,
    'all "0 * * * *" with jitter: 10m': lambda rng: rng.randrange(600),
    'crons at any minute, "M * * * *"': lambda rng: 60 * rng.randrange(60),
    "every: 1h, wherever each began": lambda rng: rng.randrange(HOUR_S),
}


def main(agents: int, rate: int) -> None:
    print(f"{agents:,} agents, each due once in an hour; {rate:,} beats/s for each fleet")
    rows = [
        ("calendar", "fleets", "agents of the largest", "most in one second", "longest wait, s", "beats late > 1 s")
    ]
    hashes = [crc32(f"agent-{number}".encode()) for number in range(agents)]
    for name, choose in CALENDARS.items():
        rng = Random(0)
        seconds = [choose(rng) for _ in range(agents)]
        for fleets in FLEETS:
            arrivals = _split(hashes, seconds, fleets)
            waits = [_queue(each, rate) for each in arrivals]
            busiest = max(max(each.values()) for each in arrivals)
            longest, late = max(wait for wait, _ in waits), sum(late for _, late in waits)
            largest = max(each.total() for each in arrivals)
            rows.append((name, str(fleets), f"{largest:,}", f"{busiest:,}", f"{longest:.1f}", f"{late / agents:.1%}"))
    print(format_table(rows))


def _split(hashes: Iterable[int], seconds: Iterable[int], fleets: int) -> list[Counter[int]]:
    """Return by fleet how many of its agents are due in each second."""
    together = Counter((number % fleets, second) for number, second in zip(hashes, seconds, strict=True))
    arrivals: list[Counter[int]] = [Counter() for _ in range(fleets)]
    for (fleet, second), count in together.items():
        arrivals[fleet][second] = count
    return arrivals


def _queue(arrivals: Counter[int], rate: int) -> tuple[float, int]:
    """Return the longest wait in seconds, and how many wait for more than one: first come, first served."""
    backlog, longest, late = 0, 0.0, 0
    for second in _until_drained(arrivals):
        new = arrivals[second]
        if new:
            last_wait = (backlog + new) / rate
            longest = max(longest, last_wait)
            late += min(new, max(0, backlog + new - rate))
        backlog = max(0, backlog + new - rate)
    return longest, late


def _until_drained(arrivals: Counter[int]) -> Iterable[int]:
    """Return the seconds of the hour: who still waits at its end was counted when it came."""
    return range(max(arrivals, default=0) + 1)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*(given + [AGENTS, RATE][len(given) :]))
