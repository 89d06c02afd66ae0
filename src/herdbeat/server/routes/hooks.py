"""Webhooks: the calls themselves, and the list of those that were refused."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.server.auth import ReadCaller
from herdbeat.server.webhooks.receiver import HookReceiver

router = APIRouter(tags=["webhooks"])
calls = APIRouter(tags=["webhooks"])

_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"description": "A duplicate, a filtered call, a ping or a challenge: there is no new beat"},
    202: {"description": "The beat is recorded, and survives a restart"},
}


@calls.post("/hooks/{target}/{schedule}", summary="Call a webhook schedule", status_code=202, responses=_ANSWERS)
async def receive_call(request: Request, target: str, schedule: str) -> Response:
    """The body is what the sender signs. 202 means that the beat is durable."""
    return await _receiver(request).receive(request, target, schedule)


@calls.post("/webhooks/{hook}", summary="Call a webhook schedule by agentd's id", status_code=202, responses=_ANSWERS)
async def receive_by_id(request: Request, hook: str) -> Response:
    """`hook` is the id of a workflow, or the name of a schedule if only one has it."""
    return await _receiver(request).receive(request, "", hook)


@router.get("/refused-calls", summary="Webhook calls that were refused, newest first")
async def list_refused_calls(
    request: Request, caller: ReadCaller, schedule: Annotated[str | None, Query(max_length=200)] = None
) -> JSONResponse:
    """Time, caller, size and reason, never the body: the newest 50 of each schedule, and 500 in all."""
    caller.require_whole_fleet()
    return JSONResponse(_receiver(request).refused_json(schedule))


def _receiver(request: Request) -> HookReceiver:
    found = request.app.state.hook_receiver
    assert isinstance(found, HookReceiver)
    return found
