"""Planned pauses: list, plan, cancel."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from herdbeat.errors import UsageError
from herdbeat.server.auth import Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import Limit
from herdbeat.server.routes.actions import parse_length
from herdbeat.server.routes.bulk import build_selection
from herdbeat.server.routes.inputs import PlanPauseBody, RowId
from herdbeat.service.commands.base import CancelPause, PlanPause, result_to_json
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.service.serialize import serialize_planned_pause

router = APIRouter(prefix="/pauses", tags=["pauses"])


@router.get("", summary="Planned pauses: the current and coming ones")
def list_pauses(
    caller: ReadCaller,
    gateway: Gateway,
    limit: Limit = 50,
    past: Annotated[bool, Query(description="Include those that are over")] = False,
) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        planned = handle.require_reader().planned_pauses(handle.now, include_past=past, limit=limit)
        return JSONResponse({"items": [serialize_planned_pause(each, handle.now) for each in planned]})


@router.post("", summary="Plan a pause of the selected schedules", status_code=201)
def plan(caller: OperateCaller, gateway: Gateway, body: PlanPauseBody) -> JSONResponse:
    """The selection is resolved again when schedules are added or edited."""
    caller.require_whole_fleet()
    selection = build_selection(body.select)
    with gateway.open() as handle:
        select_schedules(handle.require_reader(), selection)  # raises NotFound for a name that nothing has
    from_at = body.from_.astimezone(UTC)
    command = PlanPause(
        from_at=from_at,
        until=_find_end(body, from_at),
        names=selection.names,
        tags=selection.tags,
        groups=selection.groups,
        everything=selection.everything,
        reason=body.reason,
    )
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, command).result), status_code=201)


@router.delete("/{pause}", summary="Cancel a planned pause, or end it now")
def cancel(caller: OperateCaller, gateway: Gateway, pause: RowId) -> JSONResponse:
    caller.require_whole_fleet()
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, CancelPause(pause=pause)).result))


def _find_end(body: PlanPauseBody, from_at: datetime) -> datetime:
    if (body.until is None) == (body.for_ is None):
        raise UsageError("A planned pause needs an end.", hint='Send "until" with a time, or "for": "2h".')
    if body.for_ is None:
        return body.until.astimezone(UTC)  # type: ignore[union-attr]
    try:
        return from_at + parse_length(body.for_, "/for")
    except OverflowError as error:
        raise UsageError("The pause would end after the year 9999.", hint="Send an earlier time.") from error
