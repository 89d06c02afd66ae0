"""Pause, disable and hint, also at the very instant of a beat: nothing lost, nothing twice, no burst afterwards."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE


def consult_the_oracle(herd: SimulatedHerd, label: str, until: datetime) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation(label, "0 * * * *", START, until))
        check_reasons(reader, label)
        check_runs(reader)
    finally:
        reader.close()


async def test_instants_inside_a_pause_are_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(2 * MINUTE)

        herd.pause("report", until=TEN + 3 * HOUR + 30 * MINUTE)
        assert (herd.next_run("report"), herd.why("report")) == (TEN + 3 * HOUR + 30 * MINUTE, Source.PAUSED)
        await herd.advance(5 * HOUR)

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "paused", 3), ("ran", "", 1), ("ran", "", 1)]
        consult_the_oracle(herd, "report", herd.now)


async def test_a_pause_without_an_end_lasts_until_it_is_resumed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.pause("report")
        await herd.advance(5 * HOUR)
        assert herd.next_run("report") is None

        herd.resume("report")
        await herd.tick()

        assert herd.outcomes("report") == [("skipped", "paused", 5)]
        assert herd.next_run("report") == TEN + 5 * HOUR
        consult_the_oracle(herd, "report", herd.now)


@pytest.mark.parametrize("first", ["pause", "beat"])
async def test_a_pause_at_the_very_instant_of_a_beat(tmp_path: Path, first: str) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.tick()
        herd.clock.advance(MINUTE)  # 10:00:00 exactly, and nobody has looked yet

        if first == "beat":
            await herd.tick()
        herd.pause("report", until=TEN + HOUR)
        await herd.tick()

        assert len(runner.runs) == (1 if first == "beat" else 0)
        assert herd.outcomes("report") == [("ran", "", 1) if first == "beat" else ("skipped", "paused", 1)]
        consult_the_oracle(herd, "report", herd.now)


async def test_disabling_during_a_run_stays(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("api", every="5m", runner=runner)
        await herd.tick()
        herd.disable("api")

        runner.let_go()
        await herd.advance(HOUR)

        assert len(runner.runs) == 1
        assert herd.next_run("api") is None
        herd.enable("api")
        await herd.tick()
        assert len(runner.runs) == 2  # overdue: once, now


async def test_a_beat_that_waits_for_a_slot_is_skipped_by_a_pause(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy, waiting = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", every="1h", runner=busy)
        herd.schedule("worker/report", cron="0 * * * *", runner=waiting)
        await herd.advance(2 * MINUTE)
        assert herd.outcomes("worker/report") == [("pending", "at_capacity", 1)]

        herd.pause("worker/report")
        busy.let_go()
        await herd.advance(MINUTE)

        assert herd.outcomes("worker/report") == [("skipped", "paused", 1)]
        assert waiting.runs == []
        assert herd.snapshot("worker/report").waiting == 0


async def test_pausing_twice_and_resuming_twice_changes_nothing_more(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        for _ in range(3):
            herd.disable("report")
        for _ in range(3):
            herd.enable("report")

        assert herd.next_run("report") == TEN
        assert herd.outcomes("report") == []


async def test_every_thirty_seconds_on_an_hourly_schedule_acts_at_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("queue", every="1h", runner=runner)
        await herd.tick()
        await herd.advance(20 * MINUTE)

        herd.hint("queue", Hint(origin="human:you", every=timedelta(seconds=30), expires_at=herd.now + 10 * MINUTE))
        await herd.advance(5 * MINUTE)

        assert len(runner.runs) == 12  # the first, one at once, and then every half minute
        await herd.advance(2 * HOUR)
        assert herd.why("queue") is Source.BASELINE_INTERVAL


async def test_a_one_shot_is_used_up_by_its_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("queue", every="1h", runner=runner)
        await herd.tick()

        herd.hint("queue", Hint(origin="agent:queue", at=TEN + 10 * MINUTE, expires_at=TEN + 5 * HOUR))
        assert (herd.next_run("queue"), herd.why("queue")) == (TEN + 10 * MINUTE, Source.AI_ONESHOT)
        await herd.advance(30 * MINUTE)

        assert len(runner.runs) == 2
        assert herd.next_run("queue") == TEN + 70 * MINUTE


async def test_a_newer_interval_hint_replaces_the_older_one_of_its_rank(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        for minutes in (5, 10):
            wish = Hint(origin="human:you", every=minutes * MINUTE, expires_at=TEN + 5 * HOUR, created_at=herd.now)
            herd.hint("queue", wish)

        assert herd.next_run("queue") == TEN + 10 * MINUTE
        assert len(herd.snapshot("queue").hints) == 1
        herd.clear_hints("queue")
        assert herd.next_run("queue") == TEN + HOUR


async def test_what_waits_of_a_schedule_that_was_removed_never_starts(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy, waiting = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", every="1h", runner=busy)
        herd.schedule("worker/report", cron="0 * * * *", runner=waiting)
        await herd.advance(2 * MINUTE)

        herd.remove("worker/report")
        busy.let_go()
        await herd.advance(MINUTE)

        assert waiting.runs == []
        assert herd.outcomes("worker/report") == [("skipped", "expired", 1)]


async def test_a_machine_may_not_run_what_is_paused_or_disabled_and_a_person_may(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        number = herd.snapshot("queue").id

        def fired(origin: str, event_id: str) -> SkipReason | None:
            made = herd.store.write_now(
                lambda tx: enqueue_manual(tx, herd.now, number, origin=origin, event_id=event_id)
            )
            return made.skip_reason

        herd.pause("queue")
        while_paused = fired("agent:triage", "1"), fired("human:you", "2")
        herd.disable("queue")
        while_disabled = fired("rule:surge", "3"), fired("human:you", "4")

        assert while_paused == (SkipReason.PAUSED, None)
        assert while_disabled == (SkipReason.DISABLED, None)


async def test_a_hint_that_ends_before_the_next_run_is_decided_again_at_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("queue", every="1h", runner=runner)
        await herd.tick()
        herd.hint("queue", Hint(origin="human:you", every=6 * HOUR, expires_at=TEN + 90 * MINUTE))
        assert herd.next_run("queue") == TEN + 6 * HOUR
        assert herd.snapshot("queue").wake_at == TEN + 90 * MINUTE

        await herd.advance(100 * MINUTE)

        # An hour was over when the slow hint ended: once, then, and from there on as before.
        assert [run.due_at for run in runner.runs] == [TEN, TEN + 90 * MINUTE]
        assert herd.why("queue") is Source.BASELINE_INTERVAL


async def test_enabling_what_is_on_and_due_does_not_lose_the_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.tick()
        herd.clock.advance(MINUTE)

        herd.enable("report")
        herd.resume("report")
        await herd.tick()

        assert len(runner.runs) == 1
        consult_the_oracle(herd, "report", herd.now)
