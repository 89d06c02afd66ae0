"""Usage limits: an account is held until its reset, and everything that uses it waits."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_reports import reach_limit, succeed

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.agent_run import LimitReached
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.policies import Backoff, Overlap, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.events import AccountHeld, AccountReleased, Event
from herdbeat.scheduler.agent_runs import decide_hold
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Manual

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LIMITED = ("pending", "rate_limited", 1)


def agent(account: str = "team", model: str | None = None) -> AgentSpec:
    return AgentSpec(runtime="claude", working_directory=".", account=account, model=model)


def open_holds(herd: SimulatedHerd) -> list[AccountHold]:
    return herd.store.write_now(lambda tx: tx.hold_list_open())


async def test_a_limit_is_no_failure_of_the_schedule(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
        herd.schedule(
            "scout", every="5m", runner=runner, agent=agent(), pause_after_failures=1, retry=Retry(attempts=5)
        )

        await herd.advance(59 * MINUTE)

        snapshot = herd.snapshot("scout")
        assert (snapshot.failures, snapshot.pause, snapshot.waiting, snapshot.running) == (0, None, 1, 0)
        assert herd.outcomes("scout") == [LIMITED]
        assert len(runner.runs) == 1


async def test_the_beat_that_hit_the_limit_runs_when_the_account_opens(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
        herd.schedule("scout", every="5m", runner=runner, agent=agent())

        await herd.advance(HOUR)

        assert [run.attempt for run in runner.runs] == [1, 2]
        assert herd.outcomes("scout") == [("ran", "", 1)]
        assert herd.next_run("scout") == MONDAY + HOUR + 5 * MINUTE
        assert open_holds(herd) == []


async def test_every_target_of_the_account_waits_and_no_other(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runners = {name: ScriptedRunner() for name in ("first", "second", "other")}
        runners["first"].outcomes.append(reach_limit(MONDAY + HOUR))
        for name, runner in runners.items():
            account = "mine" if name == "other" else "team"
            herd.schedule(name, cron=f"{list(runners).index(name) + 1} 3 * * *", runner=runner, agent=agent(account))

        await herd.advance(30 * MINUTE)

        assert herd.outcomes("first") == [LIMITED]
        assert herd.outcomes("second") == [LIMITED]
        assert herd.outcomes("other") == [("ran", "", 1)]
        assert [len(runner.runs) for runner in runners.values()] == [1, 0, 1]
        await herd.advance(HOUR)
        assert [len(runner.runs) for runner in runners.values()] == [2, 1, 1]


async def test_instants_that_come_while_one_waits_join_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        for overlap in (Overlap.SKIP, Overlap.ALLOW):
            runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
            herd.schedule(f"{overlap}", cron="*/5 * * * *", runner=runner, agent=agent(), overlap=overlap)

        await herd.advance(59 * MINUTE)

        for overlap in (Overlap.SKIP, Overlap.ALLOW):
            assert herd.outcomes(f"{overlap}") == [LIMITED, ("merged", "rate_limited", 10)], overlap


async def test_a_waiting_beat_is_missed_after_its_max_late(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        first = ScriptedRunner(outcomes=[reach_limit(MONDAY + 5 * HOUR)])
        herd.schedule("first", cron="1 3 * * *", runner=first, agent=agent())
        herd.schedule("late", cron="2 3 * * *", agent=agent(), max_late=10 * MINUTE)

        await herd.advance(20 * MINUTE)

        assert herd.outcomes("late") == [("missed", "too_late", 1)]


async def test_what_waited_starts_paced_when_the_account_opens(tmp_path: Path) -> None:
    async with open_herd(tmp_path, catchup_rate=0.5) as herd:
        runners = [ScriptedRunner() for _ in range(4)]
        runners[0].outcomes.append(reach_limit(MONDAY + HOUR))
        for number, runner in enumerate(runners):
            herd.schedule(f"agent{number}", cron=f"{number + 1} 3 * * *", runner=runner, agent=agent())
        await herd.advance(HOUR - timedelta(seconds=1))

        starts = []
        for _ in range(8):
            await herd.advance(timedelta(seconds=1))
            starts.append(sum(len(runner.runs) for runner in runners) - 1)

        assert starts == [1, 1, 2, 2, 3, 3, 4, 4]
        assert [herd.outcomes(f"agent{number}") for number in range(4)] == [[("ran", "", 1)]] * 4


async def test_a_beat_is_sent_back_three_times_and_then_has_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit() for _ in range(4)])
        herd.schedule("scout", every="1d", runner=runner, agent=agent(), backoff=Backoff(factor=9))

        await herd.advance(10 * HOUR)

        assert [run.attempt for run in runner.runs] == [1, 2, 3, 4]
        assert herd.outcomes("scout") == [("ran", "", 1)]
        assert herd.snapshot("scout").failures == 0


async def test_without_a_stated_reset_each_hold_is_twice_as_long_until_a_success(tmp_path: Path) -> None:
    held: list[Event] = []
    async with open_herd(tmp_path, listener=held.append) as herd:
        refusals = [reach_limit(), reach_limit(), succeed(account="team"), reach_limit()]
        herd.schedule("scout", every="1h", runner=ScriptedRunner(outcomes=refusals), agent=agent())

        await herd.advance(3 * HOUR)

        waits = [event.until - event.at for event in held if isinstance(event, AccountHeld)]
        assert waits == [15 * MINUTE, 30 * MINUTE, 15 * MINUTE]
        assert sum(isinstance(event, AccountReleased) for event in held) == 3


async def test_a_run_that_called_a_tool_is_not_repeated(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR, tool_called=True)])
        herd.schedule("scout", every="5m", runner=runner, agent=agent())

        await herd.advance(59 * MINUTE)

        assert herd.outcomes("scout") == [("ran", "", 1), LIMITED]
        assert herd.snapshot("scout").failures == 0


async def test_a_limit_of_one_model_holds_only_that_model(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR, model="opus")])
        herd.schedule("opus", cron="1 3 * * *", runner=runner, agent=agent(model="claude-opus-4-8"))
        herd.schedule("sonnet", cron="2 3 * * *", agent=agent(model="claude-sonnet-5"))
        herd.schedule("unnamed", cron="2 3 * * *", agent=agent())

        await herd.advance(30 * MINUTE)

        assert herd.outcomes("opus") == herd.outcomes("unnamed") == [LIMITED]
        assert herd.outcomes("sonnet") == [("ran", "", 1)]


async def test_a_retry_waits_for_the_reset_and_keeps_its_attempts(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        broken = Outcome(status=RunStatus.FAILED, error="broken")
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR), broken])
        herd.schedule("scout", every="1d", runner=runner, agent=agent(), retry=Retry(attempts=2, wait=MINUTE))

        await herd.advance(HOUR + 2 * MINUTE)

        assert [run.attempt for run in runner.runs] == [1, 2, 3]
        assert herd.snapshot("scout").failures == 0


async def test_a_run_by_hand_is_refused_unless_it_may_wait(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
        herd.schedule("scout", every="5m", runner=runner, agent=agent())
        await herd.tick()
        schedule_id = herd.snapshot("scout").id

        def run_now(event_id: str, *, queue: bool) -> tuple[SkipReason | None, SkipReason | None]:
            result = herd.store.write_now(
                lambda tx: enqueue_manual(tx, herd.now, schedule_id, origin="human:you", event_id=event_id, queue=queue)
            )
            return result.skip_reason, result.waits_for

        assert run_now("a", queue=False) == (SkipReason.RATE_LIMITED, None)
        assert run_now("b", queue=True) == (None, SkipReason.RATE_LIMITED)
        await herd.advance(59 * MINUTE)
        assert len(runner.runs) == 1
        await herd.advance(2 * MINUTE)
        assert len(runner.runs) == 3


async def test_a_person_releases_an_account_and_what_waits_starts(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
        herd.schedule("scout", every="5m", runner=runner, agent=agent())
        await herd.advance(MINUTE)

        released = herd.store.write_now(lambda tx: tx.hold_release("team", by="human:you", now=herd.now))
        await herd.tick()

        assert released == 1
        assert len(runner.runs) == 2
        assert herd.outcomes("scout") == [("ran", "", 1)]


async def test_a_held_account_is_held_after_a_restart(tmp_path: Path) -> None:
    runner = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)])
    async with open_herd(tmp_path) as herd:
        herd.schedule("scout", every="5m", runner=runner, agent=agent())
        await herd.tick()

    async with open_herd(tmp_path, MONDAY + 10 * MINUTE) as herd:
        herd.schedule("scout", every="5m", runner=runner, agent=agent())
        await herd.advance(49 * MINUTE)

        assert len(runner.runs) == 1
        await herd.advance(2 * MINUTE)
        assert len(runner.runs) == 2
        assert herd.outcomes("scout") == [("ran", "", 1)]


async def test_an_account_without_a_name_is_that_of_the_last_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        nameless = AgentSpec(runtime="claude", working_directory=".")
        first = ScriptedRunner(outcomes=[succeed(account="claude-1a2b"), reach_limit(account="claude-1a2b")])
        second = ScriptedRunner(outcomes=[succeed(account="claude-1a2b")])
        herd.schedule("first", cron="*/10 * * * *", runner=first, agent=nameless)
        herd.schedule("second", cron="5-59/10 * * * *", runner=second, agent=nameless)
        herd.schedule("third", cron="21 3 * * *", agent=nameless)

        await herd.advance(26 * MINUTE)

        assert herd.outcomes("second")[-1] == LIMITED
        assert herd.outcomes("third") == [("ran", "", 1)]  # it has never run: nobody knows its account


def refuse(
    last: AccountHold | None, *, started: timedelta = timedelta(), reset: timedelta | None = None
) -> AccountHold:
    """The hold after a run that started `started` after NOON was refused an hour after it."""
    limit = LimitReached(reset_at=None if reset is None else NOON + HOUR + reset)
    return decide_hold(NOON + HOUR, "team", limit, last, 9, NOON + started)


NOON = datetime.fromisoformat("2026-03-02T12:00:00+00:00")
OPEN = AccountHold(id=1, account="team", began_at=NOON, until=NOON + 2 * HOUR, streak=1, run_id=3)
ENDED = AccountHold(id=1, account="team", began_at=NOON + MINUTE, until=NOON + 30 * MINUTE, streak=2, run_id=3)


def test_a_refusal_during_a_hold_only_moves_its_end_to_a_later_stated_one() -> None:
    assert refuse(OPEN) == OPEN
    assert refuse(OPEN, reset=10 * MINUTE) == OPEN
    assert refuse(OPEN, reset=5 * HOUR).until == NOON + 6 * HOUR
    assert refuse(OPEN, reset=5 * HOUR).id == OPEN.id
    assert refuse(OPEN, reset=5 * HOUR).streak == OPEN.streak


def test_a_run_from_before_a_hold_tells_nothing_new_after_it_unless_it_states_a_reset() -> None:
    assert refuse(ENDED) == ENDED
    assert refuse(ENDED, reset=HOUR).id == 0
    assert refuse(ENDED, reset=HOUR).streak == ENDED.streak


def test_a_run_that_started_after_a_hold_begins_the_next_one_twice_as_long() -> None:
    after = refuse(ENDED, started=2 * MINUTE)

    assert (after.id, after.streak, after.until - after.began_at) == (0, 3, HOUR)


@pytest.mark.parametrize("account", ["", "team"])
async def test_a_refusal_without_a_limit_or_an_account_holds_the_account_of_its_runtime(
    tmp_path: Path, account: str
) -> None:
    async with open_herd(tmp_path) as herd:
        refusal = reach_limit(account=account, limit=None, runtime="claude")
        herd.schedule(
            "scout",
            every="5m",
            runner=ScriptedRunner(outcomes=[refusal]),
            agent=AgentSpec(runtime="claude", working_directory="."),
        )

        await herd.tick()

        (hold,) = open_holds(herd)
        assert hold.account == (account or "claude")


@pytest.mark.parametrize(
    ("action", "waits"),
    [
        ({"pause": "30m"}, False),
        ({"every": "10s"}, True),
        ({"every": "2x"}, True),
        ({"run_in": "1m"}, True),
        ({"clear": True}, True),
        ({"trigger": "other"}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("timing", [{"every": "5m"}, {"cron": "*/5 * * * *"}], ids=str)
async def test_a_rule_that_acts_on_a_refused_run_neither_loses_its_beat_nor_passes_the_hold(
    tmp_path: Path, timing: dict[str, Any], action: dict[str, object], *, waits: bool
) -> None:
    async with open_herd(tmp_path) as herd:
        runner, other = ScriptedRunner(outcomes=[reach_limit(MONDAY + HOUR)]), ScriptedRunner()
        rule = {"name": "bad", "when": "!run.ok", **action}
        herd.schedule("scout", runner=runner, agent=agent(), adapt=(rule,), **timing)
        herd.schedule("other", trigger=Manual(), runner=other, agent=agent())

        await herd.advance(20 * MINUTE)

        assert herd.outcomes("scout")[0] == (LIMITED if waits else ("ran", "", 1))
        assert (len(runner.runs), len(other.runs)) == (1, 0)
        await herd.advance(2 * HOUR)
        snapshot = herd.snapshot("scout")
        assert (snapshot.waiting, snapshot.running) == (0, 0)
        assert snapshot.next_run_at is not None
        assert herd.outcomes("scout")[0] == ("ran", "", 1)
        assert len(other.runs) == (1 if "trigger" in action else 0)
