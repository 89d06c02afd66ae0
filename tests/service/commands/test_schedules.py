"""The one way to change: what becomes of each schedule, who may, and the row that is left of it."""

import json
import math
from datetime import datetime
from pathlib import Path

import pytest
from tests.support.schedule_changes import (
    ACTOR,
    AGENT,
    HOUR,
    MINUTE,
    RULE,
    TEN,
    YOU,
    apply_command,
    apply_single_command,
    list_changes,
    make_limits,
)

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.errors import UsageError
from herdbeat.scheduler.evaluate import change_from_evaluation
from herdbeat.scheduler.quarantine import quarantine_evaluation
from herdbeat.service.commands.base import (
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    result_to_json,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd


async def test_a_pause_reports_the_state_before_and_after(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()

        done = apply_single_command(herd, PauseSchedules(until=TEN + HOUR, reason="db"))

        assert (done.schedule, done.changed, done.before) == ("queue", True, {"paused": False})
        assert done.after == {"paused": True, "until": "2026-03-02T11:00:00Z", "by": YOU, "reason": "db"}
        assert (done.next_run_at, done.source) == (TEN + HOUR, Source.PAUSED)


async def test_toggles_may_be_repeated_and_say_that_nothing_changed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        acts: list[ScheduleCommand] = [
            PauseSchedules(until=TEN + HOUR, reason="db"),
            ResumeSchedules(),
            DisableSchedules(),
            EnableSchedules(),
        ]

        told = [[apply_single_command(herd, command).changed for _ in range(3)] for command in acts]

        assert told == [[True, False, False]] * 4
        assert [each.what for each in list_changes(herd)] == [
            ChangeKind.ENABLE,
            ChangeKind.DISABLE,
            ChangeKind.RESUME,
            ChangeKind.PAUSE,
        ]


@pytest.mark.parametrize("who", [AGENT, RULE, "planner"])
async def test_a_machine_neither_lifts_nor_shortens_a_persons_pause(tmp_path: Path, who: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        apply_single_command(herd, PauseSchedules())

        lifted, shortened = (
            apply_single_command(herd, ResumeSchedules(), who=who),
            apply_single_command(herd, PauseSchedules(until=TEN + MINUTE), who=who),
        )

        assert not lifted.changed
        assert not shortened.changed
        assert lifted.refused == "paused by human:you: only a person can change this pause"
        assert herd.next_run("queue") is None
        assert apply_single_command(herd, ResumeSchedules(), who="human:ada").changed


async def test_a_person_lifts_a_machines_pause_and_a_machine_its_own(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        lifted = []
        for who in (YOU, AGENT, RULE):
            apply_single_command(herd, PauseSchedules(), who=AGENT)
            lifted.append(apply_single_command(herd, ResumeSchedules(), who=who).changed)

        assert lifted == [True, True, True]


async def test_what_a_person_has_switched_off_no_machine_switches_on(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        apply_single_command(herd, DisableSchedules())

        refused = apply_single_command(herd, EnableSchedules(), who=AGENT)

        assert refused.refused == "disabled by human:you: only a person can enable it"
        assert not herd.snapshot("queue").enabled


async def test_a_one_shot_that_has_fired_is_armed_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("launch", at="2026-03-02T10:05:00Z", runner=runner)
        await herd.advance(10 * MINUTE)
        assert len(runner.runs) == 1

        armed = apply_single_command(herd, EnableSchedules(), "launch")
        again = apply_single_command(herd, EnableSchedules(), "launch")
        await herd.tick()

        assert armed.notes == ("re-armed",)
        assert (again.changed, again.notes) == (False, ("already enabled",))
        assert [beat.dedup_id for beat in herd.beats("launch")] == ["delay:launch/default", "delay:launch/default#2"]
        assert len(runner.runs) == 2
        assert herd.next_run("launch") is None


async def test_enabling_a_one_shot_that_is_still_to_come_leaves_its_id(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("launch", at="2026-03-02T10:05:00Z")
        apply_single_command(herd, DisableSchedules(), "launch")
        apply_single_command(herd, EnableSchedules(), "launch")

        await herd.advance(10 * MINUTE)

        assert [beat.dedup_id for beat in herd.beats("launch")] == ["delay:launch/default"]


async def test_a_reset_forgets_the_failures_and_the_backoff(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="5m", runner=ScriptedRunner(fails=9))
        await herd.tick()
        assert herd.next_run("queue") == TEN + 10 * MINUTE

        done, again = (
            apply_single_command(herd, ResetSchedules()),
            apply_single_command(herd, ResetSchedules()),
        )

        assert (done.before["failures"], done.after["failures"]) == (1, 0)
        assert done.next_run_at == TEN + 5 * MINUTE
        assert (again.changed, again.notes) == (False, ("nothing to reset: no failures, no quarantine",))


async def test_a_reset_leads_out_of_the_quarantine_and_accounts_for_the_time_in_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", cron="0 * * * *")
        await herd.tick()
        _put_in_quarantine(herd, "queue")
        herd.clock.advance(3 * HOUR + MINUTE)
        await herd.tick()
        assert herd.beats("queue") == []

        done = apply_single_command(herd, ResetSchedules())
        await herd.tick()

        assert done.before["quarantine"] == "it was told to"
        assert done.next_run_at == TEN + 4 * HOUR
        assert herd.outcomes("queue") == [("skipped", "config_error", 3)]


@pytest.mark.parametrize("command", [PauseSchedules(), DisableSchedules(), HintSchedules(every=20)])
async def test_a_quarantined_schedule_does_not_run_whatever_is_requested(
    tmp_path: Path, command: ScheduleCommand
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        _put_in_quarantine(herd, "queue")

        apply_single_command(herd, command)
        apply_single_command(herd, ResumeSchedules())
        apply_single_command(herd, EnableSchedules())
        await herd.advance(3 * HOUR)

        assert herd.snapshot("queue").quarantine == "it was told to"
        assert herd.next_run("queue") is None
        assert len(herd.beats("queue")) == 1


async def test_a_change_and_its_row_are_one_transaction(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        number = herd.snapshot("queue").id

        with pytest.raises(ZeroDivisionError):
            herd.store.write_now(lambda tx: (execute(tx, herd.now, ACTOR, PauseSchedules(schedules=(number,))), 1 // 0))

        assert herd.snapshot("queue").pause is None
        assert list_changes(herd) == []


async def test_the_change_log_has_author_time_and_change_and_is_filtered_by_name(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        herd.schedule("worker/report", cron="0 * * * *")
        herd.schedule("worker-two", every="1h")
        apply_command(herd, PauseSchedules(reason="incident-42"), "queue", "worker/report", "worker-two")
        herd.clock.advance(HOUR)
        apply_single_command(herd, ResumeSchedules(), who="human:ada")

        newest, *older = list_changes(herd)

        assert (newest.who, newest.what, newest.subject, newest.at) == (
            "human:ada",
            ChangeKind.RESUME,
            "queue/default",
            TEN + HOUR,
        )
        assert newest.before == {"paused": True, "until": None, "by": YOU, "reason": "incident-42"}
        assert [each.subject for each in older] == ["worker-two/default", "worker/report", "queue/default"]
        assert [each.subject for each in list_changes(herd, target="worker")] == ["worker/report"]
        assert len(list_changes(herd, target="queue", name="default")) == 2
        assert len(list_changes(herd, since=TEN + MINUTE)) == 1
        assert list_changes(herd, before=newest.id) == older


async def test_edits_of_the_files_are_in_the_change_log(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="5m")
        herd.schedule("old", every="1h")
        await herd.tick()
        herd.schedule("queue", every="10m", limits=make_limits(15, None), max_concurrent=2)
        herd.remove("old")
        await herd.tick()

        found = list_changes(herd)

        told = [(each.who, each.what, each.subject, each.before, each.after) for each in found]
        was, will = {"when": "every 5m", "min_interval": None}, {"when": "every 10m", "min_interval": "15s"}
        assert ("up", ChangeKind.EDIT, "queue/default", was, will) in told
        assert ("up", ChangeKind.EDIT, "queue", None, {"changed": ["max_concurrent"]}) in told
        assert ("up", ChangeKind.REMOVE, "old/default", None, None) in told


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
        gone = herd.snapshot("old").id
        herd.remove("old")
        await herd.tick()

        command = PauseSchedules(schedules=(gone, 99_999))
        assert herd.store.write_now(lambda tx: execute(tx, herd.now, ACTOR, command)).items == ()


@pytest.mark.parametrize("until", [TEN, TEN - HOUR, (TEN + HOUR).replace(tzinfo=None)])
async def test_a_pause_that_would_be_over_or_has_no_zone_is_refused(tmp_path: Path, until: datetime) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        with pytest.raises(UsageError):
            apply_single_command(herd, PauseSchedules(until=until))


def _put_in_quarantine(herd: SimulatedHerd, label: str) -> None:
    """As the loop does with what it cannot decide."""
    standing = herd.snapshot(label)
    verdict = quarantine_evaluation(herd.now, standing, "it was told to")
    herd.store.write_now(lambda tx: tx.change_schedules([change_from_evaluation(verdict)]))


async def test_an_invalid_number_is_rejected_before_anything_is_written(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")

        with pytest.raises(UsageError, match="cannot be nan seconds"):
            apply_single_command(herd, HintSchedules(every=math.nan), who=AGENT)

        assert herd.snapshot("queue").hints == ()


async def test_the_result_of_a_command_is_plain_json(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()

        answer = result_to_json(apply_single_command(herd, HintSchedules(every=20, reason="deploy")))

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
                "changed_at": "2026-03-02T10:00:00Z",
                "effective": "20s",
                "clamped_to": None,
                "shadowed_by": None,
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

        done = apply_single_command(herd, PauseSchedules(reason="a\x00b\udc80c\n\x1b[31m" + "x" * 10_000))

        assert str(done.after["reason"]).startswith("a b c [31mxxx")
        assert len(str(done.after["reason"])) <= 200
        assert [each.what for each in list_changes(herd)] == [ChangeKind.PAUSE]
