"""How a hint stands or ended: set, shadowed, replaced, consumed, expired, cleared, too many."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.hint import Hint
from herdbeat.service.queries.hints import HintState, classify_hints
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def pace(origin: str, minutes: int, lasts: int = 60) -> Hint:
    return Hint(origin=origin, every=minutes * MINUTE, expires_at=TEN + lasts * MINUTE, created_at=TEN)


def moment(origin: str, minute: int, lasts: int = 60) -> Hint:
    return Hint(origin=origin, at=TEN + minute * MINUTE, expires_at=TEN + lasts * MINUTE, created_at=TEN)


def states(herd: SimulatedHerd) -> list[str]:
    """Oldest first."""
    reader = SqliteReader(herd.store.path)
    try:
        return [str(each.state) for each in classify_hints(reader.hints(None), herd.now)][::-1]
    finally:
        reader.close()


async def test_the_strongest_interval_hint_is_in_effect_and_a_newer_one_replaces_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="2h")
        herd.schedule("other", every="2h")
        await herd.tick()

        for hint in (pace("planner", 9), pace("human:you", 5), pace("human:ada", 6), moment("agent:x", 20)):
            herd.hint("queue", hint)
        herd.hint("other", pace("planner", 9))

        assert states(herd) == ["shadowed", "replaced", "active", "shadowed", "active"]


async def test_a_one_shot_is_consumed_an_interval_expires_and_a_person_clears(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="12h")
        await herd.tick()

        herd.hint("queue", moment("agent:x", 10))
        herd.hint("queue", moment("agent:x", 50))
        await herd.advance(15 * MINUTE)
        herd.clear_hints("queue")
        herd.hint("queue", pace("rule:surge", 120, lasts=30))
        seen = states(herd)
        await herd.advance(20 * MINUTE)

        assert seen == [HintState.CONSUMED, HintState.CLEARED, HintState.ACTIVE]
        assert states(herd) == [HintState.CONSUMED, HintState.CLEARED, HintState.EXPIRED]


async def test_more_moments_than_a_rank_may_have_are_surplus_and_ended_rows_are_bounded(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="12h")
        await herd.tick()
        for minute in range(22):
            herd.hint("queue", moment("agent:x", 22 - minute))
        crowded = states(herd)

        for number in range(300):
            herd.clock.advance(3 * MINUTE)
            wish = Hint(origin="planner", every=(number + 1) * MINUTE, expires_at=herd.now + 10 * MINUTE)
            herd.hint("queue", wish)

        assert crowded == ["surplus", "surplus", *["active"] * 20]
        assert len(states(herd)) <= 201 + 20
