"""The same beats for one node, for two and for three: are several ever slower than one, and does any of them starve?

They and the server share the cores of one machine, so nobody is faster for it here. What is looked for is the harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep

import psycopg
from tests.support.postgres_server import PostgresServer

from bench.alone import PATIENCE, fresh_folder
from bench.postgres.ledger import ledger, put_due, time_of
from bench.postgres.nodes import nodes
from bench.postgres.server import conditions, fresh_database, rest, server
from bench.race import Result, table

BEATS = 10_000
NODES = (1, 2, 3)
ROUNDS = 3
WITHIN = timedelta(seconds=6)
"""Until everything is due: as long as it takes to write it down, and more."""

NEVER_SLOWER = 0.95
"""Of the rate of one node. Two rounds of one node differ by more than that on a machine that is shared."""

FAIR = 0.5
"""The least that a node gets, as part of an equal share."""

RAN = "SELECT count(*) FROM beat WHERE outcome = 'ran'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """How fast all nodes were together, and how many beats each of them ran."""

    rate: float
    counts: tuple[int, ...]

    @property
    def fairness(self) -> float:
        """The smallest count as part of an equal share: 1 if all had the same, 0 if one had nothing."""
        return min(self.counts) * len(self.counts) / sum(self.counts)


def run() -> list[Result]:
    """They take turns, and the middle round of each counts."""
    rounds: dict[int, list[Shared]] = {count: [] for count in NODES}
    with server() as of:
        print(conditions(of), flush=True)
        for _ in range(ROUNDS):
            for count, done in rounds.items():
                done.append(_together(of, count))
    return judged({count: middle(done) for count, done in rounds.items()})


def middle(rounds: Sequence[Shared]) -> Shared:
    return sorted(rounds, key=lambda each: each.rate)[len(rounds) // 2]


def judged(found: dict[int, Shared]) -> list[Result]:
    alone = found[1].rate
    rows = [("nodes", "together", "beside one node", "beats of each")]
    rows += [
        (str(count), f"{each.rate:,.0f}/s", f"{each.rate / alone:.2f} x", ", ".join(f"{own:,}" for own in each.counts))
        for count, each in found.items()
    ]
    print(table(rows))
    several = [(count, each) for count, each in found.items() if count > 1]
    return [_speed(count, each.rate / alone) for count, each in several] + [_share(*each) for each in several]


def _together(of: PostgresServer, count: int) -> Shared:
    with fresh_database(of) as url, fresh_folder() as folder, ledger(url, folder) as store:
        rest(of)
        with nodes(url, folder, count) as started:
            due_at = put_due(store, BEATS, WITHIN)
            left = due_at - time_of(store)
            assert left > timedelta(0), f"{BEATS:,} schedules were not written in {WITHIN}"
            begin = monotonic() + left.total_seconds()
            sleep(max(0.0, begin - monotonic()))
            wait_for_all(url, BEATS)
            reports = [node.done() for node in started]
    counts = tuple(each["beats"] for each in reports)
    assert sum(counts) == BEATS, counts
    seconds = max(each["last_at"] for each in reports if each["beats"]) - begin
    print(f"{count}: {BEATS:,} in {seconds:.2f} s, {BEATS / seconds:,.0f}/s, {counts}", flush=True)
    return Shared(rate=BEATS / seconds, counts=counts)


def wait_for_all(url: str, beats: int) -> None:
    """Looked at a few times a second: the nodes themselves say when the last beat was done."""
    deadline = monotonic() + PATIENCE
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(RAN).fetchone() != (beats,):
            assert monotonic() < deadline, "the nodes do nothing any more"
            sleep(0.25)


def _speed(count: int, ratio: float) -> Result:
    return Result(
        what=f"{count} nodes on PostgreSQL together, beside one",
        measured=f"{ratio:.2f} x",
        goal=f"at least {NEVER_SLOWER:g} x",
        is_met=ratio >= NEVER_SLOWER,
    )


def _share(count: int, each: Shared) -> Result:
    return Result(
        what=f"{count} nodes on PostgreSQL, the least busy one",
        measured=f"{each.fairness:.2f} of an equal share",
        goal=f"at least {FAIR:g}",
        is_met=each.fairness >= FAIR,
    )
