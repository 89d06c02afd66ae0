"""Agents that are due at once, by a start, a reload or a resume, start at no more than `catchup_rate` a second."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import AUTOMATIC_SPREAD, FirstRun, Jitter
from herdbeat.domain.run import Claim, Outcome
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
SPACING = SECOND / 10
LABELS = [f"agent-{number:02}" for number in range(25)]


@dataclass
class Agent(ScriptedRunner):
    """Records when it is started, by the clock of the herd."""

    starts: list[datetime] = field(default_factory=list)

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        self.starts.append(clock.now())
        return await super().__call__(claim, clock)


def add_agents(herd: SimulatedHerd, starts: list[datetime], every: str = "5m", **policies: Any) -> None:
    for label in LABELS:
        herd.schedule(label, every=every, runner=Agent(starts=starts), **{"jitter": AUTOMATIC_SPREAD, **policies})


@pytest.fixture
def starts() -> list[datetime]:
    """When the agents were started, in order, as they saw it."""
    return []


async def test_the_first_runs_of_a_start_are_paced_and_none_is_lost_or_doubled(
    tmp_path: Path, starts: list[datetime]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)

        await herd.tick()
        first = list(starts)
        await herd.advance(10 * SECOND)

        assert first == [TEN]
        assert starts == [TEN + place * SPACING for place in range(len(LABELS))]
        assert all(herd.outcomes(label) == [("ran", "", 1)] for label in LABELS)
        assert {herd.beats(label)[0].due_at for label in LABELS} == {TEN}


async def test_a_place_is_the_next_run_and_its_trace_says_why(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)

        await herd.tick()

        waiting = [label for label in LABELS if herd.next_run(label) and not herd.beats(label)]
        assert len(waiting) == len(LABELS) - 1
        assert all(herd.why(label) is Source.FIRST_RUN for label in waiting)
        snapshot = herd.snapshot(waiting[-1])
        assert (snapshot.next_due_at, snapshot.next_run_at) == (TEN, TEN + (len(LABELS) - 1) * SPACING)


async def test_agents_that_are_resumed_together_are_paced(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)
        await herd.advance(10 * SECOND)
        for label in LABELS:
            herd.pause(label)
        await herd.advance(30 * MINUTE)
        resumed_at = herd.now

        for label in LABELS:
            herd.resume(label)
        await herd.advance(10 * SECOND)

        second = starts[len(LABELS) :]
        assert second == [resumed_at + place * SPACING for place in range(len(LABELS))]


async def test_a_pause_that_ends_for_many_at_once_is_paced(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)
        await herd.advance(10 * SECOND)
        for label in LABELS:
            herd.pause(label, until=TEN + 30 * MINUTE)

        await herd.advance(31 * MINUTE)

        second = starts[len(LABELS) :]
        assert second == [TEN + 30 * MINUTE + place * SPACING for place in range(len(LABELS))]


async def test_a_shorter_interval_that_makes_many_overdue_is_paced(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)
        await herd.advance(3 * MINUTE)
        add_agents(herd, starts, every="1m")

        await herd.advance(10 * SECOND)

        second = starts[len(LABELS) :]
        assert len(second) == len(LABELS)
        assert all(after - before >= SPACING for before, after in pairwise(second))


async def test_beats_that_come_due_by_their_own_pace_are_spread_and_not_paced(
    tmp_path: Path, starts: list[datetime]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts, first_run=FirstRun.AFTER_INTERVAL)

        await herd.advance(6 * MINUTE)

        began = starts
        assert len(began) == len(LABELS)
        assert TEN + 5 * MINUTE <= began[0] <= began[-1] <= TEN + 5 * MINUTE + 3 * SECOND + SECOND
        assert {herd.beats(label)[0].due_at for label in LABELS} == {TEN + 5 * MINUTE}


async def test_without_automatic_spread_all_start_at_once(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts, jitter=Jitter())

        await herd.tick()

        assert starts == [TEN] * len(LABELS)


async def test_a_one_shot_hint_for_many_starts_at_its_moment(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)
        await herd.advance(10 * SECOND)
        wanted = TEN + MINUTE
        for label in LABELS:
            herd.hint(label, Hint(origin="human:you", at=wanted, expires_at=TEN + 2 * MINUTE, created_at=herd.now))

        await herd.advance(55 * SECOND)

        assert starts[len(LABELS) :] == [wanted] * len(LABELS)


async def test_switching_the_spread_on_loses_and_doubles_no_instant(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts, jitter=None)
        await herd.advance(12 * MINUTE)
        before = {label: herd.beats(label)[-1].due_at for label in LABELS}

        add_agents(herd, starts)
        await herd.advance(4 * MINUTE)

        for label in LABELS:
            due = sorted(beat.due_at for beat in herd.beats(label))
            assert len(due) == 4
            assert due[-1] - max(before[label], TEN + 10 * MINUTE) == 5 * MINUTE


async def test_a_pause_before_its_place_takes_the_place_back(tmp_path: Path, starts: list[datetime]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        add_agents(herd, starts)
        await herd.tick()
        last = LABELS[-1]

        herd.pause(last)
        await herd.advance(10 * SECOND)
        paused = herd.outcomes(last)
        herd.resume(last)
        await herd.advance(SECOND)

        assert paused == []
        assert herd.outcomes(last) == [("ran", "", 1)]
