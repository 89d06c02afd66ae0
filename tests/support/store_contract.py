"""The contract of every store. A store's own test file is a fixture and little more."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.budget import (
    FLEET_OWNER,
    BudgetDay,
    BudgetOwner,
    BudgetScope,
    Reservation,
    SpendAdjustment,
    SpendTotals,
)
from herdbeat.domain.decision import Source
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Budget, Catchup, Policies
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.domain.trigger import Trigger
from herdbeat.governor import Pause
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.evaluate import build_schedule_change, decide_start_slot
from herdbeat.store.base import (
    BeatExtension,
    CatchupCursor,
    ChangedBeat,
    CounterDelta,
    EnabledInFile,
    FinishedRun,
    NewBeat,
    NewRun,
    ScheduleSnapshot,
    StartedInterval,
    Transaction,
)
from herdbeat.store.location import StoreHandle, open_reader
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.interval import Interval

NOW = datetime(2026, 3, 2, 3, 0, 0, 123_456, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
FIVE_MINUTES = Interval(timedelta(minutes=5))
HOURLY = Cron.parse("0 * * * *", UTC_ZONE)


def build_fleet(**triggers: Trigger) -> Fleet:
    """Build a fleet with one target of capacity two, and a schedule for each trigger kind."""
    policies = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.ONCE)
    return Fleet(
        name="contract",
        zone=UTC_ZONE,
        targets=(Target(name="worker", spec=CallableSpec(call="m:f"), max_concurrent=2),),
        schedules=tuple(
            Schedule(target="worker", name=name, trigger=trigger, policies=policies)
            for name, trigger in triggers.items()
        ),
        store="",
        server=ServerSettings(),
    )


def _last_usage(number: int, limit: int, tx: Transaction) -> list[Mapping[str, object]]:
    return tx.last_usage([number], limit)[number]


def build_beat(
    snapshot: ScheduleSnapshot, dedup_id: str = "interval:1", outcome: BeatOutcome = BeatOutcome.RUNNING
) -> NewBeat:
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=dedup_id,
        due_at=NOW,
        last_due_at=NOW,
        number=1,
        outcome=outcome,
        reason="" if outcome is BeatOutcome.RUNNING else "at_capacity",
        source=Source.BASELINE_INTERVAL,
        created_at=NOW,
    )


@dataclass
class OpenedStore:
    """A store with a fleet in it, and its schedules by name."""

    store: StoreHandle

    def schedule(self, name: str = "pace") -> ScheduleSnapshot:
        def find(tx: Transaction) -> ScheduleSnapshot:
            target_id, _ = tx.targets()["worker"]
            number, _ = tx.schedule_list_by_target([target_id])[target_id, name]
            return tx.schedules([number])[number]

        return self.store.write_now(find)


class StoreContract:
    """Inherit it, and provide a fixture `store` that is open and empty."""

    @pytest.fixture
    def opened(self, store: StoreHandle) -> OpenedStore:
        store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES, hour=HOURLY), NOW))
        return OpenedStore(store)

    def test_a_schedule_comes_back_as_it_was_written(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule("hour")

        assert snapshot.label == "worker/hour"
        assert snapshot.plan.trigger == HOURLY
        assert snapshot.next_run_at == datetime(2026, 3, 2, 4, 0, tzinfo=UTC)
        assert (snapshot.anchor_at, snapshot.settled_until) == (NOW, NOW)  # to the microsecond
        assert snapshot.is_new

    def test_only_what_is_due_is_handed_out_oldest_first(self, opened: OpenedStore) -> None:
        store = opened.store

        now = store.write_now(lambda tx: tx.due_schedules(NOW, 10))
        later = store.write_now(lambda tx: tx.due_schedules(NOW + timedelta(hours=2), 10))
        first = store.write_now(lambda tx: tx.due_schedules(NOW + timedelta(hours=2), 1))

        assert [each.label for each in now] == ["worker/pace"]
        assert [each.label for each in later] == ["worker/pace", "worker/hour"]
        assert [each.label for each in first] == ["worker/pace"]

    def test_due_schedules_can_exclude_targets_and_start_after_a_given_instant(self, opened: OpenedStore) -> None:
        later, worker = NOW + timedelta(hours=1), opened.schedule().target_id

        everything = opened.store.write_now(lambda tx: tx.schedule_list_due_excluding(later, 10, [], NOW))
        newer = opened.store.write_now(
            lambda tx: tx.schedule_list_due_excluding(later, 10, [], NOW + timedelta(minutes=1))
        )
        others = opened.store.write_now(lambda tx: tx.schedule_list_due_excluding(later, 10, [worker], NOW))

        assert [each.label for each in everything] == ["worker/pace", "worker/hour"]
        assert [each.label for each in newer] == ["worker/hour"]
        assert others == []

    def test_the_next_wake_is_the_earliest_of_schedules_and_beats(self, opened: OpenedStore) -> None:
        assert opened.store.write_now(lambda tx: tx.next_wake()) == NOW
        early = NOW - timedelta(minutes=1)
        waiting = build_beat(opened.schedule("hour"), outcome=BeatOutcome.PENDING)._replace(wake_at=early)

        opened.store.write_now(lambda tx: tx.add_beats([waiting]))

        assert opened.store.write_now(lambda tx: tx.next_wake()) == early

    def test_the_id_of_a_deleted_beat_is_not_given_again(self, opened: OpenedStore) -> None:
        standing = opened.schedule()
        skipped = build_beat(standing, outcome=BeatOutcome.SKIPPED)
        (first,) = opened.store.write_now(lambda tx: tx.add_beats([skipped]))
        assert first is not None
        opened.store.write_now(lambda tx: tx.drop_beats([first]))

        (second,) = opened.store.write_now(lambda tx: tx.add_beats([skipped]))

        assert second is not None
        assert second > first

    def test_a_dedup_id_is_written_once_per_schedule(self, opened: OpenedStore) -> None:
        pace, hour = opened.schedule("pace"), opened.schedule("hour")
        (first,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(pace)]))

        again = opened.store.write_now(
            lambda tx: tx.add_beats([build_beat(pace), build_beat(pace, "other"), build_beat(hour)])
        )

        assert first is not None
        assert again[0] is None
        assert again[1] is not None
        assert again[2] is not None

    def test_a_beat_is_renamed_unless_its_schedule_has_the_name_already(self, opened: OpenedStore) -> None:
        pace, hour = opened.schedule("pace"), opened.schedule("hour")
        first, second, other = opened.store.write_now(
            lambda tx: tx.add_beats([build_beat(pace, "a"), build_beat(pace, "b"), build_beat(hour, "a")])
        )
        assert first is not None
        assert second is not None
        assert other is not None

        opened.store.write_now(lambda tx: tx.rename_beats([(first, "b"), (other, "b")]))

        names = opened.store.write_now(
            lambda tx: tx.add_beats([build_beat(pace, "a"), build_beat(pace, "b"), build_beat(hour, "b")])
        )
        assert names == [None, None, None]

    def test_a_waiting_beat_is_handed_out_when_its_time_has_come(self, opened: OpenedStore) -> None:
        waiting = build_beat(opened.schedule(), outcome=BeatOutcome.PENDING)
        opened.store.write_now(lambda tx: tx.add_beats([waiting, waiting._replace(dedup_id="2", wake_at=NOW)]))

        (found,) = opened.store.write_now(lambda tx: tx.due_beats(NOW, 10))

        assert (found.dedup_id, found.due_at, found.reason) == ("2", NOW, "at_capacity")

    def test_what_waits_for_its_pace_is_counted_and_what_waits_for_room_is_not(self, opened: OpenedStore) -> None:
        pace, hour = opened.schedule(), opened.schedule("hour")
        paced = build_beat(pace, outcome=BeatOutcome.PENDING)._replace(reason="catch-up")
        beats = [paced, paced._replace(dedup_id="2"), build_beat(hour, outcome=BeatOutcome.PENDING)]
        opened.store.write_now(lambda tx: tx.add_beats(beats))

        found = opened.store.write_now(lambda tx: tx.beat_count_catchup([pace.id, hour.id]))

        assert found == {pace.id: 2}

    def test_places_are_counted_from_those_that_wait_and_from_the_first_that_is_free(self, opened: OpenedStore) -> None:
        snapshot, place = opened.schedule(), NOW + timedelta(seconds=3)
        assert opened.store.write_now(lambda tx: tx.start_slot_get_cursor(NOW)) == CatchupCursor()

        waiting = build_schedule_change(snapshot, decide_start_slot(snapshot._replace(next_due_at=NOW), place, 10))
        opened.store.write_now(lambda tx: tx.change_schedules([waiting]))
        opened.store.write_now(lambda tx: tx.start_slot_set_cursor(place + timedelta(seconds=1)))

        found = opened.store.write_now(lambda tx: tx.start_slot_get_cursor(NOW))
        assert found == CatchupCursor(last_start_at=place, free_at=place + timedelta(seconds=1))
        assert opened.store.write_now(lambda tx: tx.start_slot_get_cursor(place)).last_start_at is None

    def test_room_goes_to_the_highest_priority_and_then_to_the_oldest(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        beat = build_beat(snapshot, outcome=BeatOutcome.PENDING)
        rows = [
            beat._replace(dedup_id="young", due_at=NOW + timedelta(seconds=1)),
            beat._replace(dedup_id="old"),
            beat._replace(dedup_id="urgent", due_at=NOW + timedelta(seconds=2), priority=1),
        ]
        opened.store.write_now(lambda tx: tx.add_beats(rows))

        opened.store.write_now(lambda tx: tx.beat_wake_pending(snapshot.target_id, 2, NOW))

        woken = opened.store.write_now(lambda tx: tx.due_beats(NOW, 10))
        assert {each.dedup_id for each in woken} == {"urgent", "old"}

    def test_room_is_what_was_given_and_taken(self, opened: OpenedStore) -> None:
        target_id = opened.schedule().target_id

        opened.store.write_now(lambda tx: tx.target_adjust_running({target_id: 2}))
        opened.store.write_now(lambda tx: tx.target_adjust_running({target_id: -1}))

        room = opened.store.write_now(lambda tx: tx.target_get_capacity([target_id]))[target_id]
        assert (room.max_concurrent, room.running, bool(room.has_waiting)) == (2, 1, False)

    def test_a_run_is_closed_once(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        (beat_id,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot)]))
        assert beat_id is not None
        (run_id,) = opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat_id, snapshot.id, 1)], 7, NOW))
        assert run_id in opened.store.write_now(lambda tx: tx.open_runs([run_id]))

        done = FinishedRun(run_id, NOW, Outcome(status=RunStatus.SUCCEEDED, response={"queue": 3}, code=0))
        opened.store.write_now(lambda tx: tx.finish_runs([done], NOW))

        assert opened.store.write_now(lambda tx: tx.open_runs([run_id])) == {}

    def test_open_runs_of_other_nodes_are_orphans(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        (beat_id,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot)]))
        assert beat_id is not None
        (first,) = opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat_id, snapshot.id, 1)], 1, NOW))
        opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat_id, snapshot.id, 2)], 2, NOW))

        assert opened.store.write_now(lambda tx: tx.orphaned_runs(2)) == [first]

    def test_a_row_of_skips_grows(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        (beat_id,) = opened.store.write_now(
            lambda tx: tx.add_beats([build_beat(snapshot, outcome=BeatOutcome.SKIPPED)])
        )
        assert beat_id is not None

        grown = BeatExtension(beat_id, 3, NOW + timedelta(hours=3))
        opened.store.write_now(lambda tx: tx.beat_extend_many([grown], NOW))

        settled = ChangedBeat(beat_id, BeatOutcome.SKIPPED, "paused", None, 1, settled=True)
        opened.store.write_now(lambda tx: tx.change_beats([settled], NOW))
        assert opened.store.write_now(lambda tx: tx.due_beats(NOW, 10)) == []

    def test_counters_move_by_what_was_counted(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()

        opened.store.write_now(
            lambda tx: tx.schedule_adjust_counters([CounterDelta(snapshot.id, running=2, waiting=1)], NOW)
        )
        opened.store.write_now(lambda tx: tx.schedule_adjust_counters([CounterDelta(snapshot.id, running=-1)], None))

        after = opened.schedule()
        assert (after.running, after.waiting) == (1, 1)

    def test_an_interval_that_starts_has_no_next_time(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()

        opened.store.write_now(lambda tx: tx.schedule_mark_started([StartedInterval(snapshot, NOW)], NOW))

        after = opened.schedule()
        assert (after.next_run_at, after.wake_at, after.running) == (None, None, 1)

    def test_gaps_are_kept_in_order(self, opened: OpenedStore) -> None:
        gaps = [
            Gap(from_at=NOW, until=NOW + timedelta(hours=1), reason=MissedReason.SLEPT),
            Gap(from_at=NOW - timedelta(days=1), until=NOW - timedelta(hours=1), reason=MissedReason.SCHEDULER_DOWN),
        ]
        opened.store.write_now(lambda tx: tx.add_gap(gaps[0]))
        opened.store.write_now(lambda tx: tx.add_gap(gaps[1]))

        assert opened.store.write_now(lambda tx: tx.gaps(NOW - timedelta(days=2))) == gaps[::-1]
        assert opened.store.write_now(lambda tx: tx.gaps(NOW)) == gaps[:1]

    def test_signs_of_life_are_remembered(self, opened: OpenedStore) -> None:
        assert opened.store.write_now(lambda tx: tx.node_get_last_seen()) is None
        node = opened.store.write_now(lambda tx: tx.join_node("here", 1, "test", NOW))
        later = NOW + timedelta(minutes=1)

        opened.store.write_now(lambda tx: tx.renew_node(node, later))

        last = opened.store.write_now(lambda tx: tx.node_get_last_seen())
        assert last is not None
        assert last >= later  # with a lease, still alive for a while

    def test_counters_are_those_of_live_nodes(self, opened: OpenedStore) -> None:
        store = opened.store
        gone = store.write_now(lambda tx: tx.join_node("there", 1, "test", NOW))
        store.write_now(lambda tx: tx.node_set_metrics(gone, "{}", NOW - timedelta(days=2)))
        store.write_now(lambda tx: tx.leave_node(gone, NOW))
        node = store.write_now(lambda tx: tx.join_node("here", 2, "test", NOW))

        store.write_now(lambda tx: tx.node_set_metrics(node, '{"late": 1}', NOW))
        store.write_now(lambda tx: tx.node_set_metrics(node, '{"late": 2}', NOW))
        store.write_now(lambda tx: tx.node_drop_metrics(NOW - timedelta(days=1)))

        with closing(open_reader(store.location)) as reader:
            assert reader.node_metrics(10) == [(node, "here", '{"late": 2}')]

    def test_applying_the_same_fleet_again_changes_nothing(self, opened: OpenedStore) -> None:
        before = opened.schedule("hour")

        arranged = opened.store.write_now(
            lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES, hour=HOURLY), NOW + timedelta(minutes=1))
        )

        assert (arranged.added, arranged.changed, arranged.removed) == ([], [], [])
        assert opened.schedule("hour") == before

    def test_a_schedule_that_is_gone_and_comes_back_keeps_its_number(self, opened: OpenedStore) -> None:
        before = opened.schedule("hour")
        gone = opened.store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES), NOW))
        assert gone.removed == ["worker/hour"]

        back = opened.store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES, hour=HOURLY), NOW))

        assert back.added == ["worker/hour"]
        assert opened.schedule("hour").id == before.id

    def test_what_raises_is_undone_alone(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()

        def bad(tx: Transaction) -> None:
            tx.add_beats([build_beat(snapshot)])
            raise ValueError("changed its mind")

        with pytest.raises(ValueError, match="changed its mind"):
            opened.store.write_now(bad)

        (beat_id,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot)]))
        assert beat_id is not None

    def test_what_is_set_aside_counts_as_used_until_it_is_corrected(self, opened: OpenedStore) -> None:
        own = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, opened.schedule().id), "2026-03-02")
        fleet, other = BudgetDay(FLEET_OWNER, own.day), own._replace(day="2026-03-03")
        reserved = [Reservation(run, account, 50, 0.5) for run in (7, 8) for account in (own, fleet)]

        opened.store.write_now(lambda tx: tx.reserve(reserved))
        before = opened.store.write_now(lambda tx: tx.budget_get_usage([own, fleet, other]))
        opened.store.write_now(lambda tx: tx.add_spend([SpendAdjustment(own, -1, -50, -0.5)]))
        opened.store.write_now(lambda tx: tx.drop_reservations([7]))

        assert before == {own: SpendTotals(2, 100, 1.0), fleet: SpendTotals(2, 100, 1.0), other: SpendTotals()}
        assert opened.store.write_now(lambda tx: tx.budget_get_usage([own])) == {own: SpendTotals(1, 50, 0.5)}
        assert sorted(opened.store.write_now(lambda tx: tx.reservations([7, 8]))) == sorted(reserved[2:])

    def test_the_days_before_a_day_are_forgotten(self, opened: OpenedStore) -> None:
        holder = BudgetOwner(BudgetScope.SCHEDULE, opened.schedule().id)
        days = [BudgetDay(holder, day) for day in ("2026-03-01", "2026-03-02")]
        opened.store.write_now(lambda tx: tx.add_spend([SpendAdjustment(day, 1) for day in days]))

        assert opened.store.write_now(lambda tx: tx.drop_spend("2026-03-02")) == 1

        assert opened.store.write_now(lambda tx: tx.budget_get_usage(days)) == {
            days[0]: SpendTotals(),
            days[1]: SpendTotals(runs=1),
        }

    def test_shared_budgets_are_kept_until_they_are_taken_away(self, opened: OpenedStore) -> None:
        target = BudgetOwner(BudgetScope.TARGET, opened.schedule().target_id)
        first = {target: Budget(usd_per_day=2.5), FLEET_OWNER: Budget(runs_per_day=9, tokens_per_day=10**12)}
        opened.store.write_now(lambda tx: tx.set_budgets(first))

        found = opened.store.write_now(lambda tx: tx.budgets([target.id]))
        of_others = opened.store.write_now(lambda tx: tx.budgets([target.id + 1]))
        opened.store.write_now(lambda tx: tx.set_budgets({target: Budget(usd_per_day=5), FLEET_OWNER: None}))

        assert found == first
        assert of_others == {FLEET_OWNER: first[FLEET_OWNER]}
        assert opened.store.write_now(lambda tx: tx.budgets([target.id])) == {target: Budget(usd_per_day=5)}

    def test_usage_is_read_of_the_newest_runs_only(self, opened: OpenedStore) -> None:
        snapshot = opened.schedule()
        ids = [f"interval:{number}" for number in range(3)]
        beats = opened.store.write_now(lambda tx: tx.add_beats([build_beat(snapshot, each) for each in ids]))
        runs = opened.store.write_now(
            lambda tx: tx.add_runs([NewRun(beat or 0, snapshot.id, 1) for beat in beats], 1, NOW)
        )
        usages: list[dict[str, float]] = [{"tokens": 1}, {}, {"tokens": 3}]
        ended = [
            FinishedRun(run, NOW, Outcome(status=RunStatus.SUCCEEDED, usage=usage))
            for run, usage in zip(runs, usages, strict=True)
        ]
        opened.store.write_now(lambda tx: tx.finish_runs(ended, NOW))

        found = [opened.store.write_now(partial(_last_usage, snapshot.id, limit)) for limit in (2, 3)]

        assert found == [[{"tokens": 3}], [{"tokens": 3}, {"tokens": 1}]]

    def test_a_pause_and_a_switch_off_are_kept_and_lifted(self, opened: OpenedStore) -> None:
        number, hold = opened.schedule().id, Pause(until=NOW, by="human:you", reason="db")

        opened.store.write_now(lambda tx: tx.set_pause(number, hold))
        opened.store.write_now(lambda tx: tx.set_disabled(number, "human:ada"))
        held = opened.schedule()
        opened.store.write_now(lambda tx: tx.set_pause(number, None))
        opened.store.write_now(lambda tx: tx.set_disabled(number, None))

        assert (held.pause, held.disabled_by, held.enabled) == (hold, "human:ada", False)
        assert (opened.schedule().pause, opened.schedule().enabled) == (None, True)

    def test_one_interval_hint_is_kept_per_rank_and_an_equal_one_only_moves_its_expiry(
        self, opened: OpenedStore
    ) -> None:
        number, later = opened.schedule().id, NOW + timedelta(hours=1)
        first, second, other = (
            _build_interval_hint("agent:a", 5),
            _build_interval_hint("agent:b", 9),
            _build_interval_hint("planner", 7),
        )

        _add_hints(opened, number, first, second, other)
        extended = opened.store.write_now(lambda tx: tx.extend_hint(number, replace(other, expires_at=later), NOW))
        unknown = opened.store.write_now(lambda tx: tx.extend_hint(number, first, NOW))

        assert (extended, unknown) == (True, False)
        assert opened.schedule().hints == (second, replace(other, expires_at=later))
        assert (
            opened.store.write_now(lambda tx: tx.hint_count_recent(number, "agent:a", NOW - timedelta(minutes=1))) == 1
        )

    def test_hints_are_ended_by_rank_and_trimmed_to_the_earliest(self, opened: OpenedStore) -> None:
        number = opened.schedule().id
        moments = [
            replace(_build_interval_hint("agent:a", 5), every=None, at=NOW + timedelta(minutes=each))
            for each in (3, 1, 2)
        ]
        human = _build_interval_hint("human:you", 5)
        _add_hints(opened, number, *moments, human)

        opened.store.write_now(lambda tx: tx.trim_hints(number, "agent", NOW, one_shots=2, ended=1))
        kept = opened.schedule().hints
        opened.store.write_now(lambda tx: tx.hint_end_by_rank(number, ["human", "rule"], NOW, "human:you"))

        assert sorted(hint.at for hint in kept if hint.at) == [NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)]
        assert human in kept
        assert {hint.origin for hint in opened.schedule().hints} == {"agent:a"}

    def test_enabled_in_file_is_kept_apart_and_removed_schedules_are_left_out(self, opened: OpenedStore) -> None:
        pace, hour = opened.schedule().id, opened.schedule("hour").id
        opened.store.write_now(lambda tx: tx.set_disabled(pace, "human:you"))
        opened.store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES), NOW))

        found = opened.store.write_now(lambda tx: tx.schedule_get_enabled([pace, hour, 99_999]))

        assert found == {pace: EnabledInFile("worker/pace", enabled=True, origin="")}

    def test_a_one_shot_that_is_armed_again_has_another_id(self, opened: OpenedStore) -> None:
        opened.store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES, once=Delay(NOW)), NOW))
        before = opened.schedule("once")

        opened.store.write_now(lambda tx: tx.schedule_rearm([before.id]))

        after = opened.schedule("once")
        assert (before.arm, after.arm, after.is_new) == (1, 2, True)
        assert after.plan.trigger.dedup_id(NOW, "worker/once") == "delay:worker/once#2"

    def test_the_variables_of_a_fleet_are_stored_replaced_and_extended(self, opened: OpenedStore) -> None:
        write = opened.store.write_now
        write(lambda tx: tx.set_variables(["FIRST"], is_whole=True))
        write(lambda tx: tx.set_variables(["SECOND", "A"], is_whole=True))
        write(lambda tx: tx.set_variables(["THIRD"], is_whole=False))

        assert write(lambda tx: tx.variables()) == ["A", "SECOND", "THIRD"]
        with closing(open_reader(opened.store.location)) as reader:
            assert reader.variables() == ["A", "SECOND", "THIRD"]


def _build_interval_hint(origin: str, seconds: int) -> Hint:
    life = timedelta(minutes=10)
    return Hint(origin=origin, every=timedelta(seconds=seconds), expires_at=NOW + life, created_at=NOW)


def _add_hints(opened: OpenedStore, schedule_id: int, *hints: Hint) -> None:
    def write(tx: Transaction) -> None:
        for hint in hints:
            tx.add_hint(schedule_id, hint, NOW)

    opened.store.write_now(write)
