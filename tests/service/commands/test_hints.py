"""Hints that are given and cleared: what is said of them, and how many are kept."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.schedule_changes import (
    AGENT,
    HOUR,
    MINUTE,
    RULE,
    TEN,
    YOU,
    apply_single_command,
    list_changes,
    make_limits,
)

from herdbeat.service.commands.base import (
    Actor,
    ClearHints,
    DisableSchedules,
    HintSchedules,
    PauseSchedules,
    ScheduleCommand,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.testing.herd import open_herd


async def test_a_hint_below_the_minimum_says_what_will_happen(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h", limits=make_limits(15, 900))
        await herd.tick()

        fast, slow, fine = (apply_single_command(herd, HintSchedules(every=each)) for each in (5, 3_600, 20))

        assert fast.notes == ("requested 5s, will run every 15s: min_interval 15s (clamped-min)",)
        assert slow.notes == ("requested 1h, will run every 15m: max_interval 15m (clamped-max)",)
        assert fine.notes == ("min_interval 15s: allowed",)
        assert fine.next_run_at == TEN + timedelta(seconds=20)
        assert fine.before["every"] == "1h"


async def test_a_hint_says_whom_it_silences_and_who_silences_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        apply_single_command(herd, HintSchedules(every=30), who=RULE)

        above, below = (
            apply_single_command(herd, HintSchedules(every=20)),
            apply_single_command(herd, HintSchedules(every=10), who=AGENT),
        )

        assert above.notes == ("rule:surge (every 30s) is shadowed until this hint expires",)
        assert below.notes == ("shadowed by human:you (every 20s), which ranks higher",)
        assert below.next_run_at == TEN + timedelta(seconds=20)


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (PauseSchedules(), "the schedule is paused; the hint takes effect when it is resumed"),
        (DisableSchedules(), "the schedule is disabled; the hint takes effect when it is enabled"),
    ],
)
async def test_a_hint_for_a_paused_or_disabled_schedule_says_so(
    tmp_path: Path, command: ScheduleCommand, note: str
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        apply_single_command(herd, command)

        assert apply_single_command(herd, HintSchedules(every=20)).notes == (note,)


async def test_ten_thousand_hints_are_rate_limited(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        number = herd.snapshot("queue").id

        wishes = [HintSchedules(schedules=(number,), every=10 + place) for place in range(10_000)]
        agent = Actor(name=AGENT)
        flood = herd.store.write_now(lambda tx: [execute(tx, herd.now, agent, wish).items[0] for wish in wishes])

        assert sum(each.changed for each in flood) == 30
        assert flood[-1].refused.endswith("30 hints for this schedule within a minute")  # no sentence, as all refusals
        assert len(herd.snapshot("queue").hints) == 1
        assert len(list_changes(herd, limit=1_000)) == 30


async def test_the_same_hint_again_only_moves_its_end_and_leaves_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        for _ in range(100):
            assert apply_single_command(herd, HintSchedules(every=30, lasts=600, reason="surge"), who=RULE).changed
            herd.clock.advance(timedelta(seconds=10))

        (hint,) = herd.snapshot("queue").hints

        assert hint.expires_at == herd.now - timedelta(seconds=10) + 10 * MINUTE
        assert len(list_changes(herd)) == 1


async def test_of_too_many_one_shots_the_earliest_are_kept(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="12h")
        await herd.tick()
        for minute in range(25, 0, -1):
            apply_single_command(herd, HintSchedules(at=TEN + minute * MINUTE), who=AGENT)

        late = apply_single_command(herd, HintSchedules(at=TEN + HOUR), who=AGENT)

        kept = sorted(hint.at for hint in herd.snapshot("queue").hints if hint.at)
        assert kept == [TEN + minute * MINUTE for minute in range(1, 21)]
        assert late.notes == ("not kept: the maximum number of earlier hints is reached",)


async def test_a_machine_clears_only_its_own_rank_and_below(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        for who in (YOU, AGENT, RULE, "planner"):
            apply_single_command(herd, HintSchedules(every=20), who=who)

        by_rule = apply_single_command(herd, ClearHints(), who=RULE)
        left = [hint.origin for hint in herd.snapshot("queue").hints]
        by_person, again = (
            apply_single_command(herd, ClearHints()),
            apply_single_command(herd, ClearHints()),
        )

        assert left == [YOU, AGENT]
        assert by_rule.notes[0] == "not removed: the hint by human:you, which ranks higher"
        assert by_person.changed
        assert herd.snapshot("queue").hints == ()
        assert (again.changed, again.notes) == (False, ("no hints to remove",))
