"""The governor's inputs and answers as JSON, so that a stored decision can be decided again and compared."""

from datetime import datetime
from typing import Any

from herdbeat.domain.codec import ReadTrigger, from_json, moment_to_json, to_json
from herdbeat.domain.decision import Decision, Source, Step, StepKind, step_to_json
from herdbeat.governor.state import ScheduleState

Json = dict[str, Any]


def state_to_json(state: ScheduleState) -> Json:
    data: Json = to_json(state)
    return data


def state_from_json(data: Json, read_trigger: ReadTrigger) -> ScheduleState:
    return from_json(ScheduleState, data, read_trigger)


def decision_to_json(decision: Decision) -> Json:
    """The words of the API, so that what is stored can be shown as it is."""
    return {
        "next_run_at": _moment(decision.next_run_at),
        "due_at": _moment(decision.due_at),
        "revisit_at": _moment(decision.revisit_at),
        "source": decision.source,
        "origin": decision.origin,
        "steps": [step_to_json(step) for step in decision.trace],
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


def _step_from_json(data: Json) -> Step:
    return Step(
        kind=StepKind(data["kind"]),
        text=data["text"],
        at=_read_moment(data.get("at")),
        source=Source(data["source"]) if "source" in data else None,
        origin=data.get("origin", ""),
        won=data.get("won", False),
    )


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment_to_json(moment)


def _read_moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
