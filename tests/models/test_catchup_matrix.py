"""Outage x catchup x max_late x grace x catchup_max: the engine and a naive model agree on every instant."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.catchup_model import CRON_PERIOD_S, DELAY_S, INTERVAL_S, CatchupCase, ExpectedBeat, expected_rows

from herdbeat.domain.policies import Catchup, FirstRun
from herdbeat.domain.records import BeatRecord
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TRIGGERS: dict[str, dict[str, Any]] = {
    "cron": {"cron": f"*/{CRON_PERIOD_S // 60} * * * *"},
    "interval": {"every": f"{INTERVAL_S}s", "first_run": FirstRun.AFTER_INTERVAL},
    "delay": {"at": (TEN + DELAY_S * SECOND).isoformat().replace("+00:00", "Z")},
}
CAUSES = ("scheduler_down", "slept", "clock_jumped")

outages = st.sampled_from([1, 2, 3, 29, 30, 31, 299, 600, 601, 3_600, 7_230, 90_000]) | st.integers(1, 20_000)
spans = st.sampled_from([0, 1, 30, 599, 600, 601, 3_600])
cases = st.builds(
    CatchupCase,
    kind=st.sampled_from(list(TRIGGERS)),
    catchup=st.sampled_from([str(each) for each in Catchup]),
    away=st.sampled_from([0, 300, 419, 420, 599, 600, 601, 890, 899, 900, 1_190]),
    outage=outages,
    cause=st.sampled_from(CAUSES),
    grace=spans,
    max_late=st.none() | spans,
    catchup_max=st.integers(1, 5),
    after=st.sampled_from([60, 1_300]),
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases)
def test_the_engine_and_the_naive_model_agree(case: CatchupCase) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(_run_engine(Path(folder), case))

    assert seen == expected_rows(case)


@pytest.mark.parametrize(
    ("kind", "catchup", "outage", "max_late"), [*product(TRIGGERS, Catchup, [20, 1_500, 100_000], [None, 700])]
)
def test_every_policy_meets_every_outage_at_least_once(
    tmp_path: Path, kind: str, catchup: Catchup, outage: int, max_late: int | None
) -> None:
    """Away just before the first instant of each kind, so that nothing of the matrix depends on what is generated."""
    away = {"cron": CRON_PERIOD_S, "interval": INTERVAL_S, "delay": DELAY_S}[kind] - 10
    case = CatchupCase(
        kind=kind,
        catchup=catchup,
        away=away,
        outage=outage,
        cause="scheduler_down",
        grace=30,
        max_late=max_late,
        catchup_max=3,
        after=1_300,
    )

    seen = asyncio.run(_run_engine(tmp_path, case))

    assert seen == expected_rows(case)


def test_an_interval_past_its_max_late_is_too_late_although_within_grace(tmp_path: Path) -> None:
    case = CatchupCase(
        kind="interval",
        catchup="once",
        away=0,
        outage=INTERVAL_S + 20,
        cause="scheduler_down",
        grace=30,
        max_late=10,
        catchup_max=1,
        after=60,
    )

    seen = asyncio.run(_run_engine(tmp_path, case))

    assert seen == [(INTERVAL_S, "missed", "too_late", "baseline-interval")]


def test_the_newest_that_is_just_late_runs_although_older_ones_are_caught_up(tmp_path: Path) -> None:
    """Once, it was merged into those that waited for their pace, as if there were no room."""
    case = CatchupCase(
        kind="cron",
        catchup="all",
        away=CRON_PERIOD_S - 10,
        outage=CRON_PERIOD_S + 20,
        cause="slept",
        grace=30,
        max_late=None,
        catchup_max=5,
        after=60,
    )

    seen = asyncio.run(_run_engine(tmp_path, case))

    assert seen == [(CRON_PERIOD_S, "ran", "", "catch-up"), (2 * CRON_PERIOD_S, "ran", "", "baseline-cron")]


@pytest.mark.parametrize("catchup", [Catchup.ONCE, Catchup.ALL])
async def test_a_clock_beat_runs_although_older_ones_still_wait_for_their_catch_up_slot(
    tmp_path: Path, catchup: Catchup
) -> None:
    """Once, it was merged into them as `at_capacity`, in a target with all its room free."""
    async with open_herd(tmp_path, TEN) as herd:
        for name in ("first", "second"):
            herd.schedule(name, cron="* * * * *", catchup=catchup)
        await herd.tick()

    async with open_herd(tmp_path, TEN + 645 * SECOND, catchup_rate=0.005) as herd:
        for name in ("first", "second"):
            herd.schedule(name, cron="* * * * *", catchup=catchup)
        await herd.advance(100 * SECOND)

        waiting = [beat.reason for beat in herd.beats("second") if beat.outcome == "pending"]
        assert set(waiting) == {"catch-up"}
        assert [(beat.due_at, beat.outcome) for beat in herd.beats("second")][-2:] == [
            (TEN + 660 * SECOND, "ran"),
            (TEN + 720 * SECOND, "ran"),
        ]


async def _run_engine(folder: Path, case: CatchupCase) -> list[ExpectedBeat]:
    async with open_herd(folder, TEN) as herd:
        _schedule(herd, case)
        await herd.advance(case.away * SECOND)
        if case.cause != "scheduler_down":
            lose = herd.clock.suspend if case.cause == "slept" else herd.clock.jump
            lose(case.outage * SECOND)
            await herd.advance(case.after * SECOND)
            return _rows(herd)
    async with open_herd(folder, TEN + case.back * SECOND) as herd:
        _schedule(herd, case)
        await herd.advance(case.after * SECOND)
        return _rows(herd)


def _schedule(herd: SimulatedHerd, case: CatchupCase) -> None:
    herd.schedule(
        "job",
        catchup=Catchup(case.catchup),
        grace=case.grace * SECOND,
        max_late=None if case.max_late is None else case.max_late * SECOND,
        catchup_max=case.catchup_max,
        **TRIGGERS[case.kind],
    )
    herd.snapshot("job")


def _rows(herd: SimulatedHerd) -> list[ExpectedBeat]:
    return sorted(row for beat in herd.beats("job") for row in _instants(beat))


def _instants(beat: BeatRecord) -> list[ExpectedBeat]:
    """A row of several instants, one by one: the counts have to be exact."""
    step = (beat.last_due_at - beat.due_at) / (beat.count - 1) if beat.count > 1 else timedelta(0)
    dues = [beat.due_at + number * step for number in range(beat.count)]
    return [((due - TEN) // SECOND, beat.outcome.value, beat.reason, beat.source.value) for due in dues]
