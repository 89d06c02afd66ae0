"""Throughput on one PostgreSQL when everything is due at once, from claim to durable result, compared with peers.

herdbeat writes a beat, a run and a decision with its reasons for each. The peers write less: see each script.
A peer that would take minutes gets fewer jobs, which favours it: none of them is slower with few.
"""

from dataclasses import dataclass
from statistics import median

from tests.support.postgres_server import PostgresServer

from bench import subprocesses
from bench.environments import PeerUnavailable
from bench.postgres.ledger import insert_due_schedules, ledger
from bench.postgres.node_processes import running_nodes
from bench.postgres.server import checkpoint, describe_server, fresh_database, server
from bench.subprocesses import Measurement, fresh_folder
from bench.timing import Result, format_table

BEATS = 10_000
GOAL = 5_000
ROUNDS = 3
NODE_JS_ENVIRONMENT = "pgboss"
"""The environment of the peer that is written for Node.js."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A script of `bench/peers` and its arguments. `at_least` is the smallest allowed ratio of our rate to its rate."""

    name: str
    environment: str
    script: str
    beats: int = BEATS
    words: tuple[str, ...] = ()
    at_least: float | None

    def run(self, url: str) -> Measurement:
        call = subprocesses.run_node_peer if self.environment == NODE_JS_ENVIRONMENT else subprocesses.run_peer
        return call(self.environment, self.script, self.beats, url, *self.words)


CONTENDERS = (
    Contender(
        name="Procrastinate, 10 at a time",
        environment="procrastinate",
        script="procrastinate_postgres",
        beats=BEATS // 5,
        words=("10",),
        at_least=10,
    ),
    Contender(
        name="DBOS, a queue looked at every 10 ms",
        environment="dbos",
        script="dbos_postgres",
        beats=BEATS // 5,
        at_least=10,
    ),
    Contender(
        name="APScheduler 4, documented",
        environment="apscheduler4",
        script="apscheduler4",
        beats=BEATS // 10,
        at_least=10,
    ),
    Contender(
        name="pg-boss, a job at a time in 20 loops",
        environment=NODE_JS_ENVIRONMENT,
        script="pgboss",
        beats=BEATS // 2,
        words=("1", "20"),
        at_least=1,
    ),
    Contender(
        name="pg-boss, batches of 500",
        environment=NODE_JS_ENVIRONMENT,
        script="pgboss",
        words=("500", "1"),
        at_least=None,
    ),
    Contender(
        name="PgQueuer, batches of 10, documented",
        environment="pgqueuer",
        script="pgqueuer_postgres",
        words=("10",),
        at_least=None,
    ),
    Contender(
        name="PgQueuer, batches of 500",
        environment="pgqueuer",
        script="pgqueuer_postgres",
        words=("500",),
        at_least=None,
    ),
)


def run() -> list[Result]:
    """Measure ours before, between and after the peers, and use its median round: other processes share the machine."""
    with server() as postgres:
        print(describe_server(postgres), flush=True)
        rounds, rates = [_ours(postgres)], dict[str, float]()
        for at, contender in enumerate(CONTENDERS):
            rate = _peer(postgres, contender)
            if rate is not None:
                rates[contender.name] = rate
            if at % 2:
                rounds.append(_ours(postgres))
        # A given server may be on another machine, so a private one would not be comparable.
        without_fsync = None if postgres.home is None else _without_fsync()
    return evaluate(median(rounds), rates, without_fsync)


def run_ours() -> list[Result]:
    """Measure ours only, for work on its speed."""
    with server() as postgres:
        print(describe_server(postgres), flush=True)
        return [_goal(median(_ours(postgres) for _ in range(ROUNDS)))]


def evaluate(ours: float, rates: dict[str, float], without_fsync: float | None = None) -> list[Result]:
    """Print the table and return the goals. A peer that was not measured has a row that says so, and no goal."""
    rows = [("beats a second", "rate", "ours is"), ("herdbeat", f"{ours:,.0f}/s", "")]
    if without_fsync is not None:
        rows.append(("herdbeat, the server with fsync off", f"{without_fsync:,.0f}/s", ""))
    rows += [_row(each.name, ours, rates.get(each.name)) for each in CONTENDERS]
    print(format_table(rows))
    goals = [(each, each.at_least) for each in CONTENDERS if each.name in rates]
    results = [_result(each, at_least, ours / rates[each.name]) for each, at_least in goals if at_least is not None]
    return [*results, _goal(ours)]


def _row(name: str, ours: float, rate: float | None) -> tuple[str, str, str]:
    return (name, "not measured", "") if rate is None else (name, f"{rate:,.0f}/s", f"{ours / rate:.1f} x")


def _ours(postgres: PostgresServer, name: str = "herdbeat") -> float:
    with fresh_database(postgres) as url, fresh_folder() as folder:
        with ledger(url, folder) as store:
            insert_due_schedules(store, BEATS)
        checkpoint(postgres)
        with running_nodes(url, folder, 1, until=BEATS) as (node,):
            return _rate(name, node.done())


def _peer(postgres: PostgresServer, contender: Contender) -> float | None:
    with fresh_database(postgres) as url:
        checkpoint(postgres)
        try:
            return _rate(contender.name, contender.run(url))
        except PeerUnavailable as error:
            print(error, flush=True)
            return None


def _without_fsync() -> float:
    with server(fsync=False) as postgres:
        return _ours(postgres, "herdbeat, fsync off")


def _rate(name: str, measured: Measurement) -> float:
    rate: float = measured["beats"] / measured["seconds"]
    print(f"{name}: {measured['beats']:,} in {measured['seconds']:.2f} s, {rate:,.0f}/s", flush=True)
    return rate


def _result(contender: Contender, at_least: float, ratio: float) -> Result:
    return Result(
        what=f"throughput on PostgreSQL beside {contender.name}",
        measured=f"{ratio:.1f} x",
        goal=f"at least {at_least:g} x",
        is_met=ratio >= at_least,
    )


def _goal(rate: float) -> Result:
    return Result(what="throughput on PostgreSQL", measured=f"{rate:,.0f}/s", goal=f"{GOAL:,}/s", is_met=rate >= GOAL)
