"""Beats by hand: they run beside the schedule's own time, and meet the same room as everybody."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap, Retry
from herdbeat.domain.trigger import create_event_id
from herdbeat.scheduler.manual import EnqueueResult, enqueue_manual
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def enqueue_manual_run(
    herd: SimulatedHerd, label: str, event_id: str = "first", *, queue: bool = False
) -> EnqueueResult:
    schedule_id = herd.snapshot(label).id
    return herd.store.write_now(
        lambda tx: enqueue_manual(tx, herd.now, schedule_id, origin="human:you", event_id=event_id, queue=queue)
    )


async def test_a_run_by_hand_does_not_move_the_next_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("triage", every="5m", runner=runner)
        await herd.tick()
        await herd.advance(2 * MINUTE)

        fired = enqueue_manual_run(herd, "triage")
        await herd.tick()

        assert fired.next_run_at == TEN + 5 * MINUTE
        assert herd.next_run("triage") == TEN + 5 * MINUTE
        beat = herd.beats("triage")[-1]
        assert (beat.source, beat.origin, beat.dedup_id) == (Source.MANUAL, "human:you", "manual:first")
        assert len(runner.runs) == 2


async def test_at_capacity_it_is_refused_and_leaves_no_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="5m", runner=ScriptedRunner(holds=True))
        await herd.tick()

        fired = enqueue_manual_run(herd, "triage")

        assert (fired.beat_id, fired.skip_reason) == (None, SkipReason.AT_CAPACITY)
        assert (fired.running, fired.max_concurrent) == (1, 1)
        assert herd.outcomes("triage") == [("running", "", 1)]


async def test_with_queue_it_waits_and_starts_when_a_slot_is_free(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        busy, wanted = ScriptedRunner(holds=True), ScriptedRunner(holds=True)
        herd.schedule("triage/busy", every="5m", runner=busy)
        herd.schedule("triage/wanted", cron="0 9 * * *", runner=wanted)
        await herd.tick()

        fired = enqueue_manual_run(herd, "triage/wanted", queue=True)
        await herd.tick()

        assert fired.waits_for is SkipReason.AT_CAPACITY
        assert herd.outcomes("triage/wanted") == [("pending", "at_capacity", 1)]
        busy.let_go()
        await herd.tick()
        assert len(wanted.runs) == 1


@pytest.mark.parametrize(
    ("overlap", "refused", "starts"),
    [
        (Overlap.SKIP, True, 1),
        (Overlap.CANCEL, True, 1),
        (Overlap.QUEUE, False, 1),
        (Overlap.QUEUE_ALL, False, 1),
        (Overlap.ALLOW, False, 2),
    ],
)
async def test_beside_its_own_run_the_overlap_policy_decides(
    tmp_path: Path, overlap: Overlap, refused: bool, starts: int
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner, max_concurrent=2, overlap=overlap)
        await herd.tick()

        fired = enqueue_manual_run(herd, "triage")
        await herd.tick()

        assert (fired.skip_reason is SkipReason.ALREADY_RUNNING) is refused
        assert len(runner.runs) == starts


async def test_a_beat_queued_behind_its_own_run_starts_when_that_run_ends(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner, max_concurrent=2)
        await herd.tick()
        enqueue_manual_run(herd, "triage", queue=True)
        await herd.tick()

        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert len(runner.runs) == 2
        assert herd.outcomes("triage") == [("ran", "", 1), ("ran", "", 1)]


async def test_a_person_may_run_what_is_disabled(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("triage", every="5m", runner=runner)
        herd._schedules["triage/default"] = replace(herd._schedules["triage/default"], enabled=False)
        await herd.tick()

        enqueue_manual_run(herd, "triage")
        await herd.tick()

        assert len(runner.runs) == 1
        assert herd.next_run("triage") is None


async def test_a_beat_by_hand_without_a_node_starts_with_the_next_node(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 9 * * *")
        enqueue_manual_run(herd, "report")

    async with open_herd(tmp_path, TEN + MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 9 * * *", runner=runner)
        await herd.tick()

        assert [claim.source for claim in runner.runs] == [Source.MANUAL]


async def test_a_success_by_hand_resets_the_failures_and_a_failure_by_hand_adds_none(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m", runner=ScriptedRunner(fails=2))
        await herd.tick()

        enqueue_manual_run(herd, "api", "fails")
        await herd.tick()
        after_failure = herd.snapshot("api").failures
        enqueue_manual_run(herd, "api", "succeeds")
        await herd.tick()

        assert after_failure == 1
        assert herd.snapshot("api").failures == 0
        assert herd.next_run("api") == TEN + 5 * MINUTE


async def test_a_success_by_hand_does_not_reschedule_an_interval_that_is_running(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        failing, held = ScriptedRunner(fails=1), ScriptedRunner(holds=True)
        herd.schedule("api", every="5m", runner=failing, max_concurrent=2, overlap=Overlap.ALLOW)
        await herd.tick()
        herd.schedule("api", every="5m", runner=held, max_concurrent=2, overlap=Overlap.ALLOW)
        herd.clock.advance(10 * MINUTE)
        await herd.tick()  # its own run is going, and has no next time until it ends

        herd.schedule("api", every="5m", runner=ScriptedRunner(), max_concurrent=2, overlap=Overlap.ALLOW)
        enqueue_manual_run(herd, "api")
        await herd._loop.run_cycle(herd._tasks)
        await herd._loop.active_runs[3].task
        await herd._loop.completer.wait_drained()

        assert herd.snapshot("api").failures == 0
        assert herd.next_run("api") is None
        held.let_go()


async def test_a_beat_by_hand_is_never_too_late(tmp_path: Path) -> None:
    """Once `max_late` applied to it: a beat requested at night was missed in the morning, and never ran."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", cron="0 9 * * *", max_late=MINUTE)
        enqueue_manual_run(herd, "triage")
    async with open_herd(tmp_path, TEN + 60 * MINUTE) as herd:
        herd.schedule("triage", cron="0 9 * * *", max_late=MINUTE)

        await herd.tick()

        assert herd.outcomes("triage") == [("ran", "", 1)]


async def test_a_retry_past_max_late_does_not_make_a_beat_that_ran_a_missed_one(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        twice = Retry(attempts=2, wait=5 * MINUTE)
        herd.schedule("triage", every="1h", max_late=MINUTE, retry=twice, runner=ScriptedRunner(fails=1))
        await herd.tick()

        await herd.advance(5 * MINUTE)

        assert herd.outcomes("triage") == [("ran", "", 1)]
        assert len(herd.beats("triage")[0].runs) == 2


async def test_a_beat_by_hand_has_the_id_of_its_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("report", cron="0 9 * * *")
        await herd.tick()
        enqueue_manual_run(herd, "report", create_event_id())
        enqueue_manual_run(herd, "report", create_event_id(), queue=True)
        await herd.tick()

        named = {beat.dedup_id: beat.runs for beat in herd.beats("report")}

        assert named == {"manual:0001": (1,), "manual:0002": (2,)}
