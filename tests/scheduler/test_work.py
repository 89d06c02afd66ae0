"""Items of work between the ledger and their source: attempts, several runs a beat, interruptions, blocked items."""

import asyncio
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from tests.support.work_herd import TEN, FakeSource, WorkHerd, open_work_herd

from herdbeat.domain.agent_run import AgentReport, CountedUsage, FinishReason
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.policies import Budget, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.work_item import Report
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.work import MAX_CLAIM_TRIES
from herdbeat.store.reader import SqliteReader
from herdbeat.work.base import ClaimStatus, ReleaseStatus, WorkClaim, WorkClaimResult

MINUTE = timedelta(minutes=1)
FAILED = Outcome(status=RunStatus.FAILED, error="tests are red")
LOST = WorkClaimResult(status=ClaimStatus.LOST)
SKIPPED = ("skipped", "no_work")


def build_limit_report() -> AgentReport:
    return AgentReport(
        ok=False,
        reason=FinishReason.RATE_LIMITED,
        message="limit reached",
        answer="",
        quiet=False,
        empty_answer=False,
        needs_you=(),
        session_id="",
        model="",
        counted=CountedUsage(),
        is_subscription=False,
        turns=None,
        steps=(),
        steps_left_out=0,
        tool_called=False,
        limit=None,
    )


async def work_on(herd: WorkHerd, beats: int) -> None:
    """Let so many beats pass, however long backoff makes them wait."""
    for _ in range(beats):
        await herd.tick()
        next_run_at = herd.next_run()
        assert next_run_at is not None
        herd.clock.advance(next_run_at - herd.clock.now())


def build_report(*needs: str) -> AgentReport:
    done = replace(build_limit_report(), ok=True, reason=FinishReason.COMPLETED, message="", answer="Fixed.")
    return replace(done, needs_you=needs)


