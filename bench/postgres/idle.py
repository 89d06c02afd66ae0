"""Cost of idle nodes: transactions on the server, and share of a core."""

from dataclasses import dataclass
from time import monotonic, sleep

import psycopg
from tests.support.postgres_server import PostgresServer

from bench.postgres.ledger import filled_database
from bench.postgres.node_processes import NodeProcess, running_nodes
from bench.postgres.server import database_name, describe_server, fresh_database, server
from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table

STORED = 100_000
NODES = 2
SECONDS = 20
SETTLE_SECONDS = 12
"""Seconds before counting. The statistics of an idle connection reach the server up to ten seconds late."""

GOAL = 5.0
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Transactions per second of one node, and its share of a core."""

    transactions: float
    core: float


def run() -> list[Result]:
    with (
        server() as postgres,
        filled_database(postgres, STORED) as template_url,
        fresh_database(postgres, like=template_url) as url,
    ):
        print(describe_server(postgres), flush=True)
        print(f"{NODES} nodes do nothing for {SECONDS} s, and then nobody does", flush=True)
        with fresh_folder() as folder, running_nodes(url, folder, NODES) as started:
            measured = _measured(postgres, url, started)
        sleep(SETTLE_SECONDS)
        without_nodes = _transactions_per_second(postgres, url)
    return evaluate(Idle(transactions=(measured.transactions - without_nodes) / NODES, core=measured.core))


def evaluate(measured: Idle) -> list[Result]:
    rows = [
        ("idle, of one node", f"{STORED:,} stored"),
        ("transactions a second", f"{measured.transactions:.1f}"),
        ("share of a core", f"{measured.core:.2%}"),
    ]
    print(format_table(rows))
    return [
        Result(
            what="idle on PostgreSQL, transactions a second of a node",
            measured=f"{measured.transactions:.1f}",
            goal=f"under {GOAL:g}",
            is_met=measured.transactions < GOAL,
        )
    ]


def _measured(postgres: PostgresServer, url: str, started: list[NodeProcess]) -> Idle:
    sleep(SETTLE_SECONDS)
    transactions = _transactions_per_second(postgres, url)
    shares = []
    for node in started:
        served = monotonic() - node.ready["at"]
        shares.append(node.done()["processor"] / served)
    return Idle(transactions=transactions, core=sum(shares) / len(shares))


def _transactions_per_second(postgres: PostgresServer, url: str) -> float:
    """Count through a connection to another database, so that the queries themselves do not count."""
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        before, began_at = _transaction_count(admin, url), monotonic()
        sleep(SECONDS)
        return (_transaction_count(admin, url) - before) / (monotonic() - began_at)


def _transaction_count(admin: psycopg.Connection[tuple[int]], url: str) -> int:
    row = admin.execute(TRANSACTIONS, [database_name(url)]).fetchone()
    assert row is not None
    return row[0]
