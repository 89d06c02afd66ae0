"""Runs: list, show, read the log or follow it, cancel, retry."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.domain.agent_records import AgentRunRecord
from herdbeat.domain.decision import Source
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import Conflict, NotFound, truncate_for_message
from herdbeat.redaction import redact
from herdbeat.server.auth import Caller, Gateway, OperateCaller, ReadCaller, get_authenticator
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.pagination import (
    JSON_LINES,
    LIST_CONTENT,
    CountRows,
    Cursor,
    Limit,
    ListFormat,
    parse_cursor,
    render_rows,
)
from herdbeat.server.routes.actions import IdempotencyKey, build_request_id
from herdbeat.server.routes.beats import ScheduleFilter
from herdbeat.server.routes.fleet import Since
from herdbeat.server.routes.inputs import CancelInput, ReasonInput, RetryInput
from herdbeat.server.sse import EVENT_STREAM, LiveStream, finish_in_thread
from herdbeat.service.commands.base import AckRuns, CancelRuns, RetryRuns
from herdbeat.service.queries.details import find_details
from herdbeat.service.queries.logs import LogEntry, LogEntryKind, LogFeed, LogSelection
from herdbeat.service.queries.selectors import count_runs, find_run, find_runs, split_selector
from herdbeat.service.serialize import (
    serialize_answer,
    serialize_details,
    serialize_log_entry,
    serialize_result,
    serialize_run,
    serialize_steps,
)
from herdbeat.threads import call_in_thread

router = APIRouter(prefix="/runs", tags=["runs"])

FOLLOW_INTERVAL_S = 0.25
RECHECK_INTERVAL_S = 30.0
KEEP_ALIVE_INTERVAL_S = 15.0
MAX_LOG_STREAMS = 200
MAX_SHARED_LOG_STREAMS = 20
"""Logs that are followed at once: each has a reader of the ledger, and a database has a hundred connections for all."""

_KEEP_ALIVES = {"text": "", "jsonl": "\n", "sse": ": \n\n"}
"""Shows a proxy and a reader that a quiet stream is alive."""

_OUTPUT_KINDS = (LogEntryKind.OUT, LogEntryKind.ERR, LogEntryKind.NOTE)


@router.get("", summary="Runs, newest first", responses=LIST_CONTENT)
def list_all(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    schedule: ScheduleFilter = None,
    status: RunStatus | None = None,
    state: Annotated[RunStatus | None, Query(description="The same as `status`")] = None,
    source: Annotated[Source | None, Query(description="Why a run happened; looked for in the newest 20,000")] = None,
    origin: Annotated[str | None, Query(max_length=200, examples=["human:you"])] = None,
    since: Since = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    list_format: ListFormat = None,
    count: CountRows = None,
) -> Response:
    if caller.actor.target and schedule is not None:
        caller.require_target(split_selector(schedule)[0])
    selector, status = schedule or caller.actor.target or None, status or state
    with gateway.open() as handle:
        reader = handle.require_reader()
        rows = find_runs(
            reader,
            selector,
            status,
            source=source,
            origin=origin,
            since=since,
            before=parse_cursor(cursor),
            limit=limit + 1,
        )
        total = count_runs(reader, selector, status, since=since, source=source, origin=origin) if count else None
    return render_rows(request, rows, limit, serialize_run, list_format, total)


@router.get("/{run_id}", summary="One run with its attempts, its response and its usage")
def show(caller: ReadCaller, gateway: Gateway, run_id: str) -> JSONResponse:
    with gateway.open() as handle:
        _find(handle, caller, run_id)
        view = find_details(handle.require_reader(), f"run:{run_id}", handle.now)
        return JSONResponse(serialize_details(view))


@router.get("/{run_id}/answer", summary="What an agent answered at the end of its run")
def read_answer(caller: ReadCaller, gateway: Gateway, run_id: str) -> JSONResponse:
    """At most 64 KiB; the whole text is in the log. A run that is no agent's has no answer: 404."""
    with gateway.open() as handle:
        agent = _find_agent_run(handle, caller, run_id)
        return JSONResponse(serialize_answer(run_id, agent))


@router.get("/{run_id}/steps", summary="The tools that an agent called, in their order")
def list_steps(caller: ReadCaller, gateway: Gateway, run_id: str) -> JSONResponse:
    with gateway.open() as handle:
        agent = _find_agent_run(handle, caller, run_id)
        return JSONResponse(serialize_steps(agent))


def _find_agent_run(handle: FleetHandle, caller: Caller, run_id: str) -> AgentRunRecord:
    run = _find(handle, caller, run_id)
    found = handle.require_reader().agent_run(run.id)
    if found is None:
        hint = "Only the runs of agents have an answer and steps. Read its log: GET /api/v1/runs/{run_id}/log"
        raise NotFound(f"Run {truncate_for_message(run_id)} has no answer: no agent has reported it.", hint=hint)
    return found


