"""One run from claim to outcome: the precheck before it, and what is said about it after."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.support.agent_reports import make_report

from herdbeat.domain.agent_run import AgentReport, FinishReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import AgentSpec, CallableSpec, Target
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import RunnerError, StoreUnavailable
from herdbeat.redaction import register_secrets
from herdbeat.runners.base import Job, PrecheckResult, attach_report, mark_unstarted
from herdbeat.runners.registry import resolve_job
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.testing.clock import FakeClock
from herdbeat.triggers import Webhook
from herdbeat.triggers.interval import Interval

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PLAN = ScheduleSpec(
    trigger=Interval(5 * MINUTE),
    policies=Policies(
        zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE, precheck=("is-there-work",)
    ),
)
CLAIM = Claim(
    run_id=1,
    beat_id=1,
    schedule_id=1,
    target_id=1,
    label="scribe/default",
    dedup_id="interval:2026-03-02T12:00:00Z",
    due_at=NOON,
    source=Source.BASELINE_INTERVAL,
    attempt=1,
    revision=1,
    plan=PLAN,
)


class OneTarget:
    """A shelf with one target on it."""

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Nothing to get ready."""

    def target(self, target_id: int) -> Target:
        return Target(name=f"scribe{target_id}", spec=CallableSpec(call="m:f"))

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
        return RunSpec(prompt=f"{schedule_id} {revision}")

    def event_data(self, beat_id: int) -> str | None:
        raise AssertionError(f"nothing came with beat {beat_id}")

    def wake_data(self, run_id: int) -> str | None:
        raise AssertionError(f"no wake led to run {run_id}")


class Quick:
    """Succeeds, and remembers its jobs."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    async def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return Outcome(status=RunStatus.SUCCEEDED)

    async def wait_stopped(self, run_id: int) -> str:
        return ""


class Scripted:
    """A precheck with a scripted answer, which takes a while."""

    def __init__(self, answer: PrecheckResult, clock: FakeClock) -> None:
        self._answer = answer
        self._clock = clock
        self.asked = 0

    async def __call__(self, job: Job) -> PrecheckResult:
        assert job.claim.plan.policies.precheck
        self.asked += 1
        self._clock.advance(timedelta(seconds=10))
        return self._answer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


async def test_a_precheck_that_declines_ends_the_run_before_it_begins(clock: FakeClock) -> None:
    runner, check = Quick(), Scripted(PrecheckResult(may_run=False), clock)

    done = await RunExecutor(OneTarget(), runner, clock, check)(CLAIM)

    assert runner.jobs == []
    assert (done.outcome.status, done.outcome.skip, done.started_at) == (RunStatus.SKIPPED, "precheck", None)


async def test_with_a_broken_precheck_it_runs_and_the_run_has_a_note(clock: FakeClock) -> None:
    runner, check = Quick(), Scripted(PrecheckResult(may_run=True, note="the precheck is broken"), clock)

    done = await RunExecutor(OneTarget(), runner, clock, check)(CLAIM)

    assert (done.outcome.status, done.outcome.note) == (RunStatus.SUCCEEDED, "the precheck is broken")


async def test_the_time_of_the_precheck_does_not_count_towards_the_timeout(clock: FakeClock) -> None:
    runner, check = Quick(), Scripted(PrecheckResult(may_run=True), clock)

    done = await RunExecutor(OneTarget(), runner, clock, check)(CLAIM)

    assert done.started_at == NOON + timedelta(seconds=10)
    assert runner.jobs[0].deadline == done.started_at + timedelta(hours=1)
    assert done.outcome.note == ""


@pytest.mark.parametrize(
    "claim",
    [
        CLAIM._replace(source=Source.MANUAL),
        CLAIM._replace(source=Source.RETRY),
        CLAIM._replace(attempt=2),
        CLAIM._replace(plan=ScheduleSpec(trigger=PLAN.trigger, policies=replace(PLAN.policies, precheck=()))),
    ],
)
async def test_a_claim_that_needs_no_precheck_runs_none(clock: FakeClock, claim: Claim) -> None:
    runner, check = Quick(), Scripted(PrecheckResult(may_run=False), clock)

    done = await RunExecutor(OneTarget(), runner, clock, check)(claim)

    assert check.asked == 0
    assert done.outcome.status is RunStatus.SUCCEEDED


async def test_a_node_without_prechecks_runs_it_and_the_run_has_a_note(clock: FakeClock) -> None:
    done = await RunExecutor(OneTarget(), Quick(), clock)(CLAIM)

    assert "cannot run prechecks" in done.outcome.note


async def test_the_import_of_the_http_library_counted_towards_a_short_timeout(clock: FakeClock) -> None:
    runner, loaded = Quick(), asyncio.Event()

    async def load() -> None:
        clock.advance(timedelta(hours=2))
        loaded.set()

    def load_once(job: Job) -> Awaitable[None] | None:
        assert job.claim == CLAIM
        return None if loaded.is_set() else load()

    executor = RunExecutor(OneTarget(), runner, clock, load_runner=load_once)
    done = await executor(CLAIM)
    await executor(CLAIM)

    assert done.started_at == NOON + timedelta(hours=2)
    assert {job.deadline for job in runner.jobs} == {done.started_at + timedelta(hours=1)}


class Unsent(Quick):
    """Waits for a connection that it never gets."""

    async def run(self, job: Job) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            mark_unstarted(error, "its request was sent")
            raise
        raise AssertionError(job)


async def test_a_run_that_timed_out_before_its_request_looked_like_one_whose_endpoint_was_slow() -> None:
    short = CLAIM._replace(attempt=2, plan=replace(PLAN, policies=replace(PLAN.policies, timeout=MINUTE / 60_000)))

    done = await RunExecutor(OneTarget(), Unsent(), FakeClock(NOON))(short)

    assert done.outcome.status is RunStatus.TIMED_OUT
    assert done.outcome.error == "exceeded its timeout of 0.001s before its request was sent"


class Ending(Quick):
    """Ends in an error, or not at all, and says when nothing of it is left."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self._error = error
        self.was_waited_for = False
        self.survivors = ""

    async def run(self, job: Job) -> Outcome:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def wait_stopped(self, run_id: int) -> str:
        self.was_waited_for = True
        return self.survivors


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RunnerError("There is no program called x.", hint="Install it."), "There is no program called x. Install it."),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
async def test_whatever_a_runner_raises_is_the_outcome_of_its_run(
    clock: FakeClock, error: Exception, said: str
) -> None:
    done = await RunExecutor(OneTarget(), Ending(error), clock)(CLAIM._replace(attempt=2))

    assert (done.outcome.status, done.outcome.error) == (RunStatus.FAILED, said)


