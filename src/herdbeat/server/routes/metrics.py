"""`/metrics` for Prometheus: gathered when it is asked for."""

import time

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from herdbeat.errors import HerdbeatError
from herdbeat.server.auth import Gateway, ReadCaller
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.metrics import CONTENT_TYPE, FleetGauges, format_metrics

router = APIRouter(tags=["health"])


@router.get("/metrics", summary="Metrics in the text format of Prometheus", response_class=PlainTextResponse)
def show_metrics(caller: ReadCaller, gateway: Gateway) -> PlainTextResponse:
    """Counters are those of each node and begin at 0 when it starts; gauges come from the ledger."""
    caller.require_whole_fleet()
    return PlainTextResponse(
        format_metrics(_read_gauges(gateway), gateway.handle.node_counters()), media_type=CONTENT_TYPE
    )


def _read_gauges(gateway: FleetGateway) -> FleetGauges | None:
    try:
        with gateway.open() as handle:
            reader, began = handle.require_reader(), time.perf_counter()
            schedules, paused, quarantined, pending, running, hints = reader.fleet_gauges(handle.now)
            return FleetGauges(
                at=handle.now,
                schedules=schedules,
                paused=paused,
                quarantined=quarantined,
                pending=pending,
                running=running,
                hints=hints,
                holds=len(reader.holds(handle.now)),
                nodes=len(handle.live_nodes) if handle.is_shared else int(handle.is_running),
                read_s=round(time.perf_counter() - began, 6),
            )
    except HerdbeatError:
        return None
