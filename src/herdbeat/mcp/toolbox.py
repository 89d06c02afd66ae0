"""Executes tools for one user: a call becomes a query or a command, and its answer a small JSON object."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import HerdbeatError, NotFound
from herdbeat.mcp.arguments import Arguments, ToolRefusal
from herdbeat.mcp.tool_specs import AGENT_TOOLS, CREATE_TOOLS, READ_TOOLS, ToolName, ToolSpec
from herdbeat.redaction import redact_data
from herdbeat.service.commands.base import (
    Actor,
    CancelAgentHint,
    Command,
    CreateOwnSchedule,
    DeleteOwnSchedule,
    PaceAgent,
    ReportRun,
    SelfChange,
    WakeAgent,
    result_to_json,
)
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.run_tokens import ToolUser
from herdbeat.service.serialize import JsonObject

R = TypeVar("R")

MAX_ANSWER_BYTES = 2_000
MAX_TEXT_CHARS = 200
MAX_ROWS = 20
_TRUNCATED_BYTES = 20
_RUN_KEYS = (
    *("id", "schedule", "status", "attempt", "started_at", "finished_at", "code", "error", "error_code", "summary"),
    *("answer", "needs_you", "source", "due_at", "usage", "response"),
)


class ToolHost(Protocol):
    """A fleet that tools ask and change."""

    def open(self) -> AbstractContextManager[FleetHandle]:
        """Yield the fleet with a reader. Raises NotFound if nothing has ever run, StoreUnavailable."""

    def deliver(self, actor: Actor, command: Command[R]) -> Delivery[R]:
        """Raises what the command raises."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call. An error is an answer too: the model reads it, and can call again."""

    data: JsonObject
    is_error: bool = False

    @property
    def text(self) -> str:
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))


def list_tools(user: ToolUser) -> tuple[ToolSpec, ...]:
    if user.schedule_id is None:
        return READ_TOOLS
    return (*AGENT_TOOLS, *CREATE_TOOLS) if user.may_create else AGENT_TOOLS


def call_tool(host: ToolHost, find_user: Callable[[], ToolUser], name: str, given: Mapping[str, object]) -> ToolAnswer:
    """Return the answer to a call. Blocks. A tool of the other set does not exist for this user."""
    try:
        user = find_user()
        tool = _find_tool(user, name)
        data = _CALLS[tool.name](OpenCall(host, user, Arguments(tool, given)))
    except ToolRefusal as refusal:
        return ToolAnswer(refusal.to_json(), is_error=True)
    except HerdbeatError as error:
        return ToolAnswer(_redact(ToolRefusal.from_error(error).to_json()), is_error=True)
    return ToolAnswer(_redact(data))


def _find_tool(user: ToolUser, name: str) -> ToolSpec:
    tools = list_tools(user)
    tool = next((each for each in tools if each.name == name), None)
    if tool is None:
        known = ", ".join(each.name for each in tools)
        raise ToolRefusal("unknown_tool", "There is no such tool.", hint=f"The tools: {known}.")
    return tool


def _redact(data: JsonObject) -> JsonObject:
    hidden = redact_data(data)
    assert isinstance(hidden, dict)
    return hidden


@dataclass(frozen=True, slots=True)
class OpenCall:
    """One call, with everything that its execution needs."""

    host: ToolHost
    user: ToolUser
    arguments: Arguments

    @property
    def own_schedule(self) -> int:
        assert self.user.schedule_id is not None
        return self.user.schedule_id


