from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from tests.support.runner_jobs import NOON, command_spec, make_job

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import Target
from herdbeat.redaction import register_secrets
from herdbeat.scheduler.hooks import HookPlanner, is_met
from herdbeat.store.base import FinishedRun
from herdbeat.testing import FakeClock

SUCCEEDED = Outcome(status=RunStatus.SUCCEEDED, output="all done", response={"changed": True})
FAILED = Outcome(status=RunStatus.FAILED, error="exit status 1", code=1)
HOOK = {"type": "webhook", "url": "https://ops.example.com"}


class FakeTargets:
    def __init__(self, hooks: Mapping[str, object]) -> None:
        self._target = Target(name="scribe", spec=command_spec("true", folder="notes"), hooks=hooks)

    def target(self, target_id: int) -> Target:
        assert target_id == 1
        return self._target


class FakeHistory:
    def __init__(self, *statuses: RunStatus) -> None:
        self._statuses = statuses

    def past_runs(self, schedule_id: int, before: int, limit: int) -> Sequence[PastRun]:
        assert (schedule_id, limit) == (1, 20)
        return [
            PastRun(id=before - 1, status=status, code=0, attempt=1, started_at=NOON, finished_at=NOON)
            for status in self._statuses
        ]

    def beat_data(self, beat_id: int) -> str | None:
        return None


def plan(hooks: Mapping[str, object], outcome: Outcome, *past: RunStatus) -> FinishedRun:
    planner = HookPlanner(FakeTargets(hooks), FakeHistory(*past), FakeClock(NOON), "here", "https://herd.example.com")
    job = make_job(command_spec("true"), run_id=7)
    return planner(job.claim, FinishedRun(7, NOON - timedelta(seconds=12), outcome))


def test_a_target_without_hooks_has_nothing_to_deliver() -> None:
    assert plan({}, FAILED).deliveries == ()


def test_the_context_has_the_keys_of_herdctl_and_a_link() -> None:
    (delivery,) = plan({"after_run": [HOOK]}, SUCCEEDED).deliveries

    context = delivery.payload
    assert context["event"] == "completed"
    assert context["job"] == {
        "id": "0007",
        "agentId": "scribe",
        "scheduleName": "hourly",
        "startedAt": "2026-03-02T11:59:48Z",
        "completedAt": "2026-03-02T12:00:00Z",
        "durationMs": 12_000,
    }
    assert context["result"] == {"success": True, "output": "all done", "error": ""}
    assert context["metadata"] == {"changed": True}
    assert context["text"] == "scribe/hourly succeeded after 12s"
    assert context["url"] == "https://herd.example.com/runs/0007"


@pytest.mark.parametrize(
    ("outcome", "past", "lists"),
    [
        (SUCCEEDED, [RunStatus.SUCCEEDED], ["after_run"]),
        (FAILED, [RunStatus.FAILED], ["after_run", "on_error"]),
        (FAILED, [RunStatus.SUCCEEDED], ["after_run", "on_error", "on_change"]),
        (SUCCEEDED, [RunStatus.INTERRUPTED, RunStatus.TIMED_OUT], ["after_run", "on_change"]),
        (FAILED, [], ["after_run", "on_error"]),  # the first run has changed nothing
        (Outcome(status=RunStatus.CANCELLED), [RunStatus.FAILED], ["after_run"]),
        (Outcome(status=RunStatus.INTERRUPTED), [RunStatus.FAILED], []),
        (Outcome(status=RunStatus.SKIPPED), [RunStatus.FAILED], []),
    ],
)
def test_a_run_executes_the_lists_that_its_outcome_calls_for(
    outcome: Outcome, past: list[RunStatus], lists: list[str]
) -> None:
    hooks = {name: [{**HOOK, "name": name}] for name in ("after_run", "on_error", "on_change")}

    planned = plan(hooks, outcome, *past).deliveries

    assert [each.name for each in planned] == lists


def test_a_hook_for_some_events_is_not_executed_for_others() -> None:
    hooks = {"after_run": [{**HOOK, "on_events": ["timeout"]}, {**HOOK, "on_events": ["failed", "timeout"]}]}

    planned = plan(hooks, FAILED).deliveries

    assert [each.name for each in planned] == ["after_run[1]"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("metadata.changed", True),
        ("metadata.missing", False),
        ("metadata.count", False),  # zero does not count as true
        ("run.duration_ms > 1000", True),
        ("response.count > 0", False),
        ("response.missing > 0", False),  # undecidable
        ('event == "completed" && result.success', True),
    ],
)
def test_a_condition_is_a_path_or_an_expression(condition: str, expected: bool) -> None:
    data = {"changed": True, "count": 0}
    context: dict[str, object] = {
        "event": "completed",
        "result": {"success": True},
        "metadata": data,
        "response": data,
        "run": {"duration_ms": 12_000},
    }

    assert is_met(condition, context) is expected


def test_a_program_belongs_to_the_machine_of_its_run_and_is_started_once() -> None:
    (delivery,) = plan({"after_run": [{"type": "command", "command": ["tidy"]}]}, SUCCEEDED).deliveries

    assert (delivery.is_once, delivery.host) == (True, "here")
    assert delivery.spec["working_directory"] == "notes"


def test_a_secret_in_the_output_of_a_run_does_not_reach_its_hooks() -> None:
    register_secrets(["hunter2-hunter2-hunter2"])

    (delivery,) = plan(
        {"after_run": [HOOK]}, Outcome(status=RunStatus.FAILED, error="no hunter2-hunter2-hunter2")
    ).deliveries

    assert "hunter2" not in str(delivery.payload)
