"""The input of the governor: the current state of one schedule.

States and decisions have a JSON form, so that a stored decision can be replayed and compared.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from herdbeat.domain.codec import TriggerLoader, from_json, to_json
from herdbeat.domain.decision import Decision, Source, StepKind, TraceStep, step_to_json
from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import PauseWindow, find_window
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import IntervalAnchor
from herdbeat.timestamps import format_timestamp

if TYPE_CHECKING:
    from herdbeat.domain.schedule import Schedule

_MICROSECOND = timedelta(microseconds=1)

PAUSED_BY_POLICY = "policy"
"""The author of a pause that `pause_after_failures` has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of a schedule, with author and reason. Without `until` it lasts until the schedule is resumed."""

    until: datetime | None = None
    by: str = ""
    reason: str = ""

    def is_active(self, now: datetime) -> bool:
        return self.until is None or self.until > now


def find_pause(at: datetime, pause: Pause | None, windows: Sequence[PauseWindow]) -> Pause | None:
    """Return what holds a schedule at a moment: its pause, or else the planned one around that moment."""
    if pause is not None and pause.is_active(at):
        return pause
    window = find_window(windows, at) if windows else None
    return None if window is None else Pause(until=window.until, by=window.by, reason=window.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """The fixed `timing` of a schedule, and the values that change from run to run.

    Intervals and limits are measured from `anchor_at`: the last settled clock beat, else the creation or
    enabling of the schedule. `is_new` means that there was no such beat yet. `not_before` is what the target has asked
    for with Retry-After.
    """

    schedule: str
    timing: TimingPolicy
    anchor_at: datetime
    is_new: bool = False
    failures: int = 0
    runs: int = 0
    hints: tuple[Hint, ...] = ()
    pause: Pause | None = None
    enabled: bool = True
    not_before: datetime | None = None
    windows: tuple[PauseWindow, ...] = ()
    """Its planned pauses: coming, current and past ones that nothing has closed yet."""

    def pause_at(self, at: datetime) -> Pause | None:
        """Return the pause or planned pause that holds it at a moment."""
        return find_pause(at, self.pause, self.windows)

    def after_window(self, window: PauseWindow) -> "tuple[datetime, ScheduleState]":
        """Return from when on to decide after a planned pause, and from which state.

        That is just before its end, without it: its end is not part of it, so that an instant of a calendar at that
        very moment runs.
        """
        later = tuple(each for each in self.windows if each.until > window.until)
        return window.until - _MICROSECOND, replace(self, windows=later)

    @classmethod
    def fresh(cls, schedule: "Schedule", now: datetime) -> "ScheduleState":
        """Return the state of a schedule that is created now."""
        timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
        return cls(schedule=schedule.id, timing=timing, anchor_at=now, is_new=True, enabled=schedule.enabled)

    def settled(self, due_at: datetime, finished_at: datetime) -> "ScheduleState":
        """Return the state right after a successful run. The claim of `due_at` has consumed one-shot hints up to it."""
        remaining = tuple(hint for hint in self.hints if hint.at is None or hint.at > due_at)
        anchor_at = due_at if self.timing.trigger.anchor is IntervalAnchor.START else finished_at
        return replace(self, anchor_at=anchor_at, is_new=False, failures=0, runs=self.runs + 1, hints=remaining)


# ── JSON ──

JsonObject = dict[str, Any]

_MOMENTS = ("next_run_at", "due_at", "revisit_at")
_RARE_INPUTS = ("is_new", "hints", "pause", "enabled", "not_before", "windows")

# Built once: json.dumps() with separators builds a new encoder at every call, and every beat stores one text.
_encode_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_encode_text = lru_cache(maxsize=4_096)(_encode_json)


def state_to_json(state: ScheduleState) -> JsonObject:
    data: JsonObject = to_json(state)
    return data


def state_from_json(data: JsonObject, load_trigger: TriggerLoader) -> ScheduleState:
    return from_json(ScheduleState, data, load_trigger)


def decision_to_json(decision: Decision) -> JsonObject:
    """Return the decision as the API shows it, so that stored decisions need no conversion."""
    moments = {name: getattr(decision, name) for name in _MOMENTS}
    times = {name: None if moment is None else format_timestamp(moment) for name, moment in moments.items()}
    steps = [step_to_json(step) for step in decision.trace]
    answer = {**times, "source": decision.source, "origin": decision.origin, "steps": steps}
    return answer if decision.inputs is None else {**answer, "inputs": _inputs_to_json(*decision.inputs)}


def decision_to_text(decision: Decision) -> str:
    """Return the same as text. Nearly every trace is only a baseline, so that case is formatted without the encoder."""
    if decision.next_run_at is None or not _has_only_winner(decision):
        return _encode_json(decision_to_json(decision))
    at, source = format_timestamp(decision.next_run_at), decision.source
    text = _encode_text(decision.trace[0].text)
    return (
        f'{{"next_run_at":"{at}","due_at":"{at}","revisit_at":null,"source":"{source}","origin":"",'
        f'"steps":[{{"kind":"candidate","text":{text},"at":"{at}","source":"{source}","won":true}}]'
        f"{_simple_inputs_text(decision)}}}"
    )


def _simple_inputs_text(decision: Decision) -> str:
    if decision.inputs is None:
        return ""
    now, state = decision.inputs
    assert isinstance(state, ScheduleState)
    is_held = state.pause is not None or state.not_before is not None or state.windows
    if is_held or state.is_new or state.hints or not state.enabled:
        return f',"inputs":{_encode_json(_inputs_to_json(now, state))}'
    anchor = "" if state.anchor_at == now else f',"anchor_at":"{format_timestamp(state.anchor_at)}"'
    failures = f',"failures":{state.failures}' if state.failures else ""
    return f',"inputs":{{"now":"{format_timestamp(now)}"{anchor}{failures},"runs":{state.runs}}}'


def _inputs_to_json(now: datetime, state: object) -> JsonObject:
    """Return what differs from a plain state. The timing is left out: it is that of the schedule."""
    assert isinstance(state, ScheduleState)
    inputs: JsonObject = {"now": format_timestamp(now)}
    if state.anchor_at != now:
        inputs["anchor_at"] = format_timestamp(state.anchor_at)
    if state.failures:
        inputs["failures"] = state.failures
    inputs["runs"] = state.runs
    plain = ScheduleState(schedule="", timing=state.timing, anchor_at=now)
    for name in _RARE_INPUTS:
        value = getattr(state, name)
        if value != getattr(plain, name):
            inputs[name] = to_json(value)
    return inputs


def inputs_from_json(
    data: JsonObject, schedule: str, timing: TimingPolicy, load_trigger: TriggerLoader
) -> tuple[datetime, ScheduleState]:
    """Return the moment and the state that a stored decision was made from. Raises KeyError, ValueError, TypeError."""
    now = datetime.fromisoformat(data["now"])
    plain = state_to_json(ScheduleState(schedule=schedule, timing=timing, anchor_at=now))
    given = {name: value for name, value in data.items() if name != "now"}
    return now, state_from_json({**plain, **given}, load_trigger)


def _has_only_winner(decision: Decision) -> bool:
    if len(decision.trace) != 1 or decision.revisit_at is not None or decision.origin:
        return False
    step, at = decision.trace[0], decision.next_run_at
    is_candidate = step.kind is StepKind.CANDIDATE and step.won and not step.origin
    return is_candidate and step.source is decision.source and step.at == at == decision.due_at


def decision_from_json(data: JsonObject) -> Decision:
    next_run_at, due_at, revisit_at = (_decode_timestamp(data[name]) for name in _MOMENTS)
    trace = tuple(_step_from_json(step) for step in data["steps"])
    return Decision(next_run_at, Source(data["source"]), trace, due_at, revisit_at, data["origin"])


def _step_from_json(data: JsonObject) -> TraceStep:
    return TraceStep(
        kind=StepKind(data["kind"]),
        text=data["text"],
        at=_decode_timestamp(data.get("at")),
        source=Source(data["source"]) if "source" in data else None,
        origin=data.get("origin", ""),
        won=data.get("won", False),
    )


def _decode_timestamp(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
