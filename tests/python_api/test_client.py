"""The methods of a herd: trigger, next, explain, pause, resume and hint."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat import Herd, ScheduleSkipReason, ScheduleTriggerError
from herdbeat.errors import Conflict, NotFound, UsageError


async def test_trigger_starts_a_run_and_with_wait_returns_its_result(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="good")(lambda: {"n": 1})
    herd.by_hand(name="bad")(lambda: 1 / 0)

    async with herd:
        good, bad = await herd.trigger("good"), await herd.trigger("bad", wait=True)

    assert (good.success, good.job_id) == (True, "0001")
    assert (bad.success, bad.job_id, bad.error) == (False, "0002", "ZeroDivisionError: division by zero")


async def test_trigger_at_capacity_is_skipped_unless_it_may_queue(tmp_path: Path) -> None:
    herd, going = Herd(tmp_path), asyncio.Event()

    @herd.by_hand(overlap="skip")
    async def slow() -> None:
        await going.wait()

    async with herd:
        await herd.trigger("slow")
        refused = await herd.trigger("slow")
        queued = await herd.trigger("slow", queue=True)
        going.set()

    assert (refused.success, refused.skip_reason) == (False, ScheduleSkipReason.AT_CAPACITY)
    assert (queued.success, queued.job_id) == (True, None)


async def test_an_unknown_schedule_of_a_herd_is_an_error(tmp_path: Path) -> None:
    herd = Herd(tmp_path)

    with pytest.raises(NotFound, match='no schedule "poll"'):
        herd.next("poll")


async def test_a_herd_that_does_not_run_cannot_be_triggered(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="poll")(lambda: None)

    with pytest.raises(ScheduleTriggerError, match="not running"):
        await herd.trigger("poll")


async def test_next_works_before_the_first_start_and_while_it_runs(tmp_path: Path) -> None:
    herd = Herd(tmp_path, timezone="Europe/Berlin")
    herd.cron("0 9 1 1 *", name="newyear")(lambda: None)

    before = herd.next("newyear")
    async with herd:
        during = herd.next("newyear")

    assert before == during
    assert before is not None
    assert (before.month, before.day, before.hour, before.tzinfo) == (1, 1, 8, UTC)


async def test_pause_resume_and_hint_are_explained(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.cron("0 9 1 1 *", name="newyear")(lambda: None)

    async with herd:
        await herd.pause("newyear", lasts="1h", reason="quiet", by="human:anna")
        paused = herd.explain("newyear").text
        await herd.resume("newyear", by="human:anna")
        await herd.hint("newyear", every="10m", lasts="1h", by="agent:scout")
        hinted = herd.explain("newyear")

    assert "paused" in paused
    assert "human:anna" in paused
    assert (hinted.source, hinted.origin) == ("ai-interval", "agent:scout")


async def test_explain_returns_as_much_as_the_command_prints(tmp_path: Path) -> None:
    """It used to ignore the budget and the active hints."""
    herd = Herd(tmp_path)
    herd.every("1h", name="poll", budget={"runs_per_day": 1})(lambda: None)

    async with herd:
        await herd.trigger("poll", wait=True, by="human:you")
        await herd.hint("poll", every="30m", lasts="2h", reason="the queue grows")
        explanation = herd.explain("poll")

    assert "its budget is used up" in explanation.text
    assert [each.record.reason for each in explanation.hints] == ["the queue grows"]
    assert "budget" in [each.gate for each in explanation.gates]


async def test_a_machine_does_not_resume_what_a_person_paused(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)
    async with herd:
        await herd.pause("poll", by="human:anna")

        with pytest.raises(Conflict, match="paused by human:anna"):
            await herd.resume("poll", by="agent:scout")


async def test_a_pause_has_an_end_or_a_length(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)

    with pytest.raises(UsageError, match="cannot be used together"):
        await herd.pause("poll", until=datetime(2100, 1, 1, tzinfo=UTC), lasts="1h")


@pytest.mark.parametrize(
    ("lasts", "message"),
    [
        (float("inf"), "not a duration: inf"),
        (float("nan"), "not a duration: nan"),
        (1e300, "not a duration"),
        (timedelta.max, "longer than 100 years"),
        (-1, "lasts is negative"),
    ],
)
async def test_an_invalid_duration_is_rejected(tmp_path: Path, lasts: Any, message: str) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)

    with pytest.raises(UsageError, match=message):
        await herd.pause("poll", lasts=lasts)
