"""Hooks: the messages of a run that has ended. They are planned when its result is written, and delivered later.

A hook never changes the result of its run. It is a row of the outbox, written in the transaction that completes the
run: so a crash cannot separate a message from its run.
"""

import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from herdbeat.clock import Clock
from herdbeat.domain.hooks import HOOK_LISTS, HOOK_ROOTS, PROGRAM_TYPES, is_dotted_path
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.outbox import DeliveryKind, NewDelivery
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, display_name
from herdbeat.domain.target import AgentSpec, CommandSpec, Target
from herdbeat.domain.trigger import is_chat_id
from herdbeat.durations import format_elapsed
from herdbeat.errors import HerdbeatError
from herdbeat.redaction import redact_known_data
from herdbeat.rules.evaluate import evaluate
from herdbeat.rules.expression import parse_expression
from herdbeat.scheduler.chat_answers import build_answer
from herdbeat.store.base import FinishedRun
from herdbeat.timestamps import format_timestamp

log = logging.getLogger(__name__)

MAX_OUTPUT_CHARS = 16_000
"""Characters of the output in the context of a hook. The log of the run has all of it."""

MAX_ERROR_CHARS = 300
_EVENTS = {
    RunStatus.SUCCEEDED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.TIMED_OUT: "timeout",
    RunStatus.CANCELLED: "cancelled",
}


class HookTargets(Protocol):
    """Where the hooks of a target are read."""

    def target(self, target_id: int) -> Target: ...