class UnreadableTarget(OneTarget):
    def target(self, target_id: int) -> Target:
        raise StoreUnavailable(f"target {target_id}: server closed the connection")


async def test_a_run_whose_target_could_not_be_read_is_not_called_failed(clock: FakeClock) -> None:
    """A restarted database made it `failed`, although its program had never been started."""
    runner = Quick()

    done = await RunExecutor(UnreadableTarget(), runner, clock)(CLAIM)

    assert (done.outcome.status, runner.jobs) == (RunStatus.INTERRUPTED, [])
    assert done.outcome.error == "not started: target 1: server closed the connection"


async def test_a_run_past_its_timeout_ends_when_nothing_of_it_is_left(clock: FakeClock) -> None:
    runner = Ending()
    short = ScheduleSpec(trigger=PLAN.trigger, policies=replace(PLAN.policies, precheck=(), timeout=timedelta(0)))

    done = await RunExecutor(OneTarget(), runner, clock)(CLAIM._replace(plan=short))

    assert done.outcome.status is RunStatus.TIMED_OUT
    assert "exceeded its timeout" in done.outcome.error
    assert runner.was_waited_for


async def test_a_process_that_survived_the_timeout_is_named_in_the_ledger(clock: FakeClock) -> None:
    runner = Ending()
    runner.survivors = "some processes could not be stopped: pid 17"
    short = ScheduleSpec(trigger=PLAN.trigger, policies=replace(PLAN.policies, precheck=(), timeout=timedelta(0)))

    done = await RunExecutor(OneTarget(), runner, clock)(CLAIM._replace(plan=short))

    assert done.outcome.error.endswith("; some processes could not be stopped: pid 17")


async def test_a_prompt_with_names_is_rendered_for_its_beat(clock: FakeClock) -> None:
    runner = Quick()

    class Named(OneTarget):
        def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
            return RunSpec(prompt="It is {{fire_time}}.")

    await RunExecutor(Named(), runner, clock)(CLAIM._replace(attempt=2))

    assert runner.jobs[0].prompt == "It is 2026-03-02T12:00:00Z."


@pytest.mark.parametrize("dedup_id", ["manual:0002", "backfill:2026-03-02T12:00:00Z#1", "rule:slow:0007"])
async def test_the_source_id_of_a_run_by_hand_is_not_that_of_an_instant_of_its_cron(
    clock: FakeClock, dedup_id: str
) -> None:
    runner = Quick()

    class Named(OneTarget):
        def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
            return RunSpec(prompt="{{source_id}}")

    await RunExecutor(Named(), runner, clock)(CLAIM._replace(attempt=2, dedup_id=dedup_id))

    assert runner.jobs[0].prompt == dedup_id
    assert runner.jobs[0].variables["source_id"] == dedup_id


