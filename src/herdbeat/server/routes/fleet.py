"""The fleet as a whole: status, next runs, changes, nodes, cost, the preview of an expression, and its configuration.

No request carries configuration: the server plans and applies the fleet's own files.
"""

import hashlib
import json
from datetime import UTC, timedelta
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.error_codes import Code
from herdbeat.errors import UsageError
from herdbeat.server.auth import AdminCaller, AskingCaller, Gateway, ReadCaller
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.pagination import LIST_CONTENT, Cursor, Limit, ListFormat, parse_cursor, render_rows
from herdbeat.server.problems import HttpError
from herdbeat.server.routes.inputs import PreviewBody, ReasonInput, UtcTime
from herdbeat.service.commands.base import ApplyFleet
from herdbeat.service.commands.fleet import preview_apply, serialize_plan
from herdbeat.service.queries.agents import CostGrouping, read_costs
from herdbeat.service.queries.expressions import UpcomingView, iter_trigger_runs, parse_expression
from herdbeat.service.queries.nodes import find_nodes
from herdbeat.service.queries.selectors import find_changes
from herdbeat.service.queries.status import read_status
from herdbeat.service.queries.upcoming import load_upcoming
from herdbeat.service.serialize import (
    JsonObject,
    serialize_change,
    serialize_config,
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
Since = Annotated[UtcTime | None, Query(description="Only what is newer than this")]


@router.get("/status", summary="What is running, late, failing and next")
def show_status(caller: ReadCaller, gateway: Gateway, selector: Selector = None) -> JSONResponse:
    name = caller.actor.target or selector
    with gateway.open() as handle:
        status = read_status(handle.require_reader(), handle.now, handle.holder_pid, name, zone=handle.zone)
        return JSONResponse(serialize_status(status, handle.name))


@router.get("/next", summary="The next runs of the fleet, by time")
def list_next(
    caller: ReadCaller,
    gateway: Gateway,
    selector: Selector = None,
    count: Limit = 50,
    start: Annotated[UtcTime | None, Query(description="Only runs from then on; without it, from now")] = None,
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
def preview_expression(caller: AskingCaller, gateway: Gateway, body: PreviewBody) -> JSONResponse:  # noqa: ARG001
    zone = parse_zone(body.timezone)
    trigger = parse_expression(body.expression, zone)
    if trigger is None:
        hint = 'Send for example "0 9 * * 1-5", "5m" or a time with a UTC offset.'
        raise UsageError("This is no cron expression, duration or time.", hint=hint)
    start = body.from_ or gateway.handle.now
    instants = tuple(islice(iter_trigger_runs(trigger, start), body.count))
    return JSONResponse(serialize_upcoming(UpcomingView(zone=zone, start=start, instants=instants, trigger=trigger)))


config_router = APIRouter(prefix="/config", tags=["config"])


@config_router.get("", summary="The values in force, each with the line of the file that sets it")
def show_config(caller: AdminCaller, gateway: Gateway) -> JSONResponse:  # noqa: ARG001 -- checked by its type
    """What `herdbeat config show --json` prints: secrets are hidden."""
    return JSONResponse(serialize_config(gateway.read_config_values()))


@config_router.post("/plan", summary="What applying the fleet's own files would change")
def plan_config(caller: AdminCaller, gateway: Gateway) -> JSONResponse:  # noqa: ARG001 -- checked by its type
    found = _read_plan(gateway)
    return JSONResponse({**found, "applied": False}, headers={"ETag": _build_plan_etag(found)})


@config_router.post("/apply", summary="Apply the fleet's own files, as the plan has shown them")
def apply_config(
    caller: AdminCaller, gateway: Gateway, body: ReasonInput, if_match: Annotated[str, Header(alias="If-Match")]
) -> JSONResponse:
    """`If-Match` is the ETag of the plan: files that were edited since are not applied unseen."""
    found = _read_plan(gateway)
    if if_match.strip() not in ("*", _build_plan_etag(found)):
        raise HttpError(412, Code.STALE_VERSION, "The files or the fleet have changed since the plan.")
    delivery = gateway.deliver(caller.actor, ApplyFleet(path=gateway.spec.config, reason=body.reason))
    return JSONResponse({**found, "applied": True, "served": delivery.has_live_node})


def _read_plan(gateway: FleetGateway) -> JsonObject:
    handle, loaded = gateway.handle, gateway.load_own_fleet()
    with gateway.hide_outage_details():
        return serialize_plan(preview_apply(handle.path, loaded.fleet, handle.now))


def _build_plan_etag(plan: JsonObject) -> str:
    """The plan without its times, which move while somebody reads it."""
    changes = plan["items"]
    assert isinstance(changes, list)
    stable = [{key: each[key] for key in ("what", "subject", "before", "after") if key in each} for each in changes]
    return f'"{hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:20]}"'
