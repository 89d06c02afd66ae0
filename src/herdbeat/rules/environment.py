"""The variables of a rule: the run that has just ended, those before it, its schedule, its siblings. Pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.run import RunStatus
from herdbeat.rules.evaluate import Value

MAX_PAST_RUNS = 20
"""Runs in `runs`, with the one that has just ended."""


def is_evaluated(status: RunStatus, skip_reason: str) -> bool:
    """Whether rules are evaluated after such a run: not if it was interrupted, or declined for another reason than
    `no_work`, because it says nothing about what the schedule does."""
    if status is RunStatus.SKIPPED:
        return skip_reason == SkipReason.NO_WORK
    return status is not RunStatus.INTERRUPTED


def build_environment(
    run: PastRun,
    past: Sequence[PastRun],
    *,
    failures: int,
    interval: timedelta | None,
    tags: Sequence[str],
    siblings: Mapping[str, PastRun],
) -> dict[str, Value]:
    """Return the names of an expression. `past` has the runs before this one, the newest first."""
    runs = [describe_run(each) for each in [run, *past][:MAX_PAST_RUNS]]
    environment: dict[str, Value] = {
        "run": runs[0],
        "runs": runs,
        "schedule": {
            "failures": failures,
            "tags": list(tags),
            **({} if interval is None else {"interval_s": interval.total_seconds()}),
        },
        "siblings": {name: describe_run(each) for name, each in siblings.items()},
    }
    if run.response is not None:
        environment["response"] = run.response
    if past:
        environment["previous"] = runs[1]
    return environment


def describe_run(run: PastRun) -> dict[str, Value]:
    """Return what expressions call a run. What it does not have is missing, not null: rules then say so."""
    described: dict[str, Value] = {
        "ok": run.status is RunStatus.SUCCEEDED,
        "status": str(run.status),
        "attempt": run.attempt,
        "started_at": run.started_at,
        "skip_reason": run.skip_reason,
    }
    if run.finished_at is not None:
        described["finished_at"] = run.finished_at
        described["duration_ms"] = round((run.finished_at - run.started_at) / timedelta(milliseconds=1))
    if run.code is not None:
        described["status_code"] = run.code
    if run.cost_usd is not None:
        described["cost_usd"] = run.cost_usd
    if run.response is not None:
        described["response"] = run.response
    left = 0 if run.skip_reason == SkipReason.NO_WORK else run.work_items_left
    if left is not None:
        described["work_items_left"] = left
    return described
