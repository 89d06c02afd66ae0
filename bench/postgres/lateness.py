"""From due to start on PostgreSQL: 500 beats a second beside 100,000 schedules that only lie there."""

from datetime import timedelta
from time import sleep

from tests.support.postgres_server import PostgresServer

from bench.alone import Measured, fresh_folder
from bench.lateness import row_of
from bench.postgres.ledger import filled, ledger, put_ticks
from bench.postgres.nodes import nodes
from bench.postgres.server import conditions, fresh_database, rest, server
from bench.race import Result, table

STORED = 100_000
RATE = 500
SECONDS = 10
WARM_UP = 2
ROUNDS = 3
WITHIN = timedelta(seconds=4)
"""Until the first beat: the node has started and joined by then."""

P50, P99 = 5.0, 25.0


def run() -> list[Result]:
    """The round with the middle p99 counts: the machine is not ours alone."""
    with server() as of, filled(of, STORED) as stock:
        print(conditions(of), flush=True)
        rounds = [_late(of, stock) for _ in range(ROUNDS)]
    return judged(sorted(rounds, key=lambda each: float(each["p99"]))[ROUNDS // 2])


def judged(found: Measured) -> list[Result]:
    what = f"{RATE:,}/s, {STORED:,} stored"
    print(table([("lateness in ms", "p50", "p99", "longest", "starts"), (what, *row_of(found))]))
    return [
        Result(
            what=f"lateness on PostgreSQL at {what}",
            measured=f"p50 {found['p50']:.1f}, p99 {found['p99']:.1f} ms",
            goal=f"at most {P50:g} and {P99:g} ms",
            is_met=found["p50"] <= P50 and found["p99"] <= P99,
        )
    ]


def _late(of: PostgresServer, stock: str) -> Measured:
    with fresh_database(of, like=stock) as url, fresh_folder() as folder, ledger(url, folder) as store:
        rest(of)
        since = put_ticks(store, RATE, WITHIN) + timedelta(seconds=WARM_UP)
        print(f"{RATE:,} beats a second for {SECONDS} s, beside {STORED:,}", flush=True)
        with nodes(url, folder, 1, since=since.timestamp()) as (node,):
            sleep(WITHIN.total_seconds() + WARM_UP + SECONDS)
            late: Measured = node.done()["lateness"]
            return late
