"""How a fleet is, read from a ledger that the real engine wrote."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.record_builders import MINUTE, NOW, make_run_record

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.service.queries.explain import load_next_explanation
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition
from herdbeat.service.queries.schedules import summarize_schedules
from herdbeat.service.queries.status import FleetStatus, estimate_duration, find_record, read_status
from herdbeat.service.serialize import serialize_status
from herdbeat.store.name_lookup import names_with_prefix
from herdbeat.store.reader import ScheduleQuery, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def status_of(herd: SimulatedHerd, pid: int | None = 1) -> FleetStatus:
    reader = SqliteReader(herd.store.path)
    try:
        return read_status(reader, herd.now, pid, zone=ZoneInfo("UTC"))
    finally:
        reader.close()


async def test_a_quiet_fleet_shows_only_what_comes_next(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("late", every="1h")
        herd.schedule("soon", every="5m")
        await herd.tick()

        status = status_of(herd)

        assert [each.label for each in status.upcoming] == ["soon", "late"]
        assert not status.needs_attention
        assert (status.schedules, status.running) == (2, ())


@pytest.mark.parametrize(("reason", "said"), [("config_error", "error"), ("work_source_error", "note")])
async def test_a_schedule_that_could_never_start_was_ok_and_on_time(tmp_path: Path, reason: str, said: str) -> None:
    unable = Outcome(status=RunStatus.SKIPPED, skip=SkipReason(reason), **{said: "bubblewrap is not installed"})  # type: ignore[arg-type]
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="1h", runner=ScriptedRunner(outcomes=[unable]))
        await herd.tick()

        status = status_of(herd)
        reader = SqliteReader(herd.store.path)
        outline, listed = (
            reader.outlines(ScheduleQuery(now=herd.now, state="failing"))[0],
            find_record(reader, "scribe"),
        )
        [named] = names_with_prefix(herd.store.path, "scr", 5)
        reader.close()
        await herd.advance(timedelta(hours=1))

        assert [(each.label, each.last_error) for each in status.failing] == [("scribe", "bubblewrap is not installed")]
        assert listed is not None
        assert (listed.failures, listed.last_run_at) == (0, None)
        assert {resolve_condition(each, herd.now).state for each in (outline, listed, named)} == {DisplayState.FAILING}
        assert not status_of(herd).failing


async def test_the_dollars_of_the_day_are_shown_where_the_fleet_has_a_budget(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="1h", runner=ScriptedRunner(usage={"usd": 1.25}))
        await herd.tick()
        without = status_of(herd)

        herd.share(Budget(usd_per_day=20))
        await herd.advance(timedelta(hours=2))

        assert without.spend_today is None
        assert status_of(herd).spend_today == (2.5, 20)
        assert serialize_status(status_of(herd), "f")["today"] == {"usd": 2.5, "usd_per_day": 20}


async def test_a_beat_that_waits_for_room_is_late_after_its_time_and_says_why(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("worker/a", every="1h", runner=ScriptedRunner(holds=True))
        herd.schedule("worker/b", every="1h")
        await herd.tick()
        early = status_of(herd)
        herd.clock.advance(timedelta(minutes=12))

        status = status_of(herd)

        assert early.late == ()
        assert [(each.schedule, each.reason, each.detail) for each in status.late] == [
            ("worker/b", "at_capacity", "1 of 1 running")
        ]
        assert [each.run.schedule for each in status.running] == ["worker/a"]


async def test_while_nothing_runs_what_is_overdue_is_late_for_that_reason(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="5m")
        await herd.tick()
        herd.clock.advance(timedelta(minutes=12))

        status = status_of(herd, pid=None)

        assert [(each.schedule, each.reason) for each in status.late] == [("triage", "scheduler_down")]
        assert status.running == ()


async def test_a_fleet_that_was_stopped_after_a_crash_was_last_seen_before_the_crash(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("poll", every="5m")
        await herd.tick()  # its node is killed: it never leaves
        info = NodeInfo(host="b", pid=2, version="1")
        second = herd.store.write_now(lambda tx: register_node(tx, TEN + DAY, info))
        herd.store.write_now(lambda tx: tx.leave_node(second.node_id, TEN + 2 * DAY))

        node = status_of(herd, pid=None).node

        assert node is not None
        assert node.stopped_at == TEN + 2 * DAY


async def test_a_failing_schedule_is_counted_until_it_recovers(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m", runner=ScriptedRunner(fails=1))
        await herd.tick()
        failing = serialize_status(status_of(herd), "herd")
        await herd.advance(timedelta(minutes=10))

        recovered = status_of(herd)

        assert failing["failing"] == [{"schedule": "api", "failures": 1, "error": "it was told to fail", "retry": None}]
        assert recovered.failing == ()


@pytest.mark.parametrize(
    ("minutes", "usual"),
    [
        ([], None),
        ([1, 2], None),
        ([3, 1, 2], (1, 3)),
        ([*range(1, 21)], (2, 19)),
    ],
)
def test_the_typical_duration_needs_several_runs(minutes: list[int], usual: tuple[int, int] | None) -> None:
    runs = [make_run_record(started_at=NOW - each * MINUTE) for each in minutes]

    found = estimate_duration([*runs, make_run_record(status=RunStatus.FAILED, started_at=NOW - 99 * MINUTE)])

    assert found == (None if usual is None else (usual[0] * MINUTE, usual[1] * MINUTE))


async def test_a_schedule_that_paused_itself_is_held_but_not_by_hand(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("api", every="1m", pause_after_failures=1, runner=ScriptedRunner(fails=1))
        herd.schedule("report", cron="0 9 * * *")
        herd.pause("report")
        by_hand = status_of(herd)

        await herd.tick()
        status = status_of(herd)

        assert [(each.record.label, each.hold.by) for each in status.held] == [
            ("api", "policy"),
            ("report", "human:you"),
        ]
        assert [each.record.label for each in by_hand.held] == ["report"]


async def test_what_waits_for_a_label_is_late_and_says_which(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("train", cron="0 9 * * *", runs_on="gpu")
        number = herd.snapshot("train").id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))

        await herd.advance(2 * MINUTE)

        (late,) = status_of(herd).late
        assert (late.reason, late.detail) == ("target_offline", "no live node has the label gpu")


async def test_a_used_up_budget_is_shown_until_its_day_ends(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="3h", budget=Budget(runs_per_day=1))
        herd.schedule("other", every="3h")
        await herd.tick()
        with_room = status_of(herd).over_budget
        await herd.advance(timedelta(hours=13))
        used_up = status_of(herd)
        herd.clock.advance(timedelta(hours=1))  # it is the next day, and the next beat is not due yet
        reset = status_of(herd).over_budget

    assert with_room == reset == ()
    assert [(each.record.label, each.until) for each in used_up.over_budget] == [("scribe", TEN.replace(hour=0) + DAY)]
    assert serialize_status(used_up, "herd")["over_budget"] == [{"schedule": "scribe", "until": "2026-03-03T00:00:00Z"}]


async def test_a_hint_that_ends_before_its_own_time_hid_the_run_that_comes_first(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("probe", every="1m")
        herd.schedule("soon", every="5m")
        await herd.tick()
        ends_at = herd.now + timedelta(minutes=10)
        herd.hint("probe", Hint(origin="human:you", every=timedelta(hours=1), expires_at=ends_at))
        status = status_of(herd)
        with closing(SqliteReader(herd.store.path)) as reader:
            record = find_record(reader, "probe")
            assert record is not None
            explanation = load_next_explanation(reader, record, herd.now, has_live_node=True)
            [listed] = summarize_schedules(reader, [record], herd.now)
        await herd.advance(timedelta(minutes=10))

        assert [(each.label, each.next_run_at) for each in status.upcoming] == [
            ("soon", TEN + timedelta(minutes=5)),
            ("probe", ends_at),
        ]
        assert listed.record.next_run_at == explanation.next_run_at == ends_at
        assert explanation.text.startswith("next run in 10m: hint every 1h by human:you, 10m left, ends before")
        assert len(herd.beats("probe")) == 2  # and it has run then
