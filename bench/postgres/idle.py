"""What nodes cost that have nothing to do: transactions on the server, and their share of a core."""

from dataclasses import dataclass
from time import monotonic, sleep

import psycopg
from tests.support.postgres_server import PostgresServer

from bench.alone import fresh_folder
from bench.postgres.ledger import filled
from bench.postgres.nodes import NodeProcess, nodes
from bench.postgres.server import conditions, fresh_database, name_in, server
from bench.race import Result, table

STORED = 100_000
NODES = 2
SECONDS = 20
TO_SETTLE = 12
"""Seconds before it counts. The server learns of what an idle connection has done up to ten seconds later."""

GOAL = 5.0
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A second, of one node; and its share of a core."""

    transactions: float
    core: float


def run() -> list[Result]:
    with server() as of, filled(of, STORED) as stock, fresh_database(of, like=stock) as url:
        print(conditions(of), flush=True)
        print(f"{NODES} nodes do nothing for {SECONDS} s, and then nobody does", flush=True)
        with fresh_folder() as folder, nodes(url, folder, NODES) as started:
            found = _measured(of, url, started)
        sleep(TO_SETTLE)
        nobody = _per_second(of, url)
    return judged(Idle(transactions=(found.transactions - nobody) / NODES, core=found.core))


def judged(found: Idle) -> list[Result]:
    rows = [
        ("idle, of one node", f"{STORED:,} stored"),
        ("transactions a second", f"{found.transactions:.1f}"),
        ("share of a core", f"{found.core:.2%}"),
    ]
    print(table(rows))
    return [
        Result(
            what="idle on PostgreSQL, transactions a second of a node",
            measured=f"{found.transactions:.1f}",
            goal=f"under {GOAL:g}",
            is_met=found.transactions < GOAL,
        )
    ]


def _measured(of: PostgresServer, url: str, started: list[NodeProcess]) -> Idle:
    sleep(TO_SETTLE)
    transactions = _per_second(of, url)
    shares = []
    for node in started:
        served = monotonic() - node.ready["at"]
        shares.append(node.done()["processor"] / served)
    return Idle(transactions=transactions, core=sum(shares) / len(shares))


def _per_second(of: PostgresServer, url: str) -> float:
    """Asked over another database, so that asking does not count."""
    with psycopg.connect(of.url, autocommit=True) as admin:
        before, began_at = _so_far(admin, url), monotonic()
        sleep(SECONDS)
        return (_so_far(admin, url) - before) / (monotonic() - began_at)


def _so_far(admin: psycopg.Connection[tuple[int]], url: str) -> int:
    row = admin.execute(TRANSACTIONS, [name_in(url)]).fetchone()
    assert row is not None
    return row[0]