def _whoami(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries.agent_self import load_agent_self, serialize_agent_self  # noqa: PLC0415

    with call.host.open() as handle:
        view = load_agent_self(handle.require_reader(), call.own_schedule, call.user.run_id, handle.now)
        return serialize_agent_self(view)


def _wake_me(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = WakeAgent(
        schedule=call.own_schedule,
        run=call.user.run_id,
        after=given.seconds("after"),
        at=given.moment("at"),
        note=given.text("note"),
        reason=given.text("reason"),
    )
    return _change(call, command)


def _set_pace(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = PaceAgent(
        schedule=call.own_schedule,
        run=call.user.run_id,
        every=given.seconds("every") or 0.0,
        lasts=given.seconds("for"),
        reason=given.text("reason"),
    )
    return _change(call, command)


def _cancel_wake(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = CancelAgentHint(
        schedule=call.own_schedule, run=call.user.run_id, hint=given.number("id"), reason=given.text("reason")
    )
    return _change(call, command)


def _report_result(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = ReportRun(
        schedule=call.own_schedule,
        run=call.user.run_id,
        ok=given.flag("ok"),
        quiet=bool(given.flag("quiet")),
        needs_you=given.text("needs_you"),
        summary=given.text("summary"),
        metrics=given.mapping("metrics"),
        reason=given.text("summary"),
    )
    return _change(call, command)


def _create_schedule(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = CreateOwnSchedule(
        schedule=call.own_schedule,
        run=call.user.run_id,
        name=given.text("name"),
        prompt=given.text("prompt"),
        every=given.text("every"),
        cron=given.text("cron"),
        at=given.moment("at"),
        expires_s=given.seconds("expires"),
        reason=given.text("reason"),
    )
    return _change(call, command)


def _delete_schedule(call: OpenCall) -> JsonObject:
    given = call.arguments
    command = DeleteOwnSchedule(
        schedule=call.own_schedule, run=call.user.run_id, name=given.text("name"), reason=given.text("reason")
    )
    return _change(call, command)


def _change(call: OpenCall, command: Command[SelfChange]) -> JsonObject:
    result = call.host.deliver(call.user.actor, command).result
    if result.refused:
        raise ToolRefusal(result.refused, result.detail, hint=result.hint, accepted=result.accepted)
    answer = {key: value for key, value in result_to_json(result).items() if value not in (None, [], {}, "")}
    if result.id is not None and result.next_run_at is None:
        answer["next_run_at"] = "decided when the active run ends"
    return answer


def _explain(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries import explain  # noqa: PLC0415 -- loads the triggers

    at = call.arguments.moment("at")
    with call.host.open() as handle:
        reader, record = handle.require_reader(), _find_schedule(call, handle)
        is_live = handle.holder_pid is not None
        if at is None:
            found = explain.load_next_explanation(reader, record, handle.now, has_live_node=is_live)
        elif at > handle.now:
            found = explain.load_future_explanation(reader, record, at, handle.now, handle.zone, has_live_node=is_live)
        else:
            found = explain.load_instant_explanation(reader, record, at, handle.now, handle.zone)
    from herdbeat.service.serialize import serialize_explanation, serialize_gate  # noqa: PLC0415

    whole = serialize_explanation(found)
    answer = {key: whole[key] for key in ("schedule", "text", "next_run_at", "source", "state", "fix") if whole[key]}
    closed = [serialize_gate(gate) for gate in found.gates if not gate.ok]
    trace = [_shorten(str(step["text"])) for step in found.steps]
    return _fit(
        {
            **answer,
            **({"closed_gates": closed} if closed else {}),
        },
        "trace",
        trace,
    )


def _list_runs(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries.selectors import find_runs  # noqa: PLC0415

    given = call.arguments
    status, limit = _parse_status(given.optional_text("status")), given.count("limit", 5, MAX_ROWS)
    with call.host.open() as handle:
        selector = _own_selector(call, handle) or given.optional_text("schedule")
        since = given.since("since", handle.now)
        runs = find_runs(handle.require_reader(), selector, status, since=since, before=None, limit=limit + 1)
    has_schedule = call.user.schedule_id is None
    rows = [_compact_run(each, has_schedule=has_schedule) for each in runs[:limit]]
    return _fit({"more": True} if len(runs) > limit else {}, "runs", rows)


def _list_schedules(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries.schedules import ScheduleQuery, list_schedules  # noqa: PLC0415

    target, limit = call.arguments.optional_text("target"), call.arguments.count("limit", MAX_ROWS, MAX_ROWS)
    with call.host.open() as handle:
        query = ScheduleQuery(now=handle.now, names=(target,) if target else (), limit=limit)
        page = list_schedules(handle.require_reader(), query, has_live_node=handle.holder_pid is not None)
    rows = [_compact_schedule(each.record, str(each.state)) for each in page.rows]
    return _fit({"more": True} if page.next_after is not None else {}, "schedules", rows)


def _get_status(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries.status import read_status  # noqa: PLC0415
    from herdbeat.service.serialize import serialize_status  # noqa: PLC0415

    with call.host.open() as handle:
        status = read_status(handle.require_reader(), handle.now, handle.holder_pid, zone=handle.zone)
        whole = serialize_status(status, handle.name)
    short = {
        key: value[:5] if isinstance(value, list) else value for key, value in whole.items() if value not in (None, [])
    }
    return _fit_any(short)


def _get_run(call: OpenCall) -> JsonObject:
    from herdbeat.service.queries.details import find_details  # noqa: PLC0415
    from herdbeat.service.serialize import serialize_details  # noqa: PLC0415

    with call.host.open() as handle:
        view = find_details(handle.require_reader(), f"run:{call.arguments.text('id')}", handle.now)
        whole = serialize_details(view)
    return _fit_any({key: whole[key] for key in _RUN_KEYS if whole.get(key) not in (None, [], "")})


_CALLS: dict[ToolName, Callable[[OpenCall], JsonObject]] = {
    ToolName.WHOAMI: _whoami,
    ToolName.WAKE_ME: _wake_me,
    ToolName.SET_PACE: _set_pace,
    ToolName.CANCEL_WAKE: _cancel_wake,
    ToolName.REPORT_RESULT: _report_result,
    ToolName.CREATE_SCHEDULE: _create_schedule,
    ToolName.DELETE_SCHEDULE: _delete_schedule,
    ToolName.EXPLAIN_SCHEDULE: _explain,
    ToolName.LIST_RUNS: _list_runs,
    ToolName.LIST_SCHEDULES: _list_schedules,
    ToolName.GET_STATUS: _get_status,
    ToolName.GET_RUN: _get_run,
}


def _find_schedule(call: OpenCall, handle: FleetHandle) -> ScheduleRecord:
    """Return the agent's own schedule, or the one that a program names."""
    from herdbeat.service.queries.selectors import find_single_schedule  # noqa: PLC0415

    reader = handle.require_reader()
    if call.user.schedule_id is None:
        return find_single_schedule(reader, call.arguments.text("schedule"))
    found = next(iter(reader.schedules_by_id([call.user.schedule_id])), None)
    if found is None:
        raise NotFound("The schedule no longer exists.", hint="It was removed from the fleet.")
    return found


def _own_selector(call: OpenCall, handle: FleetHandle) -> str | None:
    """Return the full name of the agent's schedule; None for a program, which may name any."""
    if call.user.schedule_id is None:
        return None
    record = _find_schedule(call, handle)
    return f"{record.target}/{record.name}"


def _parse_status(text: str | None) -> RunStatus | None:
    if text is None or text in set(RunStatus):
        return None if text is None else RunStatus(text)
    raise ToolRefusal(
        "bad_status", f'There is no status "{text[:40]}".', accepted={"status": [str(e) for e in RunStatus]}
    )


def _compact_run(run: RunRecord, *, has_schedule: bool) -> JsonObject:
    from herdbeat.service.serialize import serialize_run  # noqa: PLC0415

    whole = serialize_run(run)
    keys = ("id", "status", "started_at", "finished_at", "source", "summary", "error", "error_code", "needs_you")
    answer = {key: whole[key] for key in keys if whole.get(key) not in (None, [], "")}
    shortened = {key: _shorten(value) if isinstance(value, str) else value for key, value in answer.items()}
    return {"schedule": run.schedule, **shortened} if has_schedule else shortened


def _compact_schedule(record: ScheduleRecord, state: str) -> JsonObject:
    answer: JsonObject = {"schedule": record.label, "runs": record.plan.trigger.describe(), "state": state}
    answer["next_run_at"] = _format(record.next_run_at)
    answer["last_status"] = None if record.last_status is None else str(record.last_status)
    return {key: value for key, value in answer.items() if value is not None}


def _format(moment: datetime | None) -> str | None:
    from herdbeat.timestamps import format_optional_timestamp  # noqa: PLC0415

    return format_optional_timestamp(moment)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"


def _fit(answer: JsonObject, key: str, rows: Sequence[object]) -> JsonObject:
    """Return the answer with as many rows as fit; it says if some are left out."""
    items = list(rows)
    while items and _size({**answer, key: items}) > MAX_ANSWER_BYTES - _TRUNCATED_BYTES:
        items.pop()
    return {**answer, key: items, **({"truncated": True} if len(items) < len(rows) else {})}


def _fit_any(answer: JsonObject) -> JsonObject:
    """Return the answer with its longest values shortened until it fits."""
    if _size(answer) <= MAX_ANSWER_BYTES:
        return answer
    shortened = dict(answer)
    for key in _longest_first(answer):
        text = json.dumps(shortened[key], ensure_ascii=False)
        shortened[key] = _shorten(text) if len(text) > MAX_TEXT_CHARS else shortened[key]
        if _size(shortened) <= MAX_ANSWER_BYTES:
            break
    return {**shortened, "truncated": True}


def _longest_first(answer: JsonObject) -> Iterable[str]:
    return sorted(answer, key=lambda key: -len(json.dumps(answer[key])))


def _size(answer: JsonObject) -> int:
    return len(json.dumps(answer, ensure_ascii=False).encode())