class LastRuns(Protocol):
    """Where a hook reads what went before its run."""

    def past_runs(self, schedule_id: int, before: int, limit: int) -> Sequence[PastRun]:
        """Return the ended runs of a schedule before that run, the newest first."""
        ...

    def beat_data(self, beat_id: int) -> str | None:
        """Return what came with a beat, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class HookPlanner:
    """Adds to a finished run what the hooks of its target have to deliver."""

    targets: HookTargets
    history: LastRuns
    clock: Clock
    host: str
    public_url: str = ""

    def __call__(self, claim: Claim, finished: FinishedRun) -> FinishedRun:
        if finished.outcome.status not in _EVENTS:
            return finished  # skipped, or interrupted: it has not run to an end
        try:
            target = self.targets.target(claim.target_id)
            planned = self._plan(target, claim, finished) if target.hooks else ()
            if is_chat_id(claim.dedup_id):
                planned += self._plan_answer(claim, finished)
            return finished._replace(deliveries=planned) if planned else finished
        except HerdbeatError as error:
            log.warning("hooks not planned run=%s schedule=%s error=%s", claim.run_id, claim.label, error)
            return finished

    def _plan(self, target: Target, claim: Claim, finished: FinishedRun) -> tuple[NewDelivery, ...]:
        context = build_context(target, claim, finished, self.clock.now(), self.public_url)
        return tuple(
            build_delivery(target, claim, hook, context, self.host)
            for hook in iter_hooks(target.hooks)
            if self._is_wanted(hook, claim, finished.outcome.status, context)
        )

    def _plan_answer(self, claim: Claim, finished: FinishedRun) -> tuple[NewDelivery, ...]:
        """Return the answer to the message that the run is about."""
        data = json.loads(self.history.beat_data(claim.beat_id) or "{}")
        address = data.get("reply_to") if isinstance(data, dict) else None
        if not isinstance(address, dict):
            return ()
        now = self.clock.now()
        return build_answer(claim, address, finished.outcome, max(now - (finished.started_at or now), timedelta(0)))

    def _is_wanted(self, hook: "Hook", claim: Claim, status: RunStatus, context: Mapping[str, object]) -> bool:
        if hook.list_name == "on_error" and not status.is_failure:
            return False
        events = hook.spec.get("on_events")
        if isinstance(events, list | tuple) and context["event"] not in events:
            return False
        if hook.list_name == "on_change" and not self._has_changed(claim, status):
            return False
        condition = hook.spec.get("when")
        return condition is None or is_met(str(condition), context)

    def _has_changed(self, claim: Claim, status: RunStatus) -> bool:
        """Whether the run went well and the one before did not, or the other way round."""
        if status is RunStatus.CANCELLED:
            return False
        for past in self.history.past_runs(claim.schedule_id, claim.run_id, 20):
            if past.status is RunStatus.SUCCEEDED or past.status.is_failure:
                return past.status.is_failure is not status.is_failure
        return False


@dataclass(frozen=True, slots=True)
class Hook:
    """One entry of a list of hooks."""

    list_name: str
    number: int
    spec: Mapping[str, object]

    @property
    def name(self) -> str:
        return str(self.spec.get("name") or self.spec.get("notify") or f"{self.list_name}[{self.number}]")


def iter_hooks(hooks: Mapping[str, object]) -> Iterator[Hook]:
    for list_name in HOOK_LISTS:
        listed = hooks.get(list_name)
        for number, spec in enumerate(listed if isinstance(listed, list | tuple) else ()):
            if isinstance(spec, Mapping):
                yield Hook(list_name, number, spec)


def is_met(condition: str, context: Mapping[str, object]) -> bool:
    """Return whether a `when` holds: a dotted path to something that counts as true, or an expression. Pure."""
    text = condition.strip()
    if is_dotted_path(text):
        return bool(_look_up(context, text.split(".")))
    environment = {name: context[name] for name in HOOK_ROOTS if context.get(name) is not None}
    result = evaluate(parse_expression(text, HOOK_ROOTS), environment)
    if result.error:
        log.warning("hook not started when=%s error=%s", text, result.error)
    return result.is_true


def _look_up(value: object, path: Sequence[str]) -> object:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def build_delivery(target: Target, claim: Claim, hook: Hook, context: Mapping[str, object], host: str) -> NewDelivery:
    """Return the message of a hook. A program runs on the host of its run, and at most once."""
    is_program = hook.spec.get("type") in PROGRAM_TYPES
    spec = dict(hook.spec)
    if is_program and isinstance(target.spec, AgentSpec | CommandSpec):
        spec.setdefault("working_directory", target.spec.working_directory)
    channel = hook.spec.get("notify")
    return NewDelivery(
        message_id=f"msg_{uuid.uuid4().hex}",
        channel=str(channel) if channel else f"{target.name}:{hook.list_name}.{hook.number}",
        kind=DeliveryKind.HOOK,
        name=hook.name,
        spec=spec,
        payload=context,
        run_id=claim.run_id,
        host=host if is_program else None,
        is_once=is_program,
    )


def build_context(
    target: Target, claim: Claim, finished: FinishedRun, now: datetime, public_url: str = ""
) -> dict[str, object]:
    """Return what a hook gets as JSON: herdctl's keys, and `run`, `response`, `schedule`, `text` and `url`. Pure."""
    outcome, started_at = finished.outcome, finished.started_at or now
    event, name = _EVENTS[outcome.status], claim.label.partition("/")[2] or DEFAULT_SCHEDULE_NAME
    label = display_name(target.name, name)
    run_id, elapsed = format_short_id(claim.run_id), max(now - started_at, timedelta(0))
    answer = outcome.agent.answer if outcome.agent is not None else ""
    output = answer or outcome.summary or outcome.output
    context: dict[str, object] = {
        "event": event,
        "schedule": label,
        "text": _describe(label, outcome, elapsed),
        "url": f"{public_url}/runs/{run_id}" if public_url else None,
        "job": {
            "id": run_id,
            "agentId": target.name,
            "scheduleName": name,
            "startedAt": format_timestamp(started_at),
            "completedAt": format_timestamp(now),
            "durationMs": round(elapsed / timedelta(milliseconds=1)),
        },
        "result": {
            "success": outcome.status is RunStatus.SUCCEEDED,
            "output": output[:MAX_OUTPUT_CHARS],
            "error": outcome.error[:MAX_OUTPUT_CHARS],
        },
        "agent": {"id": target.name, "name": target.name},
        "metadata": outcome.response if isinstance(outcome.response, Mapping) else {},
        "run": {
            "id": run_id,
            "ok": outcome.status is RunStatus.SUCCEEDED,
            "status": str(outcome.status),
            "attempt": claim.attempt,
            "due_at": format_timestamp(claim.due_at),
            "duration_ms": round(elapsed / timedelta(milliseconds=1)),
            "needs_you": list(outcome.agent.needs_you) if outcome.agent is not None else [],
            "quiet": outcome.agent is not None and outcome.agent.quiet,
            **({"status_code": outcome.code} if outcome.code is not None else {}),
            **({"cost_usd": outcome.usage["usd"]} if "usd" in outcome.usage else {}),
        },
        "response": outcome.response,
    }
    redacted = redact_known_data(context)
    assert isinstance(redacted, dict)
    return redacted


def _describe(label: str, outcome: Outcome, elapsed: timedelta) -> str:
    """Return for example `scout/triage failed after 12s: exit status 1`."""
    words = {
        RunStatus.SUCCEEDED: "succeeded",
        RunStatus.FAILED: "failed",
        RunStatus.TIMED_OUT: "timed out",
        RunStatus.CANCELLED: "was cancelled",
    }
    error = f": {' '.join(outcome.error.split())[:MAX_ERROR_CHARS]}" if outcome.error else ""
    return f"{label} {words[outcome.status]} after {format_elapsed(elapsed)}{error}"
