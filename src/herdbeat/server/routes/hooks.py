"""Incoming calls: webhooks, the list of those that were refused, and the signed requests of Slack and Discord."""

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from herdbeat.domain.chat import ChatPlatform
from herdbeat.domain.target import Target
from herdbeat.error_codes import Code
from herdbeat.server.auth import Gateway, ReadCaller
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import build_problem
from herdbeat.server.webhooks.receiver import HookReceiver
from herdbeat.service.chat.routing import (
    CHAT_ACTOR,
    ChatCall,
    answer_discord,
    answer_slack,
    build_chat_request_id,
    find_connectors,
)
from herdbeat.service.commands.base import ChatReceipt, ReceiveChat
from herdbeat.service.webhooks.refused_calls import serialize_refused_call
from herdbeat.threads import call_in_thread

router = APIRouter(tags=["webhooks"])
call_router = APIRouter(tags=["webhooks"])

_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"description": "A duplicate, a filtered call, a ping or a challenge: there is no new beat"},
    202: {"description": "The beat is recorded, and survives a restart"},
}


@call_router.post("/hooks/{target}/{schedule}", summary="Call a webhook schedule", status_code=202, responses=_ANSWERS)
async def receive_call(request: Request, target: str, schedule: str) -> Response:
    """The body is what the sender signs. 202 means that the beat is durable."""
    return await _get_receiver(request).receive(request, target, schedule)


@call_router.post(
    "/webhooks/{hook}", summary="Call a webhook schedule by agentd's id", status_code=202, responses=_ANSWERS
)
async def receive_by_id(request: Request, hook: str) -> Response:
    """`hook` is the id of a workflow, or the name of a schedule if only one has it."""
    return await _get_receiver(request).receive(request, "", hook)


@router.get("/refused-calls", summary="Webhook calls that were refused, newest first")
def list_refused_calls(
    request: Request, caller: ReadCaller, schedule: Annotated[str | None, Query(max_length=200)] = None
) -> JSONResponse:
    """Time, caller, size and reason, never the body: the newest 50 of each schedule, and 500 in all."""
    caller.require_whole_fleet()
    calls = _get_receiver(request).list_refused(schedule)
    return JSONResponse({"items": [serialize_refused_call(each) for each in calls]})


def _get_receiver(request: Request) -> HookReceiver:
    found = request.app.state.hook_receiver
    assert isinstance(found, HookReceiver)
    return found


chat_router = APIRouter(tags=["chat"])

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_S = 30.0
_CHAT_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"description": "The message is recorded, or it is for no agent"}
}


@chat_router.post("/chat/slack/{target}", summary="Events of Slack for an agent", responses=_CHAT_ANSWERS)
async def receive_slack(request: Request, gateway: Gateway, target: str) -> Response:
    """Signed with the secret in `signing_secret_env`. A repetition is answered like the first delivery."""

    def answer(call: ChatCall) -> Response | None:
        connectors = find_connectors(_load_targets(gateway, target), ChatPlatform.SLACK)
        found = answer_slack(call, connectors, gateway.environ, _build_sender(gateway))
        if isinstance(found, str):
            return PlainTextResponse(found)
        return None if found is None else JSONResponse(dict(found))

    return await _answer_chat_call(request, gateway, answer)


@chat_router.post("/chat/discord/{target}", summary="Interactions of Discord for an agent", responses=_CHAT_ANSWERS)
async def receive_discord(request: Request, gateway: Gateway, target: str) -> Response:
    """Signed with the key whose public half is `public_key`."""

    def answer(call: ChatCall) -> Response | None:
        connectors = find_connectors(_load_targets(gateway, target), ChatPlatform.DISCORD)
        found = answer_discord(call, connectors, _build_sender(gateway))
        return None if found is None else JSONResponse(dict(found))

    return await _answer_chat_call(request, gateway, answer)


async def _answer_chat_call(
    request: Request, gateway: FleetGateway, answer: Callable[[ChatCall], Response | None]
) -> Response:
    body = await _read_body(request)
    if body is None:
        return build_problem(request, 413, Code.TOO_LARGE, "The body is too large.")
    headers = {name.lower(): value for name, value in request.headers.items()}
    call = ChatCall(body=body, headers=headers, received_at=gateway.handle.now)
    found = await call_in_thread(answer, call)
    return found or build_problem(request, 401, Code.UNAUTHENTICATED, "The call is not accepted.")


def _load_targets(gateway: FleetGateway, target: str) -> list[Target]:
    with gateway.open() as handle:
        reader = handle.require_reader()
        known = reader.find_target(target[:200])
        return [] if known is None else list(reader.targets([known[0]]).values())


def _build_sender(gateway: FleetGateway) -> Callable[[ReceiveChat], ChatReceipt]:
    def send(command: ReceiveChat) -> ChatReceipt:
        return gateway.deliver(CHAT_ACTOR, command, request_id=build_chat_request_id(command)).result

    return send


async def _read_body(request: Request) -> bytes | None:
    """Return the very bytes that were signed; None if there are too many, or they do not come."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY_BYTES:
                    return None
                parts.append(part)
    except TimeoutError:
        return None
    return b"".join(parts)
