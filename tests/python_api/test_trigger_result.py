"""The outcome of a manual beat as the documented result."""

from pathlib import Path

import pytest

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.python_api.client import trigger_result_from_beat, trigger_result_from_ledger
from herdbeat.python_api.herdctl_types import TriggerResult
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.service.commands.base import TriggeredBeat
from herdbeat.store.reader import SqliteReader
from herdbeat.testing import ScriptedRunner, SimulatedHerd, open_herd


def fired(herd: SimulatedHerd) -> str:
    """A manual beat of the schedule `scan`, recorded and not claimed yet."""
    number = herd.snapshot("scan").id
    done = herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
    assert done.beat_id is not None
    return format_short_id(done.beat_id)


def beat_by_hand(*, skip_reason: SkipReason | None = None, waits_for: SkipReason | None = None) -> TriggeredBeat:
    return TriggeredBeat(
        schedule="scan",
        success=skip_reason is None,
        skipped=skip_reason is not None,
        skip_reason=skip_reason,
        waits_for=waits_for,
        beat=None if skip_reason else "0001",
        running=1,
        max_concurrent=1,
        next_run_at=None,
    )


def test_a_refusal_is_skipped_with_its_reason() -> None:
    result = trigger_result_from_beat(beat_by_hand(skip_reason=SkipReason.AT_CAPACITY))

    assert result == TriggerResult(success=False, skipped=True, skip_reason=SkipReason.AT_CAPACITY)


def test_a_queued_beat_is_a_success_without_a_job() -> None:
    waiting = beat_by_hand(waits_for=SkipReason.ALREADY_RUNNING)

    assert trigger_result_from_beat(waiting) == TriggerResult(success=True)


def test_a_started_run_has_no_result_yet() -> None:
    assert trigger_result_from_beat(beat_by_hand()) is None


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (0, TriggerResult(success=True, job_id="0001")),
        (1, TriggerResult(success=False, job_id="0001", error="it was told to fail")),
    ],
)
async def test_a_finished_run_has_its_result(tmp_path: Path, fails: int, expected: TriggerResult) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", cron="0 9 * * *", runner=ScriptedRunner(fails=fails))
        beat = fired(herd)
        reader = SqliteReader(herd.store.path)
        before = trigger_result_from_ledger(reader, beat)

        await herd.tick()

        assert before is None
        assert trigger_result_from_ledger(reader, beat) == TriggerResult(success=True, job_id="0001")
        assert trigger_result_from_ledger(reader, beat, require_finished=True) == expected
        reader.close()


async def test_a_running_run_is_not_finished(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", cron="0 9 * * *", runner=ScriptedRunner(holds=True))
        beat = fired(herd)

        await herd.tick()

        reader = SqliteReader(herd.store.path)
        assert trigger_result_from_ledger(reader, beat, require_finished=True) is None
        reader.close()


async def test_a_beat_that_was_cancelled_before_its_run_is_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", cron="0 9 * * *")
        beat, number = fired(herd), herd.snapshot("scan").id

        herd.store.write_now(lambda tx: cancel_pending(tx, herd.now, [number]))

        reader = SqliteReader(herd.store.path)
        assert trigger_result_from_ledger(reader, beat) == TriggerResult(
            success=False, skipped=True, skip_reason=SkipReason.BY_REQUEST
        )
        reader.close()
