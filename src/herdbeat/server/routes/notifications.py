"""Notifications: open episodes and the messages about them; acknowledge, snooze, test a channel."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from herdbeat.domain.outbox import DeliveryKind
from herdbeat.errors import NotFound
from herdbeat.server.auth import Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import Limit
from herdbeat.server.routes.actions import parse_length
from herdbeat.server.routes.inputs import AckInput, SnoozeBody
from herdbeat.service.commands.base import ChangeEpisodes, SendTestMessage, result_to_json
from herdbeat.service.serialize import serialize_episode, serialize_message

router = APIRouter(prefix="/notifications", tags=["notifications"])


@router.get("", summary="Open episodes, and the last messages with their errors")
def list_notifications(caller: ReadCaller, gateway: Gateway, limit: Limit = 50, past: bool = False) -> JSONResponse:
    """With `past`, episodes that are over are listed, too."""
    caller.require_whole_fleet()
    with gateway.open() as handle:
        reader = handle.require_reader()
        episodes = reader.episodes(only_open=not past, limit=limit)
        messages = reader.deliveries(DeliveryKind.NOTIFICATION, limit=limit)
        return JSONResponse(
            {
                "channels": sorted(handle.fleet.notify or {}),
                "episodes": [serialize_episode(each) for each in episodes],
                "deliveries": [serialize_message(each) for each in messages],
            }
        )


@router.post("/ack", summary="Acknowledge open episodes, or undo it")
def acknowledge(caller: OperateCaller, gateway: Gateway, body: AckInput) -> JSONResponse:
    """Without subjects: all of them. The end of an acknowledged episode is not reported."""
    caller.require_whole_fleet()
    command = ChangeEpisodes(subjects=tuple(body.subjects), clear=body.clear, reason=body.reason)
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, command).result))


@router.post("/snooze", summary="Report open episodes later, if they have not ended by then")
def snooze(caller: OperateCaller, gateway: Gateway, body: SnoozeBody) -> JSONResponse:
    """Without subjects: all of them. What is over by then is not reported."""
    caller.require_whole_fleet()
    until = gateway.handle.now + parse_length(body.for_, "/for")
    command = ChangeEpisodes(subjects=tuple(body.subjects), until=until, reason=body.reason)
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, command).result))


@router.post("/test/{channel}", summary="Send a test message to a channel", status_code=202)
def send_test(caller: OperateCaller, gateway: Gateway, channel: str) -> JSONResponse:
    """The message is in the outbox when this is answered; the list of deliveries shows whether it arrived."""
    caller.require_whole_fleet()
    channels = sorted(gateway.handle.fleet.notify or {})
    if channel not in channels:
        hint = f"Channels under notify: {', '.join(channels) or 'none'}."
        raise NotFound(f'There is no channel "{channel[:100]}".', hint=hint)
    result = gateway.deliver(caller.actor, SendTestMessage(channel=channel)).result
    return JSONResponse(result_to_json(result), status_code=202)
