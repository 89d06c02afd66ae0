"""Sessions of the planner: what it analysed, what it proposed, and what became of that."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from herdbeat.errors import NotFound
from herdbeat.server.auth import Gateway, ReadCaller
from herdbeat.server.pagination import Limit
from herdbeat.server.routes.inputs import MAX_ROW_ID, RowId
from herdbeat.service.serialize import serialize_planner_session

router = APIRouter(prefix="/planner/sessions", tags=["planner"])


@router.get("", summary="List sessions of the planner, the newest first")
def list_sessions(
    caller: ReadCaller,
    gateway: Gateway,
    group: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int | None, Query(ge=1, le=MAX_ROW_ID, description="Only sessions with a smaller id")] = None,
    limit: Limit = 50,
) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        found = handle.require_reader().planner_sessions(group, before=before, limit=limit)
    return JSONResponse({"items": [serialize_planner_session(each) for each in found]})


@router.get("/{session_id}", summary="Show one session, with every call and every proposal")
def show_session(caller: ReadCaller, gateway: Gateway, session_id: RowId) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        found = handle.require_reader().planner_sessions(session_id=session_id, limit=1)
    if not found:
        raise NotFound(f"There is no session {session_id}.", hint="List them: GET /api/v1/planner/sessions")
    return JSONResponse(serialize_planner_session(found[0]))
