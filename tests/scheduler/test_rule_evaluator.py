"""Runs that end together are judged together: one query for their history, and each still gets its own answer."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from herdbeat.clock import SystemClock
from herdbeat.domain.decision import Source
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import StoreUnavailable
from herdbeat.scheduler.rules import RuleEvaluator
from herdbeat.store.base import FinishedRun
from herdbeat.triggers.interval import Interval

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
FLAKY = {"name": "flaky", "when": "runs.filter(r, !r.ok).size() >= 2", "every": "1m"}
PLAN = ScheduleSpec(
    trigger=Interval(HOUR),
    policies=Policies(zone=ZoneInfo("UTC"), timeout=HOUR, catchup=Catchup.ONCE, adapt=(FLAKY,)),
)


class RecordedHistory:
    """The history of schedules whose runs with an even id had failed once before."""

    def __init__(self) -> None:
        self.queries: list[list[int]] = []
        self.error: StoreUnavailable | None = None

    def past_runs_by_run(self, run_ids: Sequence[int], limit: int) -> Mapping[int, Sequence[PastRun]]:
        self.queries.append(list(run_ids))
        if self.error is not None:
            raise self.error
        failed = PastRun(
            id=1, status=RunStatus.FAILED, code=None, attempt=1, started_at=NOW - HOUR, finished_at=NOW - HOUR
        )
        return {run_id: [failed] if run_id % 2 == 0 else [] for run_id in run_ids}

    def sibling_runs(self, schedule_id: int, names: Sequence[str]) -> Mapping[str, PastRun]:
        raise AssertionError(f"no rule of {schedule_id} reads {names}")

    def failures(self, schedule_id: int) -> int:
        raise AssertionError(f"no rule of {schedule_id} reads its failures")

    def work_items_left(self, run_id: int) -> int | None:
        raise AssertionError(f"no rule of {run_id} reads its work items")


def build_claim(run_id: int) -> Claim:
    return Claim(
        run_id=run_id,
        beat_id=run_id,
        schedule_id=run_id,
        target_id=1,
        label=f"s{run_id}/default",
        dedup_id=f"interval:{run_id}",
        due_at=NOW,
        source=Source.BASELINE_INTERVAL,
        attempt=1,
        revision=1,
        plan=PLAN,
        fence=1,
    )


def judged(judge: RuleEvaluator, run_id: int) -> asyncio.Task[FinishedRun]:
    finished = FinishedRun(run_id, NOW, Outcome(status=RunStatus.FAILED))
    return asyncio.ensure_future(judge(build_claim(run_id), finished))


@pytest.mark.parametrize("is_remote", [False, True])
async def test_each_of_many_runs_gets_its_own_answer(is_remote: bool) -> None:
    judge = RuleEvaluator(RecordedHistory(), SystemClock(), is_remote=is_remote)

    finished = await asyncio.gather(*(judged(judge, run_id) for run_id in (10, 11, 12)))

    assert [(run.run_id, [truth.when for truth in run.truths]) for run in finished] == [
        (10, [True]),
        (11, [False]),
        (12, [True]),
    ]


async def test_runs_that_end_together_are_one_query() -> None:
    history = RecordedHistory()
    judge = RuleEvaluator(history, SystemClock())

    await asyncio.gather(*(judged(judge, run_id) for run_id in range(10, 20)))
    await judged(judge, 30)

    assert history.queries == [list(range(10, 20)), [30]]


async def test_the_others_are_judged_if_the_first_of_them_is_cancelled() -> None:
    judge = RuleEvaluator(RecordedHistory(), SystemClock())
    first, second = judged(judge, 10), judged(judge, 12)
    await asyncio.sleep(0)

    first.cancel()

    assert (await second).truths[0].when is True
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_history_that_cannot_be_read_leaves_every_rule_undecided() -> None:
    history = RecordedHistory()
    history.error = StoreUnavailable("the disk is gone.", hint="")
    judge = RuleEvaluator(history, SystemClock())

    finished = await asyncio.gather(*(judged(judge, run_id) for run_id in (10, 11)))

    assert {run.truths[0].error for run in finished} == {"the history cannot be read: the disk is gone."}
