"""Everything due at once on one PostgreSQL: beats a second from claim to durable result, beside those who use one too.

Ours writes a beat, a run and a decision with its reasons for each. What the others write is less: see each script.
Where a peer would take minutes it gets fewer, which favours it: none of them is slower with few.
"""

from dataclasses import dataclass
from statistics import median

from tests.support.postgres_server import PostgresServer

from bench import alone
from bench.alone import Measured, fresh_folder
from bench.environments import NotSetUp
from bench.postgres.ledger import ledger, put_due
from bench.postgres.nodes import nodes
from bench.postgres.server import conditions, fresh_database, rest, server
from bench.race import Result, table

BEATS = 10_000
GOAL = 5_000
ROUNDS = 3
NODE = "pgboss"
"""The peer that is written for Node.js."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A script of `bench/peers` and its words. `at_least` is how many times its rate ours has to be, if it has to."""

    name: str
    environment: str
    script: str
    beats: int = BEATS
    words: tuple[str, ...] = ()
    at_least: float | None

    def run(self, url: str) -> Measured:
        call = alone.node_peer if self.environment == NODE else alone.peer
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
        environment=NODE,
        script="pgboss",
        beats=BEATS // 2,
        words=("1", "20"),
        at_least=1,
    ),
    Contender(name="pg-boss, batches of 500", environment=NODE, script="pgboss", words=("500", "1"), at_least=None),
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
    """Ours runs before, between and after the peers, and its middle round counts: the machine is not ours alone."""
    with server() as of:
        print(conditions(of), flush=True)
        rounds, rates = [_ours(of)], dict[str, float]()
        for at, contender in enumerate(CONTENDERS):
            rate = _peer(of, contender)
            if rate is not None:
                rates[contender.name] = rate
            if at % 2:
                rounds.append(_ours(of))
        # Beside a server that is given, another one would show another machine.
        without_fsync = None if of.home is None else _without_fsync()
    return judged(median(rounds), rates, without_fsync)


def run_ours() -> list[Result]:
    """Ours alone, for who is at work on its speed."""
    with server() as of:
        print(conditions(of), flush=True)
        return [_goal(median(_ours(of) for _ in range(ROUNDS)))]


def judged(ours: float, rates: dict[str, float], without_fsync: float | None = None) -> list[Result]:
    """A peer that was not measured has a row that says so, and no goal."""
    rows = [("beats a second", "rate", "ours is"), ("herdbeat", f"{ours:,.0f}/s", "")]
    if without_fsync is not None:
        rows.append(("herdbeat, the server with fsync off", f"{without_fsync:,.0f}/s", ""))
    rows += [_row(each.name, ours, rates.get(each.name)) for each in CONTENDERS]
    print(table(rows))
    goals = [(each, each.at_least) for each in CONTENDERS if each.name in rates]
    results = [_result(each, at_least, ours / rates[each.name]) for each, at_least in goals if at_least is not None]
    return [*results, _goal(ours)]


def _row(name: str, ours: float, rate: float | None) -> tuple[str, str, str]:
    return (name, "not measured", "") if rate is None else (name, f"{rate:,.0f}/s", f"{ours / rate:.1f} x")


def _ours(of: PostgresServer, name: str = "herdbeat") -> float:
    with fresh_database(of) as url, fresh_folder() as folder:
        with ledger(url, folder) as store:
            put_due(store, BEATS)
        rest(of)
        with nodes(url, folder, 1, until=BEATS) as (node,):
            return _rate(name, node.done())


def _peer(of: PostgresServer, contender: Contender) -> float | None:
    with fresh_database(of) as url:
        rest(of)
        try:
            return _rate(contender.name, contender.run(url))
        except NotSetUp as error:
            print(error, flush=True)
            return None


def _without_fsync() -> float:
    with server(fsync=False) as of:
        return _ours(of, "herdbeat, fsync off")


def _rate(name: str, measured: Measured) -> float:
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