async def test_a_mark_of_an_item_is_cleared_by_a_success_on_that_item_only(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        reports = [build_report("Bash: git push"), build_report(), build_report()]
        herd.runner.outcomes = [Outcome(status=RunStatus.SUCCEEDED, agent=report) for report in reports]
        marked = []

        for item in ("1", "2", "1"):
            herd.source.offer(item)
            await work_on(herd, 1)
            with closing(SqliteReader(herd.store.path)) as reader:
                marked.append([mark.what for mark in reader.open_attention(10)])

        assert [claim.item for claim in herd.claims()] == ["1", "2", "1"]
        assert marked == [[("Bash: git push",)], [("Bash: git push",)], []]


async def test_the_report_says_what_a_person_has_to_decide(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        report = replace(
            build_limit_report(),
            ok=True,
            reason=FinishReason.COMPLETED,
            answer="Half done.",
            needs_you=("Bash: git push",),
        )
        herd.runner.outcomes = [Outcome(status=RunStatus.SUCCEEDED, agent=report)]

        await herd.tick()

        ((_, told),) = herd.source.reports
        assert told.summary == "Half done.\n\nNeeds you:\n- Bash: git push"


async def test_an_item_is_tried_three_times_and_then_left_to_a_person(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.runner.outcomes = [FAILED] * 5

        await work_on(herd, 5)

        assert [(report.attempt, report.offers_again) for _, report in herd.source.reports] == [
            (1, True),
            (2, True),
            (3, False),
        ]
        assert herd.outcomes() == [("ran", "")] * 3 + [SKIPPED] * 2


async def test_attempts_count_anew_once_a_person_offers_the_item_again(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.runner.outcomes = [FAILED] * 4
        await work_on(herd, 3)

        herd.source.offer("1")
        await work_on(herd, 1)

        assert [report.attempt for _, report in herd.source.reports] == [1, 2, 3, 1]


async def test_an_item_that_is_offered_by_nobody_new_has_no_further_attempt(tmp_path: Path) -> None:
    """A bot that adds the label again and again would otherwise keep an agent busy for ever."""
    async with open_work_herd(tmp_path) as herd:
        herd.source.offered_at = TEN
        herd.runner.outcomes = [FAILED] * 9
        for _ in range(5):
            herd.source.offer("1")
            herd.source.held.clear()
            await work_on(herd, 1)

        assert len(herd.runner.jobs) == 3
        assert [report.offers_again for _, report in herd.source.reports[2:]] == [False, False, False]


async def test_one_beat_runs_as_many_items_as_its_target_has_room_for(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, max_concurrent=3) as herd:
        herd.source.offer("1", "2", "3", "4", "5")
        await herd.start_and_hold(3)
        active = herd.snapshot()

        await herd.let_go()

        assert (active.running, active.next_run_at) == (3, None)
        assert {item for item, _ in herd.source.reports} == {"1", "2", "3"}
        assert herd.outcomes() == [("ran", "")]
        assert (herd.snapshot().running, herd.next_run()) == (0, TEN + 5 * MINUTE)
        await herd.advance(5 * MINUTE)
        assert {item for item, _ in herd.source.reports} == {"1", "2", "3", "4", "5"}


async def test_a_backlog_sets_the_pace_of_the_agent_that_works_through_it(tmp_path: Path) -> None:
    rule = {"name": "backlog", "when": "run.work_items_left > 1", "every": "1m", "for": "1h"}
    async with open_work_herd(tmp_path, adapt=(rule,)) as herd:
        herd.source.offer("1", "2", "3", "4")
        await herd.tick()
        busy = herd.next_run()
        for _ in range(3):
            await herd.advance(MINUTE)
        with closing(SqliteReader(herd.store.path)) as reader:
            left = [each.work_items_left for each in reader.past_runs(1, limit=10)]

        assert busy == TEN + MINUTE
        assert left == [0, 1, 2, 3]


async def test_a_beat_settles_with_the_last_of_its_runs(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        herd.source.offer("1", "2")
        await herd.start_and_hold(2)

        first, second = herd.loop.active_runs
        herd.loop.cancel(first, "cancelled by you")
        await asyncio.wait([herd.loop.active_runs[first].task])
        await herd.loop.completer.wait_drained()
        with_one_active = (herd.outcomes(), herd.snapshot().running, herd.next_run())
        await herd.let_go()

        assert with_one_active == ([("running", "")], 1, None)
        assert herd.statuses() == ["cancelled", "succeeded"]
        assert herd.outcomes() == [("ran", "")]
        assert herd.next_run() == TEN + 5 * MINUTE
        assert second not in herd.loop.active_runs


async def test_a_further_run_that_loses_its_item_takes_the_next_and_else_gives_its_slot_back(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, max_concurrent=3) as herd:
        herd.source.offer("1", "2", "3")
        herd.source.answers = {"2": LOST, "3": LOST}

        await herd.tick()

        assert [item for item, _ in herd.source.reports] == ["1"]
        assert sorted(herd.statuses()) == ["skipped", "skipped", "succeeded"]
        assert herd.outcomes() == [("ran", "")]
        assert herd.snapshot().running == 0


@pytest.mark.parametrize(("outcomes", "failures"), [([FAILED], 0), ([FAILED, FAILED], 1)])
async def test_a_beat_has_failed_if_none_of_its_runs_succeeded(
    tmp_path: Path, outcomes: list[Outcome], failures: int
) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        herd.source.offer("1", "2")
        herd.runner.outcomes = list(outcomes)

        await herd.tick()

        assert len(herd.runner.jobs) == 2
        assert herd.snapshot().failures == failures


async def test_a_budget_limits_the_further_runs_of_a_beat(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, max_concurrent=5, budget=Budget(runs_per_day=2)) as herd:
        herd.source.offer("1", "2", "3", "4")

        await herd.tick()

        assert len(herd.runner.jobs) == 2


async def test_retry_of_the_schedule_does_not_apply_to_an_item_which_has_attempts_of_its_own(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, retry=Retry(attempts=3, wait=timedelta(seconds=1))) as herd:
        herd.source.offer("1")
        herd.runner.outcomes = [FAILED]

        await herd.tick()

        assert herd.outcomes() == [("ran", "")]
        assert herd.states() == [("1", "reported", 1)]


async def test_a_run_that_reached_a_usage_limit_releases_its_item_and_uses_no_attempt(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.runner.outcomes = [Outcome(status=RunStatus.FAILED, error="limit reached", agent=build_limit_report())]

        await herd.tick()
        waiting = herd.outcomes()
        await herd.advance(15 * MINUTE)

        assert waiting == [("pending", "rate_limited")]
        assert [verb for verb, _ in herd.source.log] == ["list", "claim", "release", "list", "claim", "report"]
        assert [report.attempt for _, report in herd.source.reports] == [1]


async def test_a_blocked_item_is_shown_with_its_reason_and_the_next_one_is_taken(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1", "2")
        herd.source.answers["1"] = WorkClaimResult(status=ClaimStatus.BLOCKED, reason="mallory has no write access.")

        await herd.tick()

        assert herd.states() == [("1", "blocked", 1), ("2", "reported", 1)]
        assert herd.claims()[0].reason == "mallory has no write access."
        await herd.advance(5 * MINUTE)
        assert herd.states() == [("2", "reported", 1), ("1", "reported", 1)]


async def test_an_agent_that_cannot_start_took_and_gave_back_its_issue_with_every_beat(tmp_path: Path) -> None:
    """Each claim of an issue is a comment on it: without bubblewrap, there was a new one every 15 minutes."""
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.runner.obstacle = Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error="no bwrap")
        await work_on(herd, 2)
        assert herd.source.log == []
        assert herd.outcomes() == [("skipped", "config_error")] * 2

        herd.runner.obstacle = None
        await work_on(herd, 1)

        assert herd.states() == [("1", "reported", 1)]


async def test_a_list_that_begins_with_lost_items_hid_all_others(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        names = [f"lost-{number}" for number in range(MAX_CLAIM_TRIES)]
        herd.source.offer(*names, "free")
        herd.source.answers |= dict.fromkeys(names, LOST)

        await work_on(herd, 2)

        assert herd.outcomes()[:2] == [SKIPPED, ("ran", "")]
        assert ("free", "reported", 1) in herd.states()


async def test_what_a_source_does_not_mark_is_done_once(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, source=FakeSource(marks=False)) as herd:
        herd.source.offer("1", "2")
        herd.runner.outcomes = [FAILED]

        await work_on(herd, 5)

        assert [verb for verb, item in herd.source.log if item == "1"] == ["claim", "report", "claim", "report"]
        assert [verb for verb, item in herd.source.log if item == "2"] == ["claim", "report"]
        assert herd.outcomes() == [("ran", "")] * 3 + [SKIPPED] * 2


async def test_a_run_by_hand_takes_one_item(tmp_path: Path) -> None:

    async with open_work_herd(tmp_path, max_concurrent=3) as herd:
        await herd.tick()
        herd.source.offer("1", "2")
        number = herd.snapshot().id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.clock.now(), number, origin="human:you", event_id="e"))

        await herd.tick()

        assert [item for item, _ in herd.source.reports] == ["1"]


# A node dies: the next one opens the same ledger and the same source.


async def die_while_running(folder: Path, source: FakeSource) -> None:
    async with open_work_herd(folder, source=source) as herd:
        await herd.start_and_hold(1)


async def test_the_item_of_a_dead_run_is_released_and_done_by_the_next_node(tmp_path: Path) -> None:
    source = FakeSource()
    source.offer("1")
    await die_while_running(tmp_path, source)

    async with open_work_herd(tmp_path, source=source, now=TEN + MINUTE) as herd:
        await work_on(herd, 3)

        assert [verb for verb, _ in source.log] == ["list", "claim", "release", "list", "claim", "report", "list"]
        assert [report.attempt for _, report in source.reports] == [2]


async def test_an_item_that_ends_its_node_three_times_is_reported_as_failed(tmp_path: Path) -> None:
    source, now = FakeSource(), TEN
    source.offer("1")
    for _ in range(3):
        now += 10 * MINUTE
        async with open_work_herd(tmp_path, source=source, now=now) as herd:
            await herd.settler.settle_due()
            herd.clock.advance(5 * MINUTE)  # an interrupted beat counts from its rescue
            await herd.start_and_hold(1)

    async with open_work_herd(tmp_path, source=source, now=now + 10 * MINUTE) as herd:
        await work_on(herd, 1)

        assert [(report.attempt, report.error, report.offers_again) for _, report in source.reports] == [
            (3, "its node died", False)
        ]
        assert herd.runner.jobs == []


async def test_an_unconfirmed_claim_waits_until_the_source_can_tell_whose_it_is(tmp_path: Path) -> None:
    source = FakeSource(release_status=ReleaseStatus.TOO_EARLY)
    source.offer("1")
    async with open_work_herd(tmp_path, source=source) as herd:
        source.failures["claim"] = 1
        await herd.tick()
        waiting = herd.states()
        await herd.advance(5 * MINUTE)
        still_waiting = (herd.states(), herd.outcomes()[-1])

        source.release_status = ReleaseStatus.RELEASED
        await herd.advance(5 * MINUTE)
        await herd.advance(5 * MINUTE)

        assert waiting == [("1", "claiming", 1)]
        assert still_waiting == ([("1", "claiming", 1)], SKIPPED)
        assert [item for item, _ in source.reports] == ["1"]


async def test_a_claim_that_was_never_ours_is_forgotten(tmp_path: Path) -> None:
    source = FakeSource(release_status=ReleaseStatus.NOT_OURS)
    source.offer("1")
    async with open_work_herd(tmp_path, source=source) as herd:
        source.failures["claim"] = 1
        await herd.tick()

        assert herd.states() == []


async def test_a_report_is_delivered_by_the_next_node(tmp_path: Path) -> None:
    source = FakeSource()
    source.offer("1")
    async with open_work_herd(tmp_path, source=source) as herd:
        await herd.tick(settles=False)

    async with open_work_herd(tmp_path, source=source, now=TEN + MINUTE) as herd:
        await herd.settler.settle_due()

        assert [(item, report.succeeded) for item, report in source.reports] == [("1", True)]
        assert herd.states() == [("1", "reported", 1)]


async def test_a_defect_in_a_source_neither_ends_the_node_nor_delays_other_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        herd.source.offer("1", "2")
        await herd.tick(settles=False)
        deliver = FakeSource.report

        async def report(source: FakeSource, claim: WorkClaim, report: Report) -> None:
            if claim.item.id == "1":
                raise KeyError("a defect")
            await deliver(source, claim, report)

        monkeypatch.setattr(FakeSource, "report", report)
        await herd.settler.settle_due()

        assert herd.states() == [("1", "ran", 1), ("2", "reported", 1)]
        assert herd.claims()[0].reason == "KeyError: 'a defect'"


class Turnstile(asyncio.Event):
    """Lets the runs that wait at it go one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: list[asyncio.Event] = []

    async def wait(self) -> Literal[True]:
        self.gates.append(asyncio.Event())
        return await self.gates[-1].wait()


async def end_one_by_one(herd: WorkHerd, *, reverses: bool = False) -> None:
    """Start two runs, and let each end in a transaction of its own."""
    herd.runner.holds = turnstile = Turnstile()
    await herd.loop.run_cycle(herd.tasks)
    await herd.runner.until_started(2)
    for gate in list(turnstile.gates)[:: -1 if reverses else 1]:
        active = [each.task for each in herd.loop.active_runs.values()]
        gate.set()
        await asyncio.wait(active, return_when=asyncio.FIRST_COMPLETED)
        await herd.loop.completer.wait_drained()
    herd.runner.holds = None


@pytest.mark.parametrize("last", [RunStatus.CANCELLED, RunStatus.INTERRUPTED, RunStatus.FAILED])
async def test_a_usage_limit_counted_as_a_failure_if_another_run_of_the_beat_ended_last(
    tmp_path: Path, last: RunStatus
) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        limited = Outcome(status=RunStatus.FAILED, error="limit reached", agent=build_limit_report())
        herd.source.offer("1", "2")
        herd.runner.outcomes = [limited, Outcome(status=last)]

        await end_one_by_one(herd)

        assert herd.snapshot().failures == int(last is RunStatus.FAILED)


@pytest.mark.parametrize("last", [RunStatus.CANCELLED, RunStatus.INTERRUPTED, RunStatus.SKIPPED])
@pytest.mark.parametrize("order", [0, 1], ids=["refused-first", "refused-last"])
async def test_a_beat_that_hit_the_limit_did_not_wait_for_it_if_a_run_that_did_nothing_ended_last(
    tmp_path: Path, last: RunStatus, order: int
) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        limited = Outcome(status=RunStatus.FAILED, error="limit reached", agent=build_limit_report())
        herd.source.offer("1", "2")
        herd.runner.outcomes = [limited, Outcome(status=last)]

        await end_one_by_one(herd, reverses=bool(order))

        assert herd.outcomes() == [("pending", "rate_limited")]
        await herd.settler.settle_due()
        herd.clock.advance(timedelta(hours=1))
        await herd.tick()
        assert herd.outcomes()[0] == ("ran", "")
        assert "1" in [item for item, report in herd.source.reports if report.succeeded]


async def test_a_beat_whose_runs_were_all_refused_one_by_one_waits_for_the_account(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, max_concurrent=2) as herd:
        limited = Outcome(status=RunStatus.FAILED, error="limit reached", agent=build_limit_report())
        herd.source.offer("1", "2")
        herd.runner.outcomes = [limited, limited]

        await end_one_by_one(herd)

        assert herd.outcomes() == [("pending", "rate_limited")]
        assert herd.snapshot().failures == 0
