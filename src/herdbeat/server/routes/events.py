"""Live events, as a tail of the ledger."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from herdbeat.server.auth import ReadCaller, get_authenticator
from herdbeat.server.sse import EventFilter, EventHub, EventStream

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
    schedule: Annotated[str, Query(max_length=200, description="TARGET/SCHEDULE")] = "",
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", max_length=100)] = "",
) -> Response:
    """Reconnect with `Last-Event-ID` to go on where one stopped; `resync` means: read everything again."""
    if caller.actor.target and target:
        caller.require_target(target)
    words = tuple(each.strip() for each in types.split(",") if each.strip())
    own = caller.actor.target
    wanted = EventFilter(types=words, target=own or target, schedule=schedule, is_limited=bool(own))
    hub: EventHub = request.app.state.event_hub
    is_allowed = partial(get_authenticator(request).recheck, caller)
    return EventStream(hub.listen(wanted, last_event_id, is_allowed))
