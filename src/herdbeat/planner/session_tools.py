"""The tools of a session: reading tools answer from what was read before it began, the others only stage."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.planner import (
    DEFAULT_ANALYSIS_DISTANCE,
    MAX_ANALYSIS_DISTANCE,
    MIN_ANALYSIS_DISTANCE,
    ActionKind,
    PlannedAction,
    ToolUse,
)
from herdbeat.durations import parse_duration
from herdbeat.errors import SchedulerError, truncate_for_message
from herdbeat.planner.base import ModelCall, PlannerTool
from herdbeat.timestamps import parse_timestamp

MAX_ACTIONS = 50
MAX_RESPONSE_CHARS = 4_000
MAX_HISTORY_CHARS = 1_000
MAX_HISTORY_RUNS = 10
MAX_REASON_CHARS = 300
MAX_SUMMARY_CHARS = 4_000
DEFAULT_TTL = timedelta(hours=1)
_MAX_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGlimpse:
    """A run as a session sees it. `response` is what the target answered: data, whatever it says."""

    at: datetime
    status: str
    duration_ms: int | None
    response: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """A schedule of the group: its description for the model, and its last runs, the newest first."""

    label: str
    facts: Mapping[str, object]
    runs: Sequence[RunGlimpse] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What the model concludes, and when it wants to look again, already within its limits."""

    summary: str
    again_in: timedelta


class ToolProblem(Exception):
    """A call that cannot be done. The model gets the message, and can call again."""


@dataclass(slots=True)
class SessionTools:
    """The tools of one session. It knows nothing but the group, and changes nothing."""

    now: datetime
    schedules: Mapping[str, PlannedSchedule]
    staged: dict[tuple[str, ActionKind], PlannedAction] = field(default_factory=dict)
    analysis: Analysis | None = None
    calls: list[ToolUse] = field(default_factory=list)

    def call(self, call: ModelCall) -> str:
        """Return the answer to a call as JSON, also if the call is wrong."""
        try:
            answer: object = _find_handler(call)(self, call.arguments)
            is_ok = True
        except ToolProblem as problem:
            answer, is_ok = {"error": str(problem)}, False
        text = json.dumps(answer, ensure_ascii=False, default=str)
        shown = {key: _shorten(value) for key, value in list(call.arguments.items())[:10]}
        name = truncate_for_message(call.name, 60)
        self.calls.append(
            ToolUse(tool=name, arguments=shown, answer=truncate_for_message(text, _MAX_SHOWN_CHARS), ok=is_ok)
        )
        return text

    # ── reading ──

    def latest(self, given: Mapping[str, object]) -> object:
        schedule = self._find(given)
        return _describe_run(schedule.runs[0], MAX_RESPONSE_CHARS) if schedule.runs else {"runs": "none yet"}

    def history(self, given: Mapping[str, object]) -> object:
        schedule, limit = self._find(given), given.get("limit", MAX_HISTORY_RUNS)
        count = limit if isinstance(limit, int) and not isinstance(limit, bool) else MAX_HISTORY_RUNS
        return [
            _describe_run(each, MAX_HISTORY_CHARS) for each in schedule.runs[: max(1, min(count, MAX_HISTORY_RUNS))]
        ]

    def siblings(self, given: Mapping[str, object]) -> object:
        own = given.get("schedule")
        others = [each for each in self.schedules.values() if each.label != own]
        return {each.label: _describe_run(each.runs[0], MAX_HISTORY_CHARS) for each in others if each.runs}

    # ── staging ──

    def propose_interval(self, given: Mapping[str, object]) -> object:
        every, lasts = _require_duration(given, "every"), _read_duration(given, "for") or DEFAULT_TTL
        return self._stage(
            given, ActionKind.PROPOSE_INTERVAL, every_s=every.total_seconds(), lasts_s=lasts.total_seconds()
        )

    def propose_next_time(self, given: Mapping[str, object]) -> object:
        return self._stage(given, ActionKind.PROPOSE_NEXT_TIME, at=self._read_moment(given, "at", "in"))

    def pause_until(self, given: Mapping[str, object]) -> object:
        return self._stage(given, ActionKind.PAUSE_UNTIL, at=self._read_moment(given, "until", "for"))

    def clear_hints(self, given: Mapping[str, object]) -> object:
        return self._stage(given, ActionKind.CLEAR_HINTS)

    def _stage(
        self,
        given: Mapping[str, object],
        kind: ActionKind,
        *,
        every_s: float | None = None,
        lasts_s: float | None = None,
        at: datetime | None = None,
    ) -> object:
        label, reason = self._find(given).label, given.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise ToolProblem("reason is missing: say why, in a sentence for a person")
        key = (label, kind)
        if key not in self.staged and len(self.staged) >= MAX_ACTIONS:
            raise ToolProblem(f"a session stages at most {MAX_ACTIONS} actions")
        self.staged[key] = PlannedAction(
            kind=kind,
            schedule=label,
            reason=truncate_for_message(reason, MAX_REASON_CHARS),
            every_s=every_s,
            lasts_s=lasts_s,
            at=at,
        )
        return {"staged": kind, "schedule": label, "note": "done when you call submit_analysis"}

    def submit(self, given: Mapping[str, object]) -> object:
        summary, wanted = given.get("summary"), _read_duration(given, "next_analysis_in")
        if not isinstance(summary, str) or not summary.strip():
            raise ToolProblem("summary is missing: say what you saw and why you act, or why not")
        again_in = DEFAULT_ANALYSIS_DISTANCE if wanted is None else wanted
        bounded = min(max(again_in, MIN_ANALYSIS_DISTANCE), MAX_ANALYSIS_DISTANCE)
        self.analysis = Analysis(summary=truncate_for_message(summary, MAX_SUMMARY_CHARS), again_in=bounded)
        return {"accepted": True, "next_analysis_in_s": bounded.total_seconds()}

    def _find(self, given: Mapping[str, object]) -> PlannedSchedule:
        label = given.get("schedule")
        found = self.schedules.get(label) if isinstance(label, str) else None
        if found is None:
            raise ToolProblem(f"schedule must be one of this group: {', '.join(self.schedules)}")
        return found

    def _read_moment(self, given: Mapping[str, object], moment_key: str, distance_key: str) -> datetime:
        text, distance = given.get(moment_key), _read_duration(given, distance_key)
        if distance is not None:
            return self.now + distance
        if not isinstance(text, str):
            raise ToolProblem(f'give {distance_key}, such as "20m", or {moment_key}, a time with an offset')
        try:
            return parse_timestamp(text)
        except SchedulerError as error:
            raise ToolProblem(f"{moment_key}: {error.message} {error.hint}") from error


