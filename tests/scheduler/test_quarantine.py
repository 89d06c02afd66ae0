"""A schedule that cannot be decided rests, with its reason. Its neighbours do not notice."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Decision
from herdbeat.domain.policies import Overlap
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import StoreUnavailable
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.claim import ClaimResult
from herdbeat.scheduler.evaluate import Evaluation, change_from_evaluation
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.quarantine import quarantine_evaluation, quarantine_first_due
from herdbeat.store.base import ChangedSchedule, Transaction
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Manual

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
T = TypeVar("T")


class Uncountable(Manual):
    """A trigger whose every method raises."""

    def dedup_id(self, due_at: datetime, schedule: str) -> str:
        raise ValueError("no such zone")


def record(herd: SimulatedHerd, label: str) -> ScheduleRecord:
    target, _, name = label.partition("/")
    reader = SqliteReader(herd.store.path)
    try:
        (found,) = reader.schedules(Filter(target=target, name=name or None, limit=2))
        return found
    finally:
        reader.close()


def damage_plan(herd: SimulatedHerd, label: str, text: str) -> None:
    """Give a schedule a plan of its own that nobody can read."""
    number = herd.snapshot(label).id
    with sqlite3.connect(herd.store.path) as connection:
        connection.execute("INSERT INTO plan (text) VALUES (?)", (text,))
        connection.execute("UPDATE schedule SET plan_id = (SELECT max(id) FROM plan) WHERE id = ?", (number,))
    connection.close()


@pytest.mark.parametrize("text", ["", "no json", "{}", '{"trigger":{"kind":"sundial"},"policies":{}}', "[1]"])
async def test_a_plan_that_cannot_be_read_any_more_stops_its_schedule_and_no_other(tmp_path: Path, text: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("broken", cron="*/10 * * * *")
        herd.schedule("sound", cron="*/10 * * * *")
        await herd.tick()
        damage_plan(herd, "broken", text)

        await herd.advance(HOUR)

        assert herd.outcomes("sound") == [("ran", "", 1)] * 6
        assert herd.outcomes("broken") == [("skipped", SkipReason.CONFIG_ERROR, 1)]
        assert record(herd, "broken").next_run_at is None
        assert "cannot be read" in (record(herd, "broken").quarantine or "")
        reader = SqliteReader(herd.store.path)
        check_cron(reader, CronExpectation("sound", "*/10 * * * *", TEN, TEN + HOUR))
        check_reasons(reader, "broken")
        check_runs(reader)
        reader.close()


async def test_a_quarantine_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("broken", cron="*/10 * * * *")
        await herd.tick()
        damage_plan(herd, "broken", "no json")

        with caplog.at_level(logging.ERROR, logger="herdbeat"):
            await herd.advance(HOUR)

        assert [line.getMessage().split(" reason=")[0] for line in caplog.records] == [
            "schedule quarantined schedule=broken/default"
        ]


async def test_an_edit_lifts_the_quarantine(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("broken", every="10m")
        await herd.tick()
        damage_plan(herd, "broken", "no json")
        await herd.advance(HOUR)

        herd.schedule("broken", every="20m")
        await herd.advance(HOUR)

        assert record(herd, "broken").quarantine is None
        assert [fate for fate in herd.outcomes("broken") if fate[0] == "ran"] == [("ran", "", 1)] * 5


async def test_a_run_is_completed_although_its_plan_became_unreadable(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("broken", every="10m", runner=runner)
        herd.schedule("sound", every="10m")
        await herd.tick()
        damage_plan(herd, "broken", "no json")

        runner.let_go()
        await herd.advance(HOUR)

        assert herd.outcomes("broken") == [("ran", "", 1)]
        assert record(herd, "broken").running == 0
        assert record(herd, "broken").target_running == 0
        assert record(herd, "broken").last_status is RunStatus.SUCCEEDED
        assert record(herd, "broken").quarantine is not None
        assert len(herd.outcomes("sound")) == 7


async def test_a_second_run_that_ends_later_does_not_lift_the_quarantine(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("wide", cron="*/10 * * * *", overlap=Overlap.ALLOW, max_concurrent=5, runner=runner)
        await herd.advance(25 * MINUTE)
        damage_plan(herd, "wide", "no json")
        await herd.advance(10 * MINUTE)

        runner.let_go()
        await herd.settle()
        await herd.advance(HOUR)

        assert record(herd, "wide").running == 0
        assert record(herd, "wide").next_run_at is None
        assert record(herd, "wide").quarantine is not None
        assert herd.outcomes("wide") == [("ran", "", 1), ("ran", "", 1), ("skipped", "config_error", 1)]


async def test_a_pending_beat_of_an_unreadable_plan_is_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("busy/first", cron="0 * * * *", runner=runner)
        herd.schedule("busy/second", cron="1 * * * *")
        await herd.advance(62 * MINUTE)
        damage_plan(herd, "busy/second", "no json")

        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("busy/second") == [("ran", "", 1), ("skipped", "config_error", 1)]
        assert record(herd, "busy/second").waiting == 0


async def test_a_beat_by_hand_of_an_unreadable_plan_is_refused(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("broken", every="10m")
        number = herd.snapshot("broken").id
        damage_plan(herd, "broken", "no json")

        fired = herd.store.write_now(
            lambda tx: enqueue_manual(tx, herd.now, number, origin="cli:ada", event_id="one", queue=True)
        )

        assert fired.beat_id is None
        assert fired.skip_reason is SkipReason.CONFIG_ERROR


def decide_until_noon(now: datetime, state: ScheduleState) -> Decision:
    """A governor with a bug that one schedule brings out, and only at noon."""
    if state.schedule == "shared/broken" and now.hour >= 12:
        raise ZeroDivisionError("no shadow at noon")
    return decide(now, state)


@pytest.mark.parametrize("place", ["evaluate", "complete"])
@pytest.mark.parametrize("trigger", [{"every": "30m"}, {"cron": "*/30 * * * *"}], ids=["interval", "cron"])
async def test_a_decision_that_raises_takes_no_slot_and_stops_no_other_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, trigger: dict[str, str]
) -> None:
    monkeypatch.setattr(f"herdbeat.scheduler.{place}.decide", decide_until_noon)
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("shared/broken", **trigger, max_concurrent=2)  # type: ignore[arg-type]
        herd.schedule("shared/cron", cron="0 * * * *", max_concurrent=2)

        await herd.advance(5 * HOUR)

        assert herd.outcomes("shared/cron") == [("ran", "", 1)] * 5
        assert record(herd, "shared/broken").target_running == 0
        assert record(herd, "shared/broken").running == 0
        if (place, *trigger) != ("evaluate", "every"):  # only its completion decides an interval
            assert record(herd, "shared/broken").quarantine == "ZeroDivisionError: no shadow at noon"
            assert record(herd, "shared/broken").next_run_at is None


async def test_a_schedule_that_cannot_be_written_is_quarantined_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed_but_one(verdict: Evaluation, started: int, tail_id: int | None) -> ChangedSchedule:
        if verdict.snapshot.label == "t7/default" and verdict.quarantine is None:
            raise ZeroDivisionError("no shadow at noon")
        return change_from_evaluation(verdict, started, tail_id)

    monkeypatch.setattr("herdbeat.scheduler.claim.change_from_evaluation", changed_but_one)
    async with open_herd(tmp_path, TEN) as herd:
        for number in range(20):
            herd.schedule(f"t{number}", cron="*/10 * * * *")

        await herd.advance(HOUR)

        assert record(herd, "t7").quarantine == "ZeroDivisionError: no shadow at noon"
        assert herd.outcomes("t7") == [("skipped", "config_error", 1)]
        assert all(herd.outcomes(f"t{number}") == [("ran", "", 1)] * 6 for number in range(20) if number != 7)


async def test_a_bad_byte_in_one_row_does_not_hide_other_rows(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("odd", cron="*/10 * * * *")
        herd.schedule("sound", cron="*/10 * * * *")
        number = herd.snapshot("odd").id
        with sqlite3.connect(herd.store.path) as connection:
            connection.execute("UPDATE schedule SET next_origin = CAST(x'ff41' AS TEXT) WHERE id = ?", (number,))
        connection.close()

        await herd.advance(HOUR)

        assert herd.outcomes("sound") == herd.outcomes("odd") == [("ran", "", 1)] * 6


async def test_a_beat_that_cannot_be_written_is_skipped_before_any_schedule_is_quarantined(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 10 * * *")
        number = herd.snapshot("report").id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="one"))

        told = herd.store.write_now(lambda tx: quarantine_first_due(tx, herd.now, ValueError("no such column")))

        assert told == []
        assert herd.outcomes("report") == [("skipped", SkipReason.CONFIG_ERROR, 1)]
        assert record(herd, "report").quarantine is None


async def test_if_nothing_is_due_nothing_is_quarantined(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 11 * * *")
        herd.snapshot("report")

        assert herd.store.write_now(lambda tx: quarantine_first_due(tx, herd.now, ValueError("no such column"))) is None


async def test_a_trigger_that_cannot_count_records_the_instant_that_was_due(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="30 10 * * *")
        standing = herd.snapshot("report")
        broken = standing._replace(plan=replace(standing.plan, trigger=Uncountable()))

        verdict = quarantine_evaluation(TEN + HOUR, broken, "ValueError: no such zone")

        (beat,) = verdict.beats
        assert (beat.due_at, beat.number, beat.dedup_id) == (
            TEN + 30 * MINUTE,
            1,
            "config_error:2026-03-02T10:30:00Z",
        )


async def test_a_schedule_that_was_not_due_is_quarantined_without_a_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="30 10 * * *")

        verdict = quarantine_evaluation(TEN, herd.snapshot("report"), "ValueError: no such zone")

        assert (verdict.beats, verdict.quarantine) == ([], "ValueError: no such zone")


async def test_a_node_that_fails_although_nothing_is_due_does_not_spin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> ClaimResult:
        raise ZeroDivisionError("no shadow at noon")

    monkeypatch.setattr("herdbeat.scheduler.loop.claim_due", broken)
    async with open_herd(tmp_path, TEN) as herd, asyncio.TaskGroup() as tasks:
        herd.schedule("report", cron="0 11 * * *")
        herd.snapshot("report")

        looks = [await herd._loop.run_cycle(tasks) for _ in range(12)]  # 500, 250, … 1, and on

        assert [each.wake_at for each in looks[:8]] == [TEN] * 8
        assert [each.wake_at for each in looks[9:]] == [None] * 3  # it looks again at its next poll
        assert record(herd, "report").quarantine is None


class Stumbling:
    """A store that cannot write what it is given, and then is away."""

    def __init__(self) -> None:
        self._errors: list[Exception] = [ValueError("no such column"), StoreUnavailable("the database is locked")]

    async def write(self, work: Callable[[Transaction], T]) -> T:
        raise self._errors.pop(0)


async def test_a_store_that_is_unavailable_during_a_quarantine_does_not_end_the_loop(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd, asyncio.TaskGroup() as tasks:
        loop = Loop(NodeParts(Stumbling(), herd.clock, herd._perform), NodeSettings(node_id=1))
        loop._batch_limit = 1  # the turns before have narrowed it down to one

        claimed = await loop.run_cycle(tasks)

        assert (claimed.claims, claimed.wake_at) == ([], None)  # it looks again at its next poll
