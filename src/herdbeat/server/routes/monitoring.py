"""Monitoring: `/metrics` for Prometheus, the health checks, and the stream of live events.

`/healthz` reports whether the scheduler's loop advances, `/readyz` whether this server can answer.
"""

import time
from functools import partial
from html import escape
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from herdbeat.errors import HerdbeatError
from herdbeat.server.auth import Gateway, ReadCaller, get_authenticator
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.routes.actions import find_record
from herdbeat.server.sse import EventFilter, EventHub, LiveStream
from herdbeat.service.metrics import CONTENT_TYPE, FleetGauges, format_metrics
from herdbeat.service.queries.health import read_health
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition

probe_router = APIRouter(tags=["health"])

SVG = "image/svg+xml"
RETRY_HEADERS = {"Retry-After": "5"}
BADGE_LETTER_WIDTH_PX = 7
BADGE_PADDING_PX = 12
_BADGE_COLOURS = {
    DisplayState.OK: "#1a7f37",
    DisplayState.RUNNING: "#0969da",
    DisplayState.LATE: "#9a6700",
    DisplayState.FAILING: "#cf222e",
}
"""Dark enough for white letters; every other state is grey. The word says the same as the colour."""


@probe_router.get("/metrics", summary="Metrics in the text format of Prometheus", response_class=PlainTextResponse)
def show_metrics(caller: ReadCaller, gateway: Gateway) -> PlainTextResponse:
    """Counters are those of each node and begin at 0 when it starts; gauges come from the ledger."""
    caller.require_whole_fleet()
    gauges = _read_gauges(gateway)
    # A node that hangs is awaited once: a second time would be longer than Prometheus waits for all of it.
    counters = [] if gauges is not None and not gauges.nodes else gateway.handle.read_node_counters()
    return PlainTextResponse(format_metrics(gauges, counters), media_type=CONTENT_TYPE)


def _read_gauges(gateway: FleetGateway) -> FleetGauges | None:
    try:
        with gateway.open() as handle:
            reader, began = handle.require_reader(), time.perf_counter()
            counts = reader.count_for_metrics(handle.now)
            return FleetGauges(
                at=handle.now,
                **counts._asdict(),
                holds=len(reader.holds(handle.now)),
                nodes=len(handle.live_nodes) if handle.is_shared else int(handle.is_running),
                read_s=round(time.perf_counter() - began, 6),
            )
    except HerdbeatError:
        return None


@probe_router.get("/healthz", summary="Whether the scheduler runs and keeps up", responses={503: {"description": "No"}})
def show_health(gateway: Gateway) -> JSONResponse:
    """200 while a node answers and its loop moves; 503 with the reason otherwise. It says nothing about the fleet."""
    try:
        with gateway.open() as handle:
            health = read_health(handle.require_reader(), handle.now, is_running=handle.is_running)
    except HerdbeatError as error:
        return JSONResponse({"ok": False, "reason": error.code}, status_code=503, headers=RETRY_HEADERS)
    headers = {} if health.ok else RETRY_HEADERS
    return JSONResponse(
        {"ok": health.ok, "reason": health.reason}, status_code=200 if health.ok else 503, headers=headers
    )


@probe_router.get("/readyz", summary="Whether the server can read the ledger", responses={503: {"description": "No"}})
def show_readiness(gateway: Gateway) -> JSONResponse:
    try:
        with gateway.open() as handle:
            handle.require_reader().newest_run()
    except HerdbeatError as error:
        return JSONResponse({"ok": False, "reason": error.code}, status_code=503, headers=RETRY_HEADERS)
    return JSONResponse({"ok": True, "reason": ""})


@probe_router.get(
    "/badge/{target}/{name}.svg",
    summary="The state of a schedule as a small picture",
    response_class=Response,
    responses={200: {"content": {SVG: {}}, "description": "A picture"}},
)
def show_badge(caller: ReadCaller, gateway: Gateway, target: str, name: str) -> Response:
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        return Response(format_badge(record.label, resolve_condition(record, handle.now).state), media_type=SVG)


def format_badge(label: str, state: DisplayState) -> str:
    """Return two boxes: the name, and the state in its colour."""
    left, right = (BADGE_PADDING_PX + BADGE_LETTER_WIDTH_PX * len(each) for each in (label, state))
    colour = _BADGE_COLOURS.get(state, "#6e7781")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(label)}: {state}"><title>{escape(label)}: {state}</title>'
        f'<rect width="{left}" height="20" fill="#424a53"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="monospace" font-size="11" text-anchor="middle">'
        f'<text x="{left // 2}" y="14">{escape(label)}</text>'
        f'<text x="{left + right // 2}" y="14">{state}</text></g></svg>'
    )


router = APIRouter(tags=["events"])


@router.get(
    "/events",
    summary="What happens, as server-sent events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "A stream without an end"}},
)
async def stream_events(
    request: Request,
    caller: ReadCaller,
    types: Annotated[str, Query(max_length=500, description="Names, with *, separated by commas")] = "",
    target: Annotated[str, Query(max_length=200)] = "",
    schedule: Annotated[str, Query(max_length=200, description="TARGET or TARGET/SCHEDULE")] = "",
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", max_length=100)] = "",
) -> Response:
    """Reconnect with `Last-Event-ID` to resume; `resync` means: read everything again."""
    if target:
        caller.require_target(target)
    if schedule:
        caller.require_target_of(schedule)
    words = tuple(each.strip() for each in types.split(",") if each.strip())
    own = caller.actor.target
    wanted = EventFilter(types=words, target=own or target, schedule=schedule, is_limited=bool(own))
    hub: EventHub = request.app.state.event_hub
    is_allowed = partial(get_authenticator(request).is_still_valid, caller) if caller.digest else None
    return LiveStream(hub.listen(wanted, last_event_id, is_allowed), request.app.state.event_streams)