@router.post("/{run_id}/ack", summary="Acknowledge that a run needed a person")
def acknowledge(caller: OperateCaller, gateway: Gateway, run_id: str, body: ReasonInput) -> JSONResponse:
    with gateway.open() as handle:
        run = _find(handle, caller, run_id)
    delivery = gateway.deliver(caller.actor, AckRuns(runs=(run.id,), reason=body.reason))
    return JSONResponse(serialize_result(delivery))


@router.get(
    "/{run_id}/log",
    summary="What a run printed; with follow=1, until it ends",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {}, JSON_LINES: {}, "text/event-stream": {}}}},
)
def read_log(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    run_id: str,
    follow: bool = False,
    list_format: ListFormat = None,
) -> Response:
    """Plain text, JSON lines (Accept or format=jsonl), or server-sent events (Accept: text/event-stream)."""
    with gateway.open() as handle:
        run = _find(handle, caller, run_id)
        accept = request.headers.get("accept", "")
        kind = "jsonl" if list_format == "jsonl" or JSON_LINES in accept else "text"
        kind = "sse" if "text/event-stream" in accept and list_format is None else kind
        if not follow and kind != "sse":
            feed = LogFeed(handle.require_reader(), handle.state_dir, LogSelection(runs=(run.id,)))
            entries = feed.past(handle.now, since=None, lines=None)
            return Response("".join(format_entry(each, kind) for each in entries), media_type=LOG_MEDIA_TYPES[kind])
    stream = follow_log(request, gateway, caller, LogSelection(runs=(run.id,)), kind)
    return LiveStream(stream, request.app.state.log_streams, LOG_MEDIA_TYPES[kind])


LOG_MEDIA_TYPES = {"text": "text/plain; charset=utf-8", "jsonl": JSON_LINES, "sse": EVENT_STREAM}


def format_entry(entry: LogEntry, kind: str) -> str:
    if kind == "text":
        return f"{redact(entry.text)}\n" if entry.kind in _OUTPUT_KINDS else ""
    text = redact(json.dumps(serialize_log_entry(entry), ensure_ascii=False))
    return f"{text}\n" if kind == "jsonl" else f"event: log\ndata: {text}\n\n"


async def follow_log(
    request: Request,
    gateway: FleetGateway,
    caller: Caller,
    selection: LogSelection,
    kind: str,
    *,
    since: datetime | None = None,
    lines: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield what runs print until they end, the reader leaves, or its token is no longer valid."""
    loop, authenticator = asyncio.get_running_loop(), get_authenticator(request)
    checked_at = sent_at = loop.time()
    with gateway.open() as handle:
        feed = LogFeed(handle.require_reader(), handle.state_dir, selection)
        entries = await finish_in_thread(partial(feed.past, handle.now, since=since, lines=lines))
        while True:
            text = "".join(format_entry(each, kind) for each in entries)
            if not text and loop.time() - sent_at > KEEP_ALIVE_INTERVAL_S:
                text = _KEEP_ALIVES[kind]
            if text:
                sent_at = loop.time()
            yield text.encode()
            if feed.is_over:
                return
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            if loop.time() - checked_at > RECHECK_INTERVAL_S:
                checked_at = loop.time()
                if not await call_in_thread(authenticator.is_still_valid, caller):
                    return
            entries = await finish_in_thread(partial(feed.poll, handle.clock.now()))


@router.post("/{run_id}/cancel", summary="Stop a run")
def cancel(caller: OperateCaller, gateway: Gateway, run_id: str, body: CancelInput) -> JSONResponse:
    with gateway.open() as handle:
        run = _find(handle, caller, run_id)
    if run.status is not RunStatus.RUNNING:
        raise Conflict(f"Run {run_id} has already ended: {run.status}.", hint="Nothing is left to cancel.")
    delivery = gateway.deliver(caller.actor, CancelRuns(runs=(run.id,), reason=body.reason, force=body.force))
    return JSONResponse(serialize_result(delivery))


@router.post("/{run_id}/retry", summary="One more attempt at the beat of a run", status_code=202)
def retry(
    request: Request, caller: OperateCaller, gateway: Gateway, run_id: str, body: RetryInput, key: IdempotencyKey = ""
) -> JSONResponse:
    with gateway.open() as handle:
        run = _find(handle, caller, run_id)
    command = RetryRuns(runs=(run.id,), reason=body.reason, force=body.force)
    delivery = gateway.deliver(caller.actor, command, build_request_id(request, caller, key, body))
    for item in delivery.result.items:
        if not item.success:
            raise Conflict(f"Run {run_id} was not retried: {item.refused}.", hint='Send "force": true to repeat it.')
    answer = serialize_result(delivery)
    return JSONResponse(answer, status_code=202)


def _find(handle: FleetHandle, caller: Caller, run_id: str) -> RunRecord:
    """Raises NotFound, Forbidden for a run of another target than the caller's."""
    run = find_run(handle.require_reader(), run_id)
    if run is None:
        raise NotFound(f'There is no run "{truncate_for_message(run_id)}".', hint="List runs: GET /api/v1/runs")
    caller.require_target(split_selector(run.schedule)[0] if "/" in run.schedule else run.schedule)
    return run
