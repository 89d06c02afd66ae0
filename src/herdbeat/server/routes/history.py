"""What happened across schedules: the timeline, the output of runs, hints, and rules over the past."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.bootstrap.handle import Reader
from herdbeat.domain.selection import Selection
from herdbeat.errors import UsageError
from herdbeat.server.auth import AskingCaller, Caller, Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import JSON_LINES
from herdbeat.server.routes.actions import ENDED_HINT_MAX_AGE, find_hint_schedule, parse_hint_id
from herdbeat.server.routes.fleet import Since
from herdbeat.server.routes.inputs import RuleTestBody
from herdbeat.server.routes.runs import LOG_MEDIA_TYPES, follow_log, format_entry
from herdbeat.server.sse import LiveStream
from herdbeat.service.commands.base import ClearHints
from herdbeat.service.queries.hints import classify_hints
from herdbeat.service.queries.logs import LogFeed, LogSelection, resolve_log_selection
from herdbeat.service.queries.rules import list_rules, replay_rules
from herdbeat.service.queries.selectors import find_schedule, select_schedules
from herdbeat.service.queries.timeline import load_timeline
from herdbeat.service.serialize import (
    serialize_delivery,
    serialize_hint,
    serialize_rule_test,
    serialize_rules,
    serialize_timeline,
)

router = APIRouter(tags=["history"])

DEFAULT_TIMELINE = timedelta(hours=2)
DEFAULT_TEST_PERIOD = timedelta(days=7)
MAX_LOG_LINES = 10_000

Selectors = Annotated[list[str] | None, Query(max_length=100, description="TARGET, TARGET/SCHEDULE or TARGET/*")]
NameFilter = Annotated[list[str] | None, Query(max_length=100)]


@router.get("/timeline", summary="What each schedule did in the last hours")
def show_timeline(
    caller: ReadCaller, gateway: Gateway, selector: Selectors = None, since: Since = None
) -> JSONResponse:
    with gateway.open() as handle:
        begin = handle.now - DEFAULT_TIMELINE if since is None else since.astimezone(UTC)
        if begin >= handle.now:
            raise UsageError("since is in the future.", hint="Send a time before now.")
        names = [caller.actor.target] if caller.actor.target else (selector or [])
        timeline = load_timeline(
            handle.require_reader(),
            names,
            since=begin,
            now=handle.now,
            max_rows=None,
            has_live_node=handle.holder_pid is not None,
        )
        return JSONResponse(serialize_timeline(timeline))


@router.get("/hints", summary="Hints of the fleet: active, shadowed, and those that ended within a day")
def list_hints(
    caller: ReadCaller, gateway: Gateway, selector: Selectors = None, tag: NameFilter = None, group: NameFilter = None
) -> JSONResponse:
    selection = Selection(names=tuple(selector or ()), tags=tuple(tag or ()), groups=tuple(group or ()))
    if caller.actor.target:
        selection = Selection(names=(caller.actor.target,))  # a tag or a group would add schedules of others
    with gateway.open() as handle:
        reader, ids = handle.require_reader(), None
        if selection != Selection():
            ids = [each.id for each in select_schedules(reader, selection)]
        hints = classify_hints(reader.hints(ids, ended_since=handle.now - ENDED_HINT_MAX_AGE), handle.now)
        return JSONResponse({"items": [serialize_hint(each) for each in hints]})


@router.delete("/hints/{hint_id}", summary="Remove one hint, by its id alone")
def end_hint(caller: OperateCaller, gateway: Gateway, hint_id: str) -> JSONResponse:
    number = parse_hint_id(hint_id)
    with gateway.open() as handle:
        record = find_hint_schedule(handle, hint_id)
    caller.require_target(record.target)
    return JSONResponse(
        serialize_delivery(gateway.deliver(caller.actor, ClearHints(schedules=(record.id,), hint=number)))
    )


@router.get("/rules", summary="The rules of schedules, and the outcome of each after the newest run")
def show_rules(caller: ReadCaller, gateway: Gateway, selector: Selectors = None) -> JSONResponse:
    names = (caller.actor.target,) if caller.actor.target else tuple(selector or ())
    with gateway.open() as handle:
        selection = Selection(names=names, everything=not names)
        return JSONResponse(serialize_rules(list_rules(handle.require_reader(), selection)))


@router.post("/rules/test", summary="What the rules of a schedule would have done with the runs that it had")
def test_rules(caller: AskingCaller, gateway: Gateway, body: RuleTestBody) -> JSONResponse:
    with gateway.open() as handle:
        reader = handle.require_reader()
        caller.require_target_of(body.schedule)
        record = find_schedule(reader, body.schedule)
        since = handle.now - DEFAULT_TEST_PERIOD if body.since is None else body.since.astimezone(UTC)
        return JSONResponse(serialize_rule_test(replay_rules(reader, record, since)))


@router.get(
    "/logs",
    summary="What runs printed; with follow=1, also what they print from now on",
    response_class=Response,
    responses={200: {"content": {JSON_LINES: {}, "text/event-stream": {}}, "description": "One line per entry"}},
)
def read_logs(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    selector: Annotated[
        list[str] | None, Query(max_length=100, description="Run id, TARGET, TARGET/SCHEDULE or TARGET/*")
    ] = None,
    since: Since = None,
    lines: Annotated[int, Query(ge=1, le=MAX_LOG_LINES, description="The last lines, unless `since` is given")] = 100,
    follow: bool = False,
) -> Response:
    """JSON lines, or server-sent events (Accept: text/event-stream)."""
    with gateway.open() as handle:
        reader = handle.require_reader()
        selection = _select_logs(caller, reader, selector or [], handle.now)
        kind = "sse" if "text/event-stream" in request.headers.get("accept", "") else "jsonl"
        limit = None if since is not None or (selection.runs and not selection.names) else lines
        begin = None if since is None else since.astimezone(UTC)
        if not follow:
            past = LogFeed(reader, handle.state_dir, selection).past(handle.now, since=begin, lines=limit)
            return Response("".join(format_entry(each, kind) for each in past), media_type=LOG_MEDIA_TYPES[kind])
    stream = follow_log(request, gateway, caller, selection, kind, since=begin, lines=limit)
    return LiveStream(stream, request.app.state.log_streams, LOG_MEDIA_TYPES[kind])


def _select_logs(caller: Caller, reader: Reader, words: Sequence[str], now: datetime) -> LogSelection:
    """Raises Forbidden for another target than the caller's own, and for a run: its own route has its log."""
    for each in words:
        caller.require_target_of(each)
    if caller.actor.target and not words:
        return LogSelection(names=(caller.actor.target,))
    selection = resolve_log_selection(reader, words, now)
    if selection.runs and not selection.names:
        caller.require_whole_fleet()
    return selection
