"""The same beats for one, two and three nodes: several must not be slower than one, and none may starve.

They and the server share the cores of one machine, so several nodes are not faster here. Only harm can show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep

import psycopg
from tests.support.postgres_server import PostgresServer

from bench.postgres.ledger import database_time, insert_due_schedules, ledger
from bench.postgres.node_processes import running_nodes
from bench.postgres.server import checkpoint, describe_server, fresh_database, server
from bench.subprocesses import CONTENDER_TIMEOUT, fresh_folder
from bench.timing import Result, format_table

BEATS = 10_000
NODES = (1, 2, 3)
ROUNDS = 3
WITHIN = timedelta(seconds=6)
"""Time until everything is due: more than inserting it takes."""

MIN_RATE_RATIO = 0.95
"""Relative to the rate of one node. Two rounds of one node differ by more than that on a shared machine."""

MIN_FAIRNESS = 0.5
"""The smallest allowed part of an equal share that a node gets."""

COUNT_RAN_BEATS = "SELECT count(*) FROM beat WHERE outcome = 'ran'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingResult:
    """The combined rate of all nodes, and how many beats each of them ran."""

    rate: float
    counts: tuple[int, ...]

    @property
    def fairness(self) -> float:
        """Return the smallest count relative to an equal share: 1 if all are equal, 0 if one node ran nothing."""
        return min(self.counts) * len(self.counts) / sum(self.counts)


def run() -> list[Result]:
    """Measure in turns, and use the median round of each."""
    rounds: dict[int, list[ScalingResult]] = {count: [] for count in NODES}
    with server() as postgres:
        print(describe_server(postgres), flush=True)
        for _ in range(ROUNDS):
            for count, done in rounds.items():
                done.append(_measure_nodes(postgres, count))
    return evaluate({count: median_round(done) for count, done in rounds.items()})


def median_round(rounds: Sequence[ScalingResult]) -> ScalingResult:
    return sorted(rounds, key=lambda each: each.rate)[len(rounds) // 2]


def evaluate(found: dict[int, ScalingResult]) -> list[Result]:
    alone = found[1].rate
    rows = [("nodes", "together", "beside one node", "beats of each")]
    rows += [
        (str(count), f"{each.rate:,.0f}/s", f"{each.rate / alone:.2f} x", ", ".join(f"{own:,}" for own in each.counts))
        for count, each in found.items()
    ]
    print(format_table(rows))
    scaling = [(count, each) for count, each in found.items() if count > 1]
    return [_speed(count, each.rate / alone) for count, each in scaling] + [_share(*each) for each in scaling]


def _measure_nodes(postgres: PostgresServer, count: int) -> ScalingResult:
    with fresh_database(postgres) as url, fresh_folder() as folder, ledger(url, folder) as store:
        checkpoint(postgres)
        with running_nodes(url, folder, count) as started:
            due_at = insert_due_schedules(store, BEATS, WITHIN)
            left = due_at - database_time(store)
            assert left > timedelta(0), f"{BEATS:,} schedules were not written in {WITHIN}"
            begin = monotonic() + left.total_seconds()
            sleep(max(0.0, begin - monotonic()))
            wait_for_beats(url, BEATS)
            reports = [node.done() for node in started]
    counts = tuple(each["beats"] for each in reports)
    assert sum(counts) == BEATS, counts
    seconds = max(each["last_at"] for each in reports if each["beats"]) - begin
    print(f"{count}: {BEATS:,} in {seconds:.2f} s, {BEATS / seconds:,.0f}/s, {counts}", flush=True)
    return ScalingResult(rate=BEATS / seconds, counts=counts)


def wait_for_beats(url: str, beats: int) -> None:
    """Poll a few times a second until all beats ran. The reports of the nodes have the exact time of the last one."""
    deadline = monotonic() + CONTENDER_TIMEOUT
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(COUNT_RAN_BEATS).fetchone() != (beats,):
            assert monotonic() < deadline, "the nodes do nothing any more"
            sleep(0.25)


def _speed(count: int, ratio: float) -> Result:
    return Result(
        what=f"{count} nodes on PostgreSQL together, beside one",
        measured=f"{ratio:.2f} x",
        goal=f"at least {MIN_RATE_RATIO:g} x",
        is_met=ratio >= MIN_RATE_RATIO,
    )


def _share(count: int, each: ScalingResult) -> Result:
    return Result(
        what=f"{count} nodes on PostgreSQL, the least busy one",
        measured=f"{each.fairness:.2f} of an equal share",
        goal=f"at least {MIN_FAIRNESS:g}",
        is_met=each.fairness >= MIN_FAIRNESS,
    )
