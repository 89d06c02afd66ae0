"""The transaction of the PostgreSQL store: the same as anywhere, under locks that hold across nodes."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from herdbeat.domain.policies import Budget
from herdbeat.domain.spend import THE_FLEET, Holder, Reservation
from herdbeat.errors import ClaimLost
from herdbeat.store.base import FinishedRun, NewBeat, OpenRun, Pace, Room, Standing, TargetRow, TargetTally, WaitingBeat
from herdbeat.store.ledger import SqlLedger
from herdbeat.store.micros import from_micros, to_micros
from herdbeat.store.plans import read_budgets
from herdbeat.store.postgres.foresight import Foresight
from herdbeat.store.postgres.statements import PostgresStatements
from herdbeat.store.spending import read_reservations
from herdbeat.store.statements import Touched, dump_clean
from herdbeat.store.upkeep import read_waiting

SWEEP = 500
"""Runs of dead nodes that one sweep closes: what is left is closed by the next."""

_MICROSECOND = timedelta(microseconds=1)


class BeatKnown(Exception):
    """A beat that was to start is in the ledger already, which was found out after its run was written."""


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
        self._ahead = Foresight(statements)
        self._is_event = False
        self.is_careful = False
        self.node_id: int | None = None
        self.writes = 0

    def talk_over(self, statements: PostgresStatements) -> None:
        """Another connection. What is known of plans stays known."""
        self._statements = self._own = statements
        self._ahead = Foresight(statements)

    @property
    def has_news(self) -> bool:
        """Whether other nodes should look at once."""
        return self._is_event or self._own.has_news

    def begin(self) -> None:
        self._own.forget()
        self._ahead = Foresight(self._own)
        self._is_at_something = self._is_event = False
        self._held.clear()

    def settle(self) -> None:
        """Wait until everything that was written is there, or has failed."""
        self._own.settle()

    def _beat_numbers(self, number: int) -> list[int]:
        return self._ahead.beats(number)

    def _run_numbers(self, number: int) -> list[int]:
        return self._ahead.runs(number)

    def _touched_all(self, touched: Touched, number: int) -> bool:
        """Nearly always, so we go on without waiting; if not, all is undone, and done again with care."""
        if self.is_careful:
            return super()._touched_all(touched, number)
        self._own.expect(touched, number, BeatKnown)
        return True

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
        if targets:
            self._ahead.need_numbers(number)
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
        found = self._standings(self._statements.ask("take_due", targets, limit=limit, since=since, **self._here(now)))
        self._held.update(each.id for each in found)
        of_these = {each.target_id for each in found}
        self._ahead.ask("rooms", of_these)
        self._ahead.ask("budgets", of_these | {THE_FLEET.id})
        return found

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

    def pace(self) -> Pace:
        """Read after its lock was waited for: whoever had it has just given places away."""
        self._statements.ask("only_one_paces")
        return super().pace()

    def next_wake(self) -> datetime | None:
        micros: int | None
        (micros,) = self._ahead.answer("next_wake") or self._statements.ask_one("next_wake", labels=self._labels)
        return from_micros(micros)

    def rooms(self, target_ids: Iterable[int]) -> dict[int, Room]:
        wanted = list(target_ids)
        rows = self._ahead.answer("rooms", wanted)
        if rows is None:
            # A finish: if nobody waits for the room it gives, all that is left to ask is when to look again.
            self._ahead.ask("rooms", wanted)
            self._ahead.keep("next_wake", (), self._own.ahead("next_wake", labels=self._labels))
            rows = self._ahead.answer("rooms", wanted) or []
        return {row[0]: Room(*row) for row in rows}

    def budgets(self, target_ids: Iterable[int]) -> dict[Holder, Budget]:
        wanted = list(target_ids)
        rows = self._ahead.answer("budgets", [*wanted, THE_FLEET.id])
        return super().budgets(wanted) if rows is None else read_budgets(rows)

    # ── the same rows under their locks ──

    def schedules(self, ids: Iterable[int]) -> dict[int, Standing]:
        """Locked, with their targets: whoever reads them here is about to change them."""
        wanted = list(ids)
        self._lock("lock_targets_of_schedules", [each for each in wanted if each not in self._held])
        self._hold(wanted)
        rows = self._ahead.answer("some_schedules", wanted)
        if rows is None:
            return super().schedules(wanted)
        known = set(wanted)
        return {each.id: each for each in self._standings([row for row in rows if row[0] in known])}

    def reservations(self, run_ids: Iterable[int]) -> list[Reservation]:
        wanted = list(run_ids)
        rows = self._ahead.answer("reservations", wanted)
        return super().reservations(wanted) if rows is None else read_reservations(rows)

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        """Under the locks of their targets and schedules: a sweep may be at them, too."""
        wanted = list(ids)
        if not self._locks or not wanted:
            return super().open_runs(wanted)
        self._own.ahead("lock_targets_of_runs", wanted)
        self._own.ahead("lock_schedules_of_runs", wanted)
        standings = self._own.ahead("schedules_of_runs", wanted)
        self._ahead.ask("reservations", wanted)
        found = super().open_runs(wanted)
        schedules = {run.schedule_id for run in found.values()}
        self._held |= schedules
        self._ahead.keep("some_schedules", schedules, standings)
        return found

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

    def ask_to_stop(
        self,
        why: str,
        *,
        schedules: Sequence[int] = (),
        runs: Sequence[int] = (),
        node_id: int = 0,
        force: bool = False,
    ) -> list[tuple[int, int]]:
        words: dict[str, object] = {"why": why, "node": node_id, "force": int(force)}
        asked = [
            *self._statements.ask("ask_to_stop_runs_of", schedules, **words),
            *self._statements.ask("ask_to_stop_runs", runs, **words),
        ]
        self._is_event |= bool(asked)
        return asked

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
        if not self._statements.do("renew_node", node=node_id, now=to_micros(now), lease=self._lease)():
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
        """What every write of a node begins with. If it was given up meanwhile, the next answer raises ClaimLost."""
        if self.node_id is None:
            return
        self.writes += 1
        node_id = self.node_id
        self._own.expect(self._own.do("hold_node", node=node_id, writes=self.writes), 1, lambda: lost(node_id))

    def is_written(self, node_id: int) -> bool:
        """Whether the last transaction that a node began has made it, asked over another connection.

        By the number that it began with: one that has left in it has none any more.
        """
        row = self._statements.ask_one("last_write", node=node_id)
        return row is not None and row[0] == self.writes


def lost(node_id: int) -> ClaimLost:
    return ClaimLost(
        f"Node {node_id} has lost its lease: what it held may be somebody else's by now.",
        hint="It stops what it runs and joins anew.",
    )
