"""Beats: every due instant and its outcome."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import parse_short_id
from herdbeat.domain.run import RunStatus
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.server.auth import Gateway, ReadCaller
from herdbeat.server.pagination import LIST_CONTENT, CountRows, Cursor, Limit, ListFormat, parse_cursor, render_rows
from herdbeat.server.routes.fleet import Since
from herdbeat.service.queries.details import find_details
from herdbeat.service.queries.selectors import count_beats, find_beats, split_selector
from herdbeat.service.serialize import serialize_beat, serialize_details

router = APIRouter(tags=["beats"])

ScheduleFilter = Annotated[str | None, Query(max_length=200, description="TARGET or TARGET/SCHEDULE")]


@router.get("/beats", summary="Due instants and their outcomes, newest first", responses=LIST_CONTENT)
def list_beats(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    schedule: ScheduleFilter = None,
    outcome: BeatOutcome | None = None,
    result: RunStatus | None = None,
    since: Since = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    list_format: ListFormat = None,
    count: CountRows = None,
) -> Response:
    if caller.actor.target and schedule is not None:
        caller.require_target(split_selector(schedule)[0])
    selector = schedule or caller.actor.target or None
    with gateway.open() as handle:
        reader = handle.require_reader()
        rows = find_beats(
            reader,
            selector,
            outcome,
            result,
            since=since,
            before=parse_cursor(cursor),
            limit=limit + 1,
        )
        total = count_beats(reader, selector, outcome, result, since=since) if count else None
    return render_rows(request, rows, limit, serialize_beat, list_format, total)


@router.get("/beats/{beat_id}", summary="One beat with its runs")
def show_beat(caller: ReadCaller, gateway: Gateway, beat_id: str) -> JSONResponse:
    number = parse_short_id(beat_id)
    with gateway.open() as handle:
        reader = handle.require_reader()
        found = None if number is None or number >= 1 << 62 else reader.beat(number)
        if found is None:
            hint = "List beats: GET /api/v1/beats"
            raise NotFound(f'There is no beat "{truncate_for_message(beat_id)}".', hint=hint)
        caller.require_target(split_selector(found.schedule)[0])
        return JSONResponse(serialize_details(find_details(reader, f"beat:{beat_id}", handle.now)))
