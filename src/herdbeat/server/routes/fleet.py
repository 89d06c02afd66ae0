"""What the fleet does as a whole: status, next runs, changes, nodes, and the preview of an expression."""

from datetime import UTC, timedelta
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import AwareDatetime

from herdbeat.errors import UsageError
from herdbeat.server.auth import Gateway, ReadCaller
from herdbeat.server.pagination import LIST_CONTENT, Cursor, Limit, ListFormat, parse_cursor, render_rows
from herdbeat.server.routes.inputs import PreviewBody
from herdbeat.service.queries.agents import CostGrouping, read_costs
from herdbeat.service.queries.expressions import UpcomingView, iter_trigger_runs, parse_expression
from herdbeat.service.queries.nodes import find_nodes
from herdbeat.service.queries.selectors import find_changes
from herdbeat.service.queries.status import read_status
from herdbeat.service.queries.upcoming import load_upcoming
from herdbeat.service.serialize import (
    serialize_change,
    serialize_costs,
    serialize_nodes,
    serialize_status,
    serialize_upcoming,
)
from herdbeat.timestamps import parse_zone

router = APIRouter(tags=["fleet"])

DEFAULT_COST_WINDOW = timedelta(days=6)
"""Today and the six days before it, as `herdbeat cost` shows them."""

Selector = Annotated[str | None, Query(max_length=200, description="TARGET or TARGET/SCHEDULE", examples=["triage"])]
Since = Annotated[AwareDatetime | None, Query(description="Only what is newer than this")]


@router.get("/status", summary="What is running, late, failing and next")
def show_status(caller: ReadCaller, gateway: Gateway, selector: Selector = None) -> JSONResponse:
    name = caller.actor.target or selector
    with gateway.open() as handle:
        status = read_status(handle.require_reader(), handle.now, handle.holder_pid, name, zone=handle.zone)
        return JSONResponse(serialize_status(status, handle.name))


@router.get("/next", summary="The next runs of the fleet, by time")
def list_next(
    caller: ReadCaller, gateway: Gateway, selector: Selector = None, count: Limit = 50, start: Since = None
) -> JSONResponse:
    with gateway.open() as handle:
        view = load_upcoming(
            handle.require_reader(),
            caller.actor.target or selector,
            handle.now,
            start=start.astimezone(UTC) if start else handle.now,
            count=count,
            has_live_node=handle.holder_pid is not None,
            zone=handle.zone,
        )
        return JSONResponse(serialize_upcoming(view))


@router.get("/changes", summary="Who changed what, newest first", responses=LIST_CONTENT)
def list_changes(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    selector: Selector = None,
    since: Since = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    list_format: ListFormat = None,
) -> Response:
    with gateway.open() as handle:
        rows = find_changes(
            handle.require_reader(),
            caller.actor.target or selector,
            since=since,
            before=parse_cursor(cursor),
            limit=limit + 1,
        )
    return render_rows(request, rows, limit, serialize_change, list_format)


@router.get("/nodes", summary="The processes that run this fleet")
def list_nodes(caller: ReadCaller, gateway: Gateway, limit: Limit = 50, stopped: bool = False) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        reader, holder = handle.require_reader(), handle.holder_pid
        nodes = find_nodes(reader, handle.now, limit=limit, holder_pid=holder, include_stopped=stopped)
        return JSONResponse(serialize_nodes(nodes))


@router.get("/cost", summary="What agents cost, by schedule, target or day")
def show_cost(
    caller: ReadCaller,
    gateway: Gateway,
    selector: Selector = None,
    since: Since = None,
    by: CostGrouping = CostGrouping.SCHEDULE,
) -> JSONResponse:
    with gateway.open() as handle:
        report = read_costs(
            handle.require_reader(),
            caller.actor.target or selector,
            since=since or handle.now - DEFAULT_COST_WINDOW,
            zone=handle.zone,
            by=by,
        )
        return JSONResponse(serialize_costs(report))


@router.post("/preview", summary="When a cron expression, a duration or a time fires")
def preview_expression(caller: ReadCaller, gateway: Gateway, body: PreviewBody) -> JSONResponse:  # noqa: ARG001
    zone = parse_zone(body.timezone)
    trigger = parse_expression(body.expression, zone)
    if trigger is None:
        hint = 'Send for example "0 9 * * 1-5", "5m" or a time with a UTC offset.'
        raise UsageError("This is no cron expression, duration or time.", hint=hint)
    start = body.from_.astimezone(UTC) if body.from_ else gateway.handle.now
    instants = tuple(islice(iter_trigger_runs(trigger, start), body.count))
    return JSONResponse(serialize_upcoming(UpcomingView(zone=zone, start=start, instants=instants, trigger=trigger)))
