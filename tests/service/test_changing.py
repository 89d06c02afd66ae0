"""The one way to change: what becomes of each schedule, who may, and the row that is left of it."""

import json
import math
from datetime import datetime
from pathlib import Path

import pytest
from tests.service.changer import AGENT, HOUR, MINUTE, RULE, TEN, YOU, changes, do, do_one, limits

from herdbeat.domain.change import What
from herdbeat.domain.decision import Source
from herdbeat.errors import SchedulerError, UsageError
from herdbeat.scheduler.quarantine import put_away
from herdbeat.scheduler.verdict import changed
from herdbeat.service.acts import Act, Disabling, Enabling, Hinting, Pausing, Resetting, Resuming
from herdbeat.service.changing import change, changed_object
from herdbeat.testing.herd import Herd, ScriptedRunner, open_herd


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
        herd.schedule("queue", every="10m", limits=limits(15, None), max_concurrent=2)
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


def _put_in_quarantine(herd: Herd, label: str) -> None:
    """As the loop does with what it cannot decide."""
    standing = herd.standing(label)
    verdict = put_away(herd.now, standing, SchedulerError("it was told to"))
    herd.store.write_now(lambda tx: tx.change_schedules([changed(verdict, 0, None)]))


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
