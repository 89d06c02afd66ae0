"""The one way to change: what becomes of each schedule, who may, and the row that is left of it."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.change import Change, What
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Limits
from herdbeat.errors import SchedulerError, UsageError
from herdbeat.scheduler.quarantine import put_away
from herdbeat.scheduler.verdict import changed
from herdbeat.service.acts import (
    Act,
    Clearing,
    Disabling,
    Enabling,
    Hinting,
    Pausing,
    Resetting,
    Resuming,
    act_from_json,
    act_to_json,
)
from herdbeat.service.changing import Changed, change, changed_object
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import Herd, ScriptedRunner, open_herd

YOU, AGENT, RULE = "human:you", "agent:triage", "rule:surge"
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def do(herd: Herd, act: Act, *labels: str) -> list[Changed]:
    ids = [herd.standing(label).id for label in labels]
    return herd.store.write_now(lambda tx: change(tx, herd.now, act, ids))


def do_one(herd: Herd, act: Act, label: str = "queue") -> Changed:
    (done,) = do(herd, act, label)
    return done


@contextmanager
def reading(herd: Herd) -> Iterator[SqliteReader]:
    reader = SqliteReader(herd.store.path)
    try:
        yield reader
    finally:
        reader.close()


def changes(herd: Herd, **wanted: object) -> list[Change]:
    with reading(herd) as reader:
        found = reader.changes(Filter(**wanted))  # type: ignore[arg-type]
    return [each for each in found if each.what is not What.ADD]


async def test_a_pause_says_what_it_was_and_what_it_is(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()

        done = do_one(herd, Pausing(who=YOU, until=TEN + HOUR, reason="db"))

        assert (done.schedule, done.is_changed, done.before) == ("queue", True, {"paused": False})
        assert done.after == {"paused": True, "until": "2026-03-02T11:00:00Z", "by": YOU, "reason": "db"}
        assert (done.next_run_at, done.source) == (TEN + HOUR, Source.PAUSED)


async def test_toggles_may_be_repeated_and_say_that_nothing_changed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        acts: list[Act] = [
            Pausing(who=YOU, until=TEN + HOUR, reason="db"),
            Resuming(who=YOU),
            Disabling(who=YOU),
            Enabling(who=YOU),
        ]

        told = [[do_one(herd, act).is_changed for _ in range(3)] for act in acts]

        assert told == [[True, False, False]] * 4
        assert [each.what for each in changes(herd)] == [What.ENABLE, What.DISABLE, What.RESUME, What.PAUSE]


@pytest.mark.parametrize("who", [AGENT, RULE, "planner"])
async def test_a_machine_neither_lifts_nor_shortens_a_persons_pause(tmp_path: Path, who: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        do_one(herd, Pausing(who=YOU))

        lifted, shortened = do_one(herd, Resuming(who=who)), do_one(herd, Pausing(who=who, until=TEN + MINUTE))

        assert not lifted.is_changed
        assert not shortened.is_changed
        assert lifted.refused == "paused by human:you: a machine does not change what a person has paused"
        assert herd.next_run("queue") is None
        assert do_one(herd, Resuming(who="human:ada")).is_changed


async def test_a_person_lifts_a_machines_pause_and_a_machine_its_own(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        lifted = []
        for who in (YOU, AGENT, RULE):
            do_one(herd, Pausing(who=AGENT))
            lifted.append(do_one(herd, Resuming(who=who)).is_changed)

        assert lifted == [True, True, True]


async def test_what_a_person_has_switched_off_no_machine_switches_on(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        do_one(herd, Disabling(who=YOU))

        refused = do_one(herd, Enabling(who=AGENT))

        assert refused.refused == "disabled by human:you: what a person has switched off stays off"
        assert not herd.standing("queue").enabled


async def test_a_one_shot_that_has_fired_is_armed_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("launch", at="2026-03-02T10:05:00Z", runner=runner)
        await herd.advance(10 * MINUTE)
        assert len(runner.runs) == 1

        armed = do_one(herd, Enabling(who=YOU), "launch")
        again = do_one(herd, Enabling(who=YOU), "launch")
        await herd.tick()

        assert armed.notes == ("armed again, as number 2",)
        assert (again.is_changed, again.notes) == (False, ("already enabled",))
        assert [beat.dedup_id for beat in herd.beats("launch")] == ["delay:launch/default", "delay:launch/default#2"]
        assert len(runner.runs) == 2
        assert herd.next_run("launch") is None


async def test_enabling_a_one_shot_that_is_still_to_come_leaves_its_id(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("launch", at="2026-03-02T10:05:00Z")
        do_one(herd, Disabling(who=YOU), "launch")
        do_one(herd, Enabling(who=YOU), "launch")

        await herd.advance(10 * MINUTE)

        assert [beat.dedup_id for beat in herd.beats("launch")] == ["delay:launch/default"]


async def test_a_hint_below_the_minimum_says_what_will_happen(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h", limits=_limits(15, 900))
        await herd.tick()

        fast, slow, fine = (do_one(herd, Hinting(who=YOU, every=each)) for each in (5, 3_600, 20))

        assert fast.notes == ("asked for 5s, will run every 15s: min_interval 15s (clamped-min)",)
        assert slow.notes == ("asked for 1h, will run every 15m: max_interval 15m (clamped-max)",)
        assert fine.notes == ("min_interval 15s: allowed",)
        assert fine.next_run_at == TEN + timedelta(seconds=20)
        assert fine.before["every"] == "1h"


async def test_a_hint_says_whom_it_silences_and_who_silences_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        do_one(herd, Hinting(who=RULE, every=30))

        above, below = do_one(herd, Hinting(who=YOU, every=20)), do_one(herd, Hinting(who=AGENT, every=10))

        assert above.notes == ("rule:surge (every 30s) is shadowed until then",)
        assert below.notes == ("shadowed by human:you (every 20s), which ranks higher",)
        assert below.next_run_at == TEN + timedelta(seconds=20)


@pytest.mark.parametrize(
    ("act", "note"),
    [
        (Pausing(who=YOU), "it is paused: the hint counts once it goes on"),
        (Disabling(who=YOU), "it is disabled: the hint counts once it is enabled"),
    ],
)
async def test_a_hint_on_what_is_held_says_so(tmp_path: Path, act: Act, note: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        do_one(herd, act)

        assert do_one(herd, Hinting(who=YOU, every=20)).notes == (note,)


async def test_ten_thousand_hints_harm_nothing(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        number = herd.standing("queue").id

        wishes = [Hinting(who=AGENT, every=10 + place) for place in range(10_000)]
        flood = herd.store.write_now(lambda tx: [change(tx, herd.now, wish, [number])[0] for wish in wishes])

        assert sum(each.is_changed for each in flood) == 30
        assert "30 hints within a minute" in flood[-1].refused
        assert len(herd.standing("queue").hints) == 1
        assert len(changes(herd, limit=1_000)) == 30


async def test_the_same_wish_again_only_moves_its_end_and_a_machine_leaves_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        for _ in range(100):
            assert do_one(herd, Hinting(who=RULE, every=30, lasts=600, reason="surge")).is_changed
            herd.clock.advance(timedelta(seconds=10))

        (hint,) = herd.standing("queue").hints

        assert hint.expires_at == herd.now - timedelta(seconds=10) + 10 * MINUTE
        assert len(changes(herd)) == 1


async def test_of_too_many_one_shots_the_earliest_are_kept(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="12h")
        await herd.tick()
        for minute in range(25, 0, -1):
            do_one(herd, Hinting(who=AGENT, at=TEN + minute * MINUTE))

        late = do_one(herd, Hinting(who=AGENT, at=TEN + HOUR))

        kept = sorted(hint.at for hint in herd.standing("queue").hints if hint.at)
        assert kept == [TEN + minute * MINUTE for minute in range(1, 21)]
        assert late.notes == ("it is not kept: there are earlier ones enough",)


async def test_a_machine_clears_only_its_own_rank_and_below(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        for who in (YOU, AGENT, RULE, "planner"):
            do_one(herd, Hinting(who=who, every=20))

        by_rule = do_one(herd, Clearing(who=RULE))
        left = [hint.origin for hint in herd.standing("queue").hints]
        by_person, again = do_one(herd, Clearing(who=YOU)), do_one(herd, Clearing(who=YOU))

        assert left == [YOU, AGENT]
        assert by_rule.notes[0] == "kept: the hint by human:you, which ranks higher"
        assert by_person.is_changed
        assert herd.standing("queue").hints == ()
        assert (again.is_changed, again.notes) == (False, ("there is no hint",))


async def test_a_reset_forgets_the_failures_and_the_backoff(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="5m", runner=ScriptedRunner(fails=9))
        await herd.tick()
        assert herd.next_run("queue") == TEN + 10 * MINUTE

        done, again = do_one(herd, Resetting(who=YOU)), do_one(herd, Resetting(who=YOU))

        assert (done.before["failures"], done.after["failures"]) == (1, 0)
        assert done.next_run_at == TEN + 5 * MINUTE
        assert (again.is_changed, again.notes) == (False, ("nothing to reset: no failures, no quarantine",))


async def test_a_reset_leads_out_of_the_quarantine_and_accounts_for_the_time_in_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", cron="0 * * * *")
        await herd.tick()
        _put_in_quarantine(herd, "queue")
        herd.clock.advance(3 * HOUR + MINUTE)
        await herd.tick()
        assert herd.beats("queue") == []

        done = do_one(herd, Resetting(who=YOU))
        await herd.tick()

        assert done.before["quarantine"] == "it was told to"
        assert done.next_run_at == TEN + 4 * HOUR
        assert herd.fates("queue") == [("skipped", "config_error", 3)]


@pytest.mark.parametrize("act", [Pausing(who=YOU), Disabling(who=YOU), Hinting(who=YOU, every=20)])
async def test_what_is_in_quarantine_rests_whatever_else_it_is_told(tmp_path: Path, act: Act) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        _put_in_quarantine(herd, "queue")

        do_one(herd, act)
        do_one(herd, Resuming(who=YOU))
        do_one(herd, Enabling(who=YOU))
        await herd.advance(3 * HOUR)

        assert herd.standing("queue").quarantine == "it was told to"
        assert herd.next_run("queue") is None
        assert len(herd.beats("queue")) == 1


async def test_a_change_and_its_row_are_one_transaction(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        number = herd.standing("queue").id

        with pytest.raises(ZeroDivisionError):
            herd.store.write_now(lambda tx: (change(tx, herd.now, Pausing(who=YOU), [number]), 1 // 0))

        assert herd.standing("queue").pause is None
        assert changes(herd) == []


async def test_the_record_says_who_when_and_what_and_finds_it_by_name(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        herd.schedule("worker/report", cron="0 * * * *")
        herd.schedule("worker-two", every="1h")
        do(herd, Pausing(who=YOU, reason="incident-42"), "queue", "worker/report", "worker-two")
        herd.clock.advance(HOUR)
        do_one(herd, Resuming(who="human:ada"))

        newest, *older = changes(herd)

        assert (newest.who, newest.what, newest.subject, newest.at) == (
            "human:ada",
            What.RESUME,
            "queue/default",
            TEN + HOUR,
        )
        assert newest.before == {"paused": True, "until": None, "by": YOU, "reason": "incident-42"}
        assert [each.subject for each in older] == ["worker-two/default", "worker/report", "queue/default"]
        assert [each.subject for each in changes(herd, target="worker")] == ["worker/report"]
        assert len(changes(herd, target="queue", name="default")) == 2
        assert len(changes(herd, since=TEN + MINUTE)) == 1
        assert changes(herd, before=newest.id) == older


async def test_edits_of_the_files_are_in_the_record(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="5m")
        herd.schedule("old", every="1h")
        await herd.tick()
        herd.schedule("queue", every="10m", limits=_limits(15, None), max_concurrent=2)
        herd.remove("old")
        await herd.tick()

        found = changes(herd)

        told = [(each.who, each.what, each.subject, each.before, each.after) for each in found]
        was, will = {"when": "every 5m", "min_interval": None}, {"when": "every 10m", "min_interval": "15s"}
        assert ("up", What.EDIT, "queue/default", was, will) in told
        assert ("up", What.EDIT, "queue", None, {"changed": ["max_concurrent"]}) in told
        assert ("up", What.REMOVE, "old/default", None, None) in told


async def test_another_time_arms_a_one_shot_that_has_fired(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("launch", at="2026-03-02T10:05:00Z", runner=runner)
        await herd.advance(10 * MINUTE)
        herd.schedule("launch", at="2026-03-02T11:05:00Z", runner=runner)

        await herd.advance(2 * HOUR)

        assert [beat.dedup_id for beat in herd.beats("launch")] == ["delay:launch/default", "delay:launch/default#2"]
        assert len(runner.runs) == 2


async def test_a_schedule_that_was_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        herd.schedule("old", every="1h")
        gone = herd.standing("old").id
        herd.remove("old")
        await herd.tick()

        assert herd.store.write_now(lambda tx: change(tx, herd.now, Pausing(who=YOU), [gone, 99_999])) == []


@pytest.mark.parametrize("until", [TEN, TEN - HOUR, (TEN + HOUR).replace(tzinfo=None)])
async def test_a_pause_that_would_be_over_or_has_no_zone_is_refused(tmp_path: Path, until: datetime) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        with pytest.raises(UsageError):
            do_one(herd, Pausing(who=YOU, until=until))


def _limits(at_least: int | None, at_most: int | None) -> Limits:
    low, high = (None if each is None else timedelta(seconds=each) for each in (at_least, at_most))
    return Limits(at_least=low, at_most=high)


def _put_in_quarantine(herd: Herd, label: str) -> None:
    """As the loop does with what it cannot decide."""
    standing = herd.standing(label)
    verdict = put_away(herd.now, standing, SchedulerError("it was told to"))
    herd.store.write_now(lambda tx: tx.change_schedules([changed(verdict, 0, None)]))


ACTS: list[Act] = [
    Pausing(who=YOU, reason="x", until=TEN),
    Resuming(who=YOU),
    Disabling(who=YOU),
    Enabling(who=YOU),
    Hinting(who=RULE, every=0.5, lasts=60, reason="y"),
    Hinting(who=RULE, at=TEN),
    Clearing(who="planner"),
    Resetting(who=YOU),
]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: type(act).__name__)
def test_an_act_goes_through_the_socket_unchanged(act: Act) -> None:
    assert act_from_json(json.loads(json.dumps(act_to_json(act)))) == act


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"what": "dance", "who": YOU},
        {"what": "pause"},
        {"what": "pause", "who": ""},
        {"what": "pause", "who": YOU, "until": "soon"},
        {"what": "pause", "who": YOU, "until": 5},
        {"what": "pause", "who": YOU, "colour": "red"},
        {"what": "hint", "who": YOU, "every": "fast"},
        {"what": "hint", "who": YOU, "every": [1]},
        {"what": "hint", "who": YOU, "every": 10**400},
    ],
)
def test_what_is_no_act_is_refused_in_words(data: object) -> None:
    with pytest.raises(UsageError) as caught:
        act_from_json(data)

    assert caught.value.hint


async def test_a_number_that_is_none_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        with pytest.raises(UsageError, match="cannot be nan seconds"):
            do_one(herd, Hinting(who=AGENT, every=math.nan))

        assert herd.standing("queue").hints == ()


async def test_the_answer_is_plain_json(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()

        answer = changed_object(do_one(herd, Hinting(who=YOU, every=20, reason="deploy")))

        assert json.loads(json.dumps(answer)) == {
            "schedule": "queue",
            "changed": True,
            "before": {},
            "after": {
                "every": "20s",
                "at": None,
                "until": "2026-03-02T11:00:00Z",
                "by": YOU,
                "reason": "deploy",
            },
            "next_run_at": "2026-03-02T10:00:20Z",
            "source": "ai-interval",
            "running": 0,
            "notes": [],
            "refused": "",
            "hint": "",
        }


async def test_whatever_letters_a_reason_has_it_is_one_printable_line(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        done = do_one(herd, Pausing(who=YOU, reason="a\x00b\udc80c\n\x1b[31m" + "x" * 10_000))

        assert str(done.after["reason"]).startswith("a b c [31mxxx")
        assert len(str(done.after["reason"])) <= 200
        assert [each.what for each in changes(herd)] == [What.PAUSE]