async def test_a_schedule_whose_work_source_is_not_served_does_not_run_as_if_it_had_none(clock: FakeClock) -> None:
    class WithWork(OneTarget):
        def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
            return replace(super().run_spec(schedule_id, revision), work_source={"type": "github", "repo": "a/b"})

    runner = Quick()

    done = await RunExecutor(WithWork(), runner, clock)(CLAIM._replace(attempt=2))

    assert runner.jobs == []
    assert (done.outcome.status, done.outcome.skip, done.started_at) == (RunStatus.SKIPPED, "work_source_error", None)


async def test_no_registered_secret_is_in_an_outcome(clock: FakeClock) -> None:
    class Talkative(Quick):
        async def run(self, job: Job) -> Outcome:
            text = "it said hush-12345"
            return Outcome(
                status=RunStatus.FAILED, error=text, output=text, summary=text, response={"a": [text], "n": 1}
            )

    register_secrets(["hush-12345"])

    done = await RunExecutor(OneTarget(), Talkative(), clock)(CLAIM._replace(attempt=2))

    outcome = done.outcome
    assert {outcome.error, outcome.output, outcome.summary} == {"it said ***"}
    assert outcome.response == {"a": ["it said ***"], "n": 1}


class HangingAgent:
    """Never ends by itself. Cancelled, it tells its report, as the runner of agents does."""

    def __init__(self, report: AgentReport) -> None:
        self._report = report

    async def run(self, job: Job) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            attach_report(error, self._report)
            raise
        raise AssertionError(job)

    async def wait_stopped(self, run_id: int) -> str:
        return ""


@pytest.mark.parametrize(
    ("report", "status", "reason"),
    [
        (make_report(ok=False, reason=FinishReason.INTERRUPTED), RunStatus.TIMED_OUT, FinishReason.TIMED_OUT),
        (make_report(ok=False, reason=FinishReason.RATE_LIMITED), RunStatus.FAILED, FinishReason.RATE_LIMITED),
        (make_report(ok=True), RunStatus.SUCCEEDED, FinishReason.COMPLETED),
    ],
    ids=["at_work", "waiting_for_its_limit", "finished_but_not_gone"],
)
async def test_an_agent_past_its_timeout_keeps_what_it_has_told(
    clock: FakeClock, report: AgentReport, status: RunStatus, reason: FinishReason
) -> None:
    policies = replace(PLAN.policies, timeout=timedelta(milliseconds=1), precheck=())
    claim = CLAIM._replace(plan=replace(PLAN, policies=policies))

    done = await RunExecutor(OneTarget(), HangingAgent(report), clock)(claim)

    assert done.outcome.agent is not None
    assert (done.outcome.status, done.outcome.agent.reason, done.outcome.session) == (status, reason, "s-1")
    assert done.outcome.agent.counted.totals.usd == 0.4


class OneAgent(OneTarget):
    def target(self, target_id: int) -> Target:
        return Target(name=f"scribe{target_id}", spec=AgentSpec(runtime="claude", working_directory="."))

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
        return RunSpec(prompt="Look.", resume_session=schedule_id == 1, session_timeout=timedelta(hours=2))


async def test_only_a_run_that_resumes_takes_a_session(clock: FakeClock) -> None:
    runner, taken = Quick(), []

    async def take_session(claim: Claim, runtime: str, max_age: timedelta) -> str | None:
        taken.append((claim.schedule_id, runtime, max_age))
        return "s-7"

    execute = RunExecutor(OneAgent(), runner, clock, take_session=take_session)
    await execute(CLAIM._replace(attempt=2))
    await execute(CLAIM._replace(attempt=2, schedule_id=2))

    assert [job.session_id for job in runner.jobs] == ["s-7", None]
    assert taken == [(1, "claude", timedelta(hours=2))]


class HookedTarget(OneTarget):
    """A prompt with a reference, and a call whose payload looks like one."""

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
        return RunSpec(prompt="Use ${API_TOKEN} for {{payload.text}}", variables=("API_TOKEN",))

    def event_data(self, beat_id: int) -> str | None:
        return '{"payload": {"text": "${API_TOKEN} $${API_TOKEN}"}}'


async def test_a_payload_cannot_refer_to_a_variable_of_the_prompt(clock: FakeClock) -> None:
    runner = Quick()
    plan = ScheduleSpec(trigger=Webhook(), policies=replace(PLAN.policies, precheck=()))
    call = CLAIM._replace(dedup_id="webhook:1", source=Source.WEBHOOK, plan=plan)

    await RunExecutor(HookedTarget(), runner, clock)(call)

    (job,) = runner.jobs
    resolved = resolve_job(job, {"API_TOKEN": "canary-prompt-0815"})
    assert resolved.prompt == "Use canary-prompt-0815 for ${API_TOKEN} $${API_TOKEN}"
