"""The transaction of the PostgreSQL store: the same as anywhere, under locks that hold across nodes."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from herdbeat.errors import ClaimLost
from herdbeat.store.base import FinishedRun, NewBeat, OpenRun, Standing, TargetRow, TargetTally, WaitingBeat
from herdbeat.store.ledger import SqlLedger
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.postgres.statements import PostgresStatements
from herdbeat.store.statements import dump_clean
from herdbeat.store.upkeep import read_waiting

SWEEP = 500
"""Runs of dead nodes that one sweep closes: what is left is closed by the next."""

_MICROSECOND = timedelta(microseconds=1)


class PostgresLedger(SqlLedger):
    """One connection's view of the ledger. `lease` is how long a node holds what it holds without a word.

    Locks are taken in one order: targets by id, then schedules by id. A claim passes by what others are at.
    """

    def __init__(self, statements: PostgresStatements, lease: timedelta, *, locks: bool = True) -> None:
        super().__init__(statements)
        self._locks = locks
        self._lease = lease // _MICROSECOND
        self._labels: tuple[str, ...] = ()
        self._is_at_something = False
        self._held: set[int] = set()
        self._own = statements
        self._is_event = False
        self.node_id: int | None = None
        self.writes = 0

    def talk_over(self, statements: PostgresStatements) -> None:
        """Another connection. What is known of plans stays known."""
        self._statements = self._own = statements

    @property
    def has_news(self) -> bool:
        """Whether other nodes should look at once."""
        return self._is_event or self._own.has_news

    def _beat_numbers(self, number: int) -> list[int]:
        return list(self._statements.ask("beat_numbers", number=number))

    def _run_numbers(self, number: int) -> list[int]:
        return list(self._statements.ask("run_numbers", number=number))

    def add_beats(self, beats: Sequence[NewBeat]) -> list[int | None]:
        """What an event brings is news: the node that hears of it may have no room, and another may."""
        self._is_event |= any(beat.wake_at is not None and not beat.source.is_clock for beat in beats)
        return super().add_beats(beats)

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None:
        super().finish_runs(runs, now)
        self._statements.tell("keep_output", [(run.run_id, run.output) for run in runs if run.output])

    def change_targets(self, rows: Sequence[tuple[int, TargetRow]]) -> None:
        """Other nodes remember targets, until they see that this number has changed."""
        super().change_targets(rows)
        self._statements.do("change_catalogue")

    def add_targets(self, rows: Sequence[TargetRow]) -> list[int]:
        """One that was removed may come back with another spec."""
        self._statements.do("change_catalogue")
        return super().add_targets(rows)

    # ── what is due, and not somebody else's already ──

    def due_schedules(self, now: datetime, limit: int) -> list[Standing]:
        number, targets = self._look("targets_due", now, limit)
        if number and not targets:
            targets = self._wait_for_the_first(now)
        return self._take_due(targets, now, limit, since=0)

    def due_beside(self, now: datetime, limit: int, targets: Iterable[int], since: datetime) -> list[Standing]:
        first = to_micros(since)
        _, free = self._look("targets_due_beside", now, limit, beside=list(targets), since=first)
        return self._take_due(free, now, limit, since=first)

    def due_beats(self, now: datetime, limit: int) -> list[WaitingBeat]:
        _, targets = self._look("targets_of_due_beats", now, limit)
        found = self._statements.ask("take_due_beats", targets, limit=limit, **self._here(now))
        self._held.update(schedule for _, schedule in found)
        return read_waiting(self._statements.ask("some_beats", [beat for beat, _ in found]))

    def _take_due(self, targets: list[int], now: datetime, limit: int, *, since: int) -> list[Standing]:
        ids = self._statements.ask("take_due", targets, limit=limit, since=since, **self._here(now))
        self._held.update(ids)
        return self._standings(self._statements.ask("some_schedules", ids))

    def _look(self, question: str, now: datetime, limit: int, **more: object) -> tuple[int, list[int]]:
        number, targets = self._statements.ask_one(question, limit=limit, **self._here(now), **more)
        self._is_at_something |= bool(targets)
        return number, targets or []

    def _wait_for_the_first(self, now: datetime) -> list[int]:
        """Others are at everything that is due: wait for one of them instead of asking again and again.

        Only as the first thing of a transaction: while nothing is locked, nobody can be waiting for us.
        """
        if self._is_at_something:
            return []
        first = self._statements.ask_one("first_target_due", now=to_micros(now))
        return [] if first is None else list(self._statements.ask("lock_targets", first))

    def _here(self, now: datetime) -> dict[str, object]:
        return {"now": to_micros(now), "labels": self._labels}

    def running_in_all(self) -> int:
        """The first lock of a claim, so it may be waited for: one after the other looks at the fleet's room."""
        self._statements.ask("only_one_claims")
        return super().running_in_all()

    def next_wake(self) -> datetime | None:
        micros: int | None = self._statements.ask_one("next_wake", labels=self._labels)[0]
        return from_micros(micros)

    # ── the same rows under their locks ──

    def schedules(self, ids: Iterable[int]) -> dict[int, Standing]:
        """Locked, with their targets: whoever reads them here is about to change them."""
        wanted = list(ids)
        self._lock("lock_targets_of_schedules", [each for each in wanted if each not in self._held])
        self._hold(wanted)
        return super().schedules(wanted)

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        """Under the locks of their targets and schedules: a sweep may be at them, too."""
        found = super().open_runs(ids)
        self._lock("lock_targets", {run.target_id for run in found.values()})
        self._hold({run.schedule_id for run in found.values()})
        still_open = set(self._statements.ask("still_open", found))
        return {number: run for number, run in found.items() if number in still_open}

    def _hold(self, schedule_ids: Iterable[int]) -> None:
        """Lock those that are not locked yet."""
        missing = [each for each in schedule_ids if each not in self._held]
        self._held.update(self._lock("lock_schedules", missing))

    def _lock(self, question: str, ids: Iterable[int]) -> list[int]:
        """Wait for these rows. Who only looks takes no locks, and is in nobody's way."""
        return list(self._statements.ask(question, ids)) if self._locks else []

    def target_tallies(self, ids: Iterable[int]) -> list[TargetTally]:
        """Locked first, and counted by a question of its own: one that waits for a lock counts what was before."""
        wanted = list(ids)
        self._lock("lock_targets", wanted)
        return super().target_tallies(wanted)

    def deaf_targets(self, ids: Iterable[int], now: datetime) -> list[TargetTally]:
        wanted = list(ids)
        self._lock("lock_targets", wanted)
        return super().deaf_targets(wanted, now)

    def take_fleet_name(self, name: str) -> str:
        """Whoever applies is alone in doing so until the end of its transaction."""
        self._statements.ask("only_one_applies")
        self._statements.do("take_fleet_name", fleet=name)
        return self.fleet_name() or name

    # ── nodes ──

    def join_node(
        self, host: str, pid: int, version: str, now: datetime, labels: Sequence[str] = (), *, works: bool = True
    ) -> int:
        """From here on this connection writes as that node, and only while it holds its lease."""
        known = {"host": host, "pid": pid, "version": version, "labels": dump_clean(list(labels))}
        row = self._statements.ask_one("join_node", **known, now=to_micros(now), lease=self._lease, works=int(works))
        number: int = row[0]
        self.node_id, self._labels = number, tuple(labels)
        return number

    def last_sign_of_life(self) -> datetime | None:
        """Until when anybody could run anything, which may lie in the future."""
        self._statements.ask("only_one_joins")
        return super().last_sign_of_life()

    def renew_node(self, node_id: int, now: datetime) -> None:
        if not self._statements.do("renew_node", node=node_id, now=to_micros(now), lease=self._lease):
            raise lost(node_id)

    def leave_node(self, node_id: int, now: datetime) -> None:
        super().leave_node(node_id, now)
        if node_id == self.node_id:
            self.node_id = None

    def orphaned_runs(self, node_id: int) -> list[int]:
        """Open runs of nodes that are dead, which are given up here, or gone."""
        self._statements.do("give_up_dead_nodes", node=node_id)
        return list(self._statements.ask("orphaned_runs", node=node_id, limit=SWEEP))

    def hold_node(self) -> None:
        """What every write of a node begins with. Raises ClaimLost if it was given up meanwhile."""
        self._is_at_something = self._is_event = self._own.has_news = False
        self._held.clear()
        if self.node_id is None:
            return
        self.writes += 1
        if not self._statements.do("hold_node", node=self.node_id, writes=self.writes):
            raise lost(self.node_id)

    def is_written(self) -> bool:
        """Whether the last transaction of this node has made it, asked over another connection."""
        row = self._statements.ask_one("last_write", node=self.node_id)
        return row is not None and row[0] == self.writes


def lost(node_id: int) -> ClaimLost:
    return ClaimLost(
        f"Node {node_id} has lost its lease: what it held may be somebody else's by now.",
        hint="It stops what it runs and joins anew.",
    )
