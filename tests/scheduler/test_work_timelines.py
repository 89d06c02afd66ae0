"""A schedule with a work source, as the documented pages tell it: query, claim, prompt, run, report."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.work_herd import TEN, FakeSource, open_work_herd

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.work.base import ClaimStatus, WorkClaimResult

MINUTE = timedelta(minutes=1)
FAILED = Outcome(status=RunStatus.FAILED, error="tests are red")

COMBINED_PROMPT = """\
Process the next ready issue.

---

## Work Item

**Title:** Fix authentication timeout
**ID:** 42
**URL:** https://github.com/org/repo/issues/42

### Description

<data from="work.body">
Users are experiencing authentication timeouts after 30 minutes...
</data>

### Metadata

- **Labels:** bug, authentication
- **Priority:** high"""


async def test_the_prompt_is_combined_with_the_details_of_the_work_item(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer(
            "42",
            title="Fix authentication timeout",
            body="Users are experiencing authentication timeouts after 30 minutes...",
            url="https://github.com/org/repo/issues/42",
            labels=("bug", "authentication"),
            priority="high",
        )

        await herd.tick()

        assert [job.prompt for job in herd.runner.jobs] == [COMBINED_PROMPT]
        assert herd.source.log == [("list", ""), ("claim", "42"), ("report", "42")]
        assert [(item, report.succeeded, report.summary) for item, report in herd.source.reports] == [
            ("42", True, "done")
        ]
        assert herd.outcomes() == [("ran", "")]
        assert herd.states() == [("42", "reported", 1)]


async def test_a_prompt_that_names_the_issue_gets_no_block(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, prompt="Process issue {{issue.number}}: {{issue.title}}") as herd:
        herd.source.offer("42", title="Fix it")

        await herd.tick()

        assert [job.prompt for job in herd.runner.jobs] == ["Process issue 42: Fix it"]


async def test_without_work_nothing_runs_and_the_next_trigger_is_calculated_normally(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        await herd.tick()

        assert herd.runner.jobs == []
        assert herd.outcomes() == [("skipped", "no_work")]
        assert herd.statuses() == ["skipped"]
        assert herd.next_run() == TEN + 5 * MINUTE


async def test_after_a_lost_claim_the_next_item_is_taken(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1", "2")
        herd.source.answers["1"] = WorkClaimResult(status=ClaimStatus.LOST)

        await herd.tick()

        assert herd.source.log == [("list", ""), ("claim", "1"), ("claim", "2"), ("report", "2")]
        assert herd.outcomes() == [("ran", "")]


async def test_a_beat_whose_claims_are_all_lost_has_no_work(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1", "2")
        herd.source.answers = {name: WorkClaimResult(status=ClaimStatus.LOST) for name in ("1", "2")}

        await herd.tick()

        assert herd.runner.jobs == []
        assert herd.outcomes() == [("skipped", "no_work")]
        assert herd.next_run() == TEN + 5 * MINUTE


@pytest.mark.parametrize("verb", ["list", "claim"])
async def test_a_failing_source_is_tried_again_at_the_next_interval(tmp_path: Path, verb: str) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.source.failures[verb] = 1

        await herd.tick()
        first = (herd.outcomes(), herd.next_run(), len(herd.runner.jobs))
        await herd.advance(5 * MINUTE)

        assert first == ([("skipped", "work_source_error")], TEN + 5 * MINUTE, 0)
        assert herd.outcomes()[-1] == ("ran", "")
        assert len(herd.runner.jobs) == 1


async def test_after_a_failed_execution_the_item_is_released_back_to_the_queue(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.runner.outcomes = [FAILED]

        await herd.tick()
        (item, report) = herd.source.reports[0]
        await herd.advance(10 * MINUTE)  # a failure doubles the interval

        assert (item, report.succeeded, report.error, report.offers_again) == ("1", False, "tests are red", True)
        assert herd.states() == [("1", "reported", 1), ("1", "reported", 2)]
        assert herd.statuses() == ["failed", "succeeded"]


async def test_a_failing_report_is_repeated_and_does_not_affect_the_outcome(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.source.failures["report"] = 2

        await herd.tick()
        first = (herd.statuses(), herd.outcomes(), herd.states(), herd.claims()[0].reason, herd.next_run())
        for _ in range(2):
            herd.clock.advance(MINUTE)
            await herd.settler.settle_due()

        assert first == (["succeeded"], [("ran", "")], [("1", "ran", 1)], "It cannot report.", TEN + 5 * MINUTE)
        assert herd.source.log == [("list", ""), ("claim", "1"), *[("report", "1")] * 3]
        assert herd.states() == [("1", "reported", 1)]


async def test_while_a_report_is_not_delivered_nobody_takes_the_item_again(tmp_path: Path) -> None:
    source = FakeSource()
    async with open_work_herd(tmp_path, source=source) as herd:
        source.offer("1")
        source.failures["report"] = 1
        await herd.tick()
        source.held.clear()  # as if the source had forgotten who has it

        await herd.loop.run_cycle(herd.tasks)
        herd.clock.advance(5 * MINUTE)
        await herd.tick(settles=False)

        assert herd.outcomes() == [("ran", ""), ("skipped", "no_work")]
        assert len(herd.runner.jobs) == 1