_HANDLERS: dict[str, Callable[[SessionTools, Mapping[str, object]], object]] = {
    "get_latest_response": SessionTools.latest,
    "get_response_history": SessionTools.history,
    "get_sibling_latest_responses": SessionTools.siblings,
    "propose_interval": SessionTools.propose_interval,
    "propose_next_time": SessionTools.propose_next_time,
    "pause_until": SessionTools.pause_until,
    "clear_hints": SessionTools.clear_hints,
    "submit_analysis": SessionTools.submit,
}


def _find_handler(call: ModelCall) -> Callable[[SessionTools, Mapping[str, object]], object]:
    if call.problem:
        raise ToolProblem(f"{call.problem}; call it again with a JSON object")
    if call.name not in _HANDLERS:
        raise ToolProblem(f"there is no tool of this name; the tools are {', '.join(_HANDLERS)}")
    return _HANDLERS[call.name]


def _require_duration(given: Mapping[str, object], key: str) -> timedelta:
    found = _read_duration(given, key)
    if found is None:
        raise ToolProblem(f'{key} is missing: write for example "5m"')
    return found


def _read_duration(given: Mapping[str, object], key: str) -> timedelta | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value) or not 0 < value < 10**8:
            raise ToolProblem(f"{key} must be a positive, finite number of seconds")
        return timedelta(seconds=value)
    try:
        return parse_duration(str(value))
    except SchedulerError as error:
        raise ToolProblem(f"{key}: {error.message} {error.hint}") from error


def _describe_run(run: RunGlimpse, max_chars: int) -> dict[str, object]:
    text = json.dumps(run.response, ensure_ascii=False, default=str)
    body = text if len(text) <= max_chars else text[:max_chars] + "… (cut)"
    return {
        "at": run.at,
        "status": run.status,
        "duration_ms": run.duration_ms,
        "response_data": body,
    }


def _shorten(value: object) -> object:
    """Return an argument as the record keeps it: any model may send anything."""
    if isinstance(value, str):
        return truncate_for_message(value, _MAX_SHOWN_CHARS)
    if value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 10**15):
        return value
    return truncate_for_message(str(value), _MAX_SHOWN_CHARS)


_SCHEDULE = {"schedule": {"type": "string", "description": "Name of a schedule of this group"}}
_REASON = {"reason": {"type": "string", "description": "Why, in one sentence for a person"}}
_LENGTH = {"type": "string", "description": 'Such as "30s", "5m" or "2h"'}
_MOMENT = {"type": "string", "description": "RFC 3339 with an offset"}


def _tool(name: str, description: str, properties: Mapping[str, object], required: Sequence[str]) -> PlannerTool:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return PlannerTool(name=name, description=description, schema=schema)


TOOLS = (
    _tool("get_latest_response", "The last run of a schedule, with its response.", _SCHEDULE, ["schedule"]),
    _tool(
        "get_response_history",
        "The last runs of a schedule, the newest first.",
        {**_SCHEDULE, "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HISTORY_RUNS}},
        ["schedule"],
    ),
    _tool("get_sibling_latest_responses", "The last run of every other schedule of the group.", _SCHEDULE, []),
    _tool(
        "propose_interval",
        "Run a schedule at another interval for a while. Hard limits still hold.",
        {**_SCHEDULE, "every": _LENGTH, "for": _LENGTH, **_REASON},
        ["schedule", "every", "reason"],
    ),
    _tool(
        "propose_next_time",
        "Run a schedule once more, at a time or after a while.",
        {**_SCHEDULE, "in": _LENGTH, "at": _MOMENT, **_REASON},
        ["schedule", "reason"],
    ),
    _tool(
        "pause_until",
        "Pause a schedule for a while.",
        {**_SCHEDULE, "for": _LENGTH, "until": _MOMENT, **_REASON},
        ["schedule", "reason"],
    ),
    _tool("clear_hints", "Take back the proposals of the planner.", {**_SCHEDULE, **_REASON}, ["schedule", "reason"]),
    _tool(
        "submit_analysis",
        "End the session: what you saw, and when to look again (5m to 24h). Staged actions are done only then.",
        {"summary": {"type": "string"}, "next_analysis_in": _LENGTH},
        ["summary", "next_analysis_in"],
    ),
)
