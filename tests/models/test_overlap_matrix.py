"""Policy x trigger x outcome: the engine and a naive model agree on every beat, every start and every count."""

import asyncio
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.overlap_model import (
    HORIZON_TICKS,
    INTERVAL_TICKS,
    TICK,
    ManualRequest,
    ModelResult,
    OverlapCase,
    OverlapModel,
    ScriptedRun,
    iter_ticks,
)
from tests.support.timed_runner import TimedRunner, run_until_idle

from herdbeat.domain.policies import FirstRun, Overlap
from herdbeat.domain.records import BeatRecord
from herdbeat.domain.run import RunStatus
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
TRIGGERS: dict[str, dict[str, Any]] = {
    "cron": {"cron": "* * * * *"},
    "interval": {"every": f"{INTERVAL_TICKS * 20}s", "first_run": FirstRun.AFTER_INTERVAL},
    "delay": {"at": "2026-03-02T10:02:00Z"},
}

endings = st.builds(ScriptedRun, st.integers(1, 12), st.sampled_from(["succeeded", "succeeded", "failed", "timed_out"]))
cases = st.builds(
    OverlapCase,
    kind=st.sampled_from(list(TRIGGERS)),
    policy=st.sampled_from([str(each) for each in Overlap]),
    room=st.integers(1, 2),
    neighbour=st.sampled_from([0, 0, 4, 10]),
    script=st.lists(endings, min_size=1, max_size=4).map(tuple),
    by_hand=st.lists(st.builds(ManualRequest, st.integers(1, HORIZON_TICKS - 1), st.booleans()), max_size=3).map(tuple),
    stop=st.integers(0, 2),
)


@settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases)
def test_the_engine_and_the_naive_model_agree(case: OverlapCase) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(_run_engine(Path(folder), case))

    assert seen == _comparable(OverlapModel(case).run())


@pytest.mark.parametrize("kind", list(TRIGGERS))
@pytest.mark.parametrize("policy", list(Overlap))
@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_every_policy_meets_every_trigger_at_least_once(
    tmp_path: Path, kind: str, policy: Overlap, status: str
) -> None:
    """Long runs beside one by hand, so that nothing of the matrix depends on what is generated."""
    case = OverlapCase(
        kind=kind,
        policy=policy,
        room=1,
        neighbour=0,
        script=(ScriptedRun(8, status),),
        by_hand=(ManualRequest(5, True),),
        stop=1,
    )

    seen = asyncio.run(_run_engine(tmp_path, case))

    assert seen == _comparable(OverlapModel(case).run())


def test_a_beat_started_in_the_same_cycle_as_its_successor_is_cancelled_too(tmp_path: Path) -> None:
    """Once, only runs of earlier cycles were cancelled: the successor waited until that one had ended by itself."""
    long_ones = (ScriptedRun(6, "succeeded"), ScriptedRun(12, "succeeded"))
    case = OverlapCase(kind="cron", policy="cancel", room=1, neighbour=9, script=long_ones)

    seen = asyncio.run(_run_engine(tmp_path, case))

    assert seen["starts"] == [(9, 9)] + [(tick, tick) for tick in range(12, HORIZON_TICKS + 1, 3)]
    assert seen == _comparable(OverlapModel(case).run())


async def _run_engine(folder: Path, case: OverlapCase) -> dict[str, object]:
    async with open_herd(folder, TEN) as herd:
        own = TimedRunner([(each.ticks * TICK, RunStatus(each.status)) for each in case.script], case.stop * TICK)
        other = TimedRunner([(case.neighbour * TICK, RunStatus.SUCCEEDED)])
        if case.neighbour:
            herd.schedule("worker/other", at="2026-03-02T10:00:00Z", runner=other, max_concurrent=case.room)
        herd.schedule(
            "worker/own", runner=own, max_concurrent=case.room, overlap=Overlap(case.policy), **TRIGGERS[case.kind]
        )
        herd.snapshot("worker/own")
        refused = []
        for tick, moment in iter_ticks(TEN):
            herd.clock.advance(moment - herd.now)
            await run_until_idle(herd, own, other)
            for number, each in enumerate(case.by_hand):
                if each.tick == tick:
                    refused += [] if _fire_manually(herd, f"{number}", queue=each.queue) else [tick]
                    await run_until_idle(herd, own, other)
        return _observed(herd, own, refused)


def _fire_manually(herd: SimulatedHerd, event_id: str, *, queue: bool) -> bool:
    number = herd.snapshot("worker/own").id
    fired = herd.store.write_now(
        lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id=event_id, queue=queue)
    )
    return fired.beat_id is not None


def _observed(herd: SimulatedHerd, own: TimedRunner, refused: list[int]) -> dict[str, object]:
    starts = [(_tick(at), _tick(claim.due_at)) for at, claim in zip(own.started_at, own.runs, strict=True)]
    beats = [row for beat in herd.beats("worker/own") for row in _instants(beat)]
    reader = SqliteReader(herd.store.path)
    try:
        runs = reader.runs(Filter(target="worker", name="own", limit=1_000))
    finally:
        reader.close()
    ended = sorted(run.status.value for run in runs if run.status is not RunStatus.RUNNING)
    failures = herd.snapshot("worker/own").failures
    return {"beats": sorted(beats), "starts": sorted(starts), "ended": ended, "failures": failures, "refused": refused}


def _instants(beat: BeatRecord) -> Iterator[tuple[int, str, str]]:
    """A row of several instants, one by one: the counts have to be exact."""
    step = (beat.last_due_at - beat.due_at) / (beat.count - 1) if beat.count > 1 else timedelta(0)
    for number in range(beat.count):
        reason = "" if beat.outcome == "pending" else beat.reason
        yield _tick(beat.due_at + number * step), beat.outcome.value, reason


def _comparable(result: ModelResult) -> dict[str, object]:
    return {
        "beats": sorted((beat.due, beat.outcome, beat.reason) for beat in result.beats),
        "starts": sorted(result.starts),
        "ended": sorted(result.ended),
        "failures": result.failures,
        "refused": result.refused,
    }


def _tick(moment: datetime) -> int:
    ticks, rest = divmod(moment - TEN, TICK)
    assert not rest, f"{moment} is between two ticks"
    return ticks
