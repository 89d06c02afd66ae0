"""The governor's inputs and answers as JSON, so that a stored decision can be decided again and compared."""

from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.decision import Decision, Source, Step, StepKind
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits
from herdbeat.domain.timing import Timing
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.governor.state import Pause, ScheduleState

Json = dict[str, Any]
ReadTrigger = Callable[[TriggerKind, Mapping[str, str]], Trigger]
"""How a stored trigger becomes a value again: `herdbeat.triggers.from_options`."""

_MICROSECOND = timedelta(microseconds=1)


def decision_to_json(decision: Decision) -> Json:
    return {
        "next_run_at": _moment(decision.next_run_at),
        "due_at": _moment(decision.due_at),
        "revisit_at": _moment(decision.revisit_at),
        "source": decision.source,
        "origin": decision.origin,
        "steps": [_step_to_json(step) for step in decision.trace],
    }


def decision_from_json(data: Json) -> Decision:
    return Decision(
        next_run_at=_read_moment(data["next_run_at"]),
        source=Source(data["source"]),
        trace=tuple(_step_from_json(step) for step in data["steps"]),
        due_at=_read_moment(data["due_at"]),
        revisit_at=_read_moment(data["revisit_at"]),
        origin=data["origin"],
    )


def _step_to_json(step: Step) -> Json:
    """Only what the step says: most have no origin, and a trace is stored with every beat."""
    data: Json = {"kind": step.kind, "text": step.text}
    if step.at is not None:
        data["at"] = _moment(step.at)
    if step.source is not None:
        data["source"] = step.source
    if step.origin:
        data["origin"] = step.origin
    if step.kind is StepKind.CANDIDATE:
        data["won"] = step.won
    return data


def _step_from_json(data: Json) -> Step:
    return Step(
        kind=StepKind(data["kind"]),
        text=data["text"],
        at=_read_moment(data.get("at")),
        source=Source(data["source"]) if "source" in data else None,
        origin=data.get("origin", ""),
        won=data.get("won", False),
    )


def state_to_json(state: ScheduleState) -> Json:
    return {
        "timing": timing_to_json(state.timing),
        "anchor_at": _moment(state.anchor_at),
        "is_new": state.is_new,
        "failures": state.failures,
        "runs": state.runs,
        "hints": [_hint_to_json(hint) for hint in state.hints],
        "pause": _pause_to_json(state.pause) if state.pause else None,
        "enabled": state.enabled,
    }


def state_from_json(data: Json, read_trigger: ReadTrigger) -> ScheduleState:
    return ScheduleState(
        timing=timing_from_json(data["timing"], read_trigger),
        anchor_at=datetime.fromisoformat(data["anchor_at"]),
        is_new=data["is_new"],
        failures=data["failures"],
        runs=data["runs"],
        hints=tuple(_hint_from_json(hint) for hint in data["hints"]),
        pause=_pause_from_json(data["pause"]) if data["pause"] else None,
        enabled=data["enabled"],
    )


def timing_to_json(timing: Timing) -> Json:
    hours = timing.active_hours
    return {
        "schedule": timing.schedule,
        "trigger": {"kind": timing.trigger.kind, **timing.trigger.options()},
        "first_run": timing.first_run,
        "backoff": {"factor": timing.backoff.factor, "max_failures": timing.backoff.max_failures},
        "jitter": {"share": timing.jitter.share, "span": _span(timing.jitter.span)} if timing.jitter else None,
        "limits": {"at_least": _span(timing.limits.at_least), "at_most": _span(timing.limits.at_most)},
        "bounds": {
            "starts_at": _moment(timing.bounds.starts_at),
            "ends_at": _moment(timing.bounds.ends_at),
            "max_runs": timing.bounds.max_runs,
        },
        "active_hours": {"hours": [hours.opens.isoformat(), hours.closes.isoformat()], "zone": hours.zone.key}
        if hours
        else None,
    }


def timing_from_json(data: Json, read_trigger: ReadTrigger) -> Timing:
    options = dict(data["trigger"])
    kind = TriggerKind(options.pop("kind"))
    limits, bounds, jitter = data["limits"], data["bounds"], data["jitter"]
    return Timing(
        schedule=data["schedule"],
        trigger=read_trigger(kind, options),
        first_run=FirstRun(data["first_run"]),
        backoff=Backoff(**data["backoff"]),
        jitter=Jitter(share=jitter["share"], span=_read_span(jitter["span"])) if jitter else None,
        limits=Limits(at_least=_read_span(limits["at_least"]), at_most=_read_span(limits["at_most"])),
        bounds=Bounds(
            starts_at=_read_moment(bounds["starts_at"]),
            ends_at=_read_moment(bounds["ends_at"]),
            max_runs=bounds["max_runs"],
        ),
        active_hours=_hours_from_json(data["active_hours"]) if data["active_hours"] else None,
    )


def _hours_from_json(data: Json) -> ActiveHours:
    opens, closes = (time.fromisoformat(text) for text in data["hours"])
    return ActiveHours(opens=opens, closes=closes, zone=ZoneInfo(data["zone"]))


def _hint_to_json(hint: Hint) -> Json:
    return {
        "origin": hint.origin,
        "every": _span(hint.every),
        "at": _moment(hint.at),
        "reason": hint.reason,
        "expires_at": _moment(hint.expires_at),
        "created_at": _moment(hint.created_at),
    }


def _hint_from_json(data: Json) -> Hint:
    return Hint(
        origin=data["origin"],
        every=_read_span(data["every"]),
        at=_read_moment(data["at"]),
        reason=data["reason"],
        expires_at=datetime.fromisoformat(data["expires_at"]),
        created_at=_read_moment(data["created_at"]),
    )


def _pause_to_json(pause: Pause) -> Json:
    return {"until": _moment(pause.until), "by": pause.by, "reason": pause.reason}


def _pause_from_json(data: Json) -> Pause:
    return Pause(until=_read_moment(data["until"]), by=data["by"], reason=data["reason"])


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _read_moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _span(span: timedelta | None) -> int | None:
    """Whole microseconds: exact, where seconds as a float would not be."""
    return None if span is None else span // _MICROSECOND


def _read_span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)
