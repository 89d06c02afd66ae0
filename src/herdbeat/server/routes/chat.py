"""Slack's Events API and Discord's interactions: signed requests that carry a message for an agent."""

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from herdbeat.domain.chat import ChatPlatform
from herdbeat.error_codes import Code
from herdbeat.server.auth import Gateway
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import build_problem
from herdbeat.service.chat.calls import ChatCall, answer_discord, answer_slack
from herdbeat.service.chat.desk import CHAT_ACTOR, chat_request_id, find_connectors
from herdbeat.service.commands.base import ChatReceipt, ReceiveChat

calls = APIRouter(tags=["chat"])

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_S = 30.0
_ANSWERS: dict[int | str, dict[str, object]] = {200: {"description": "The message is recorded, or nobody hears it"}}


@calls.post("/chat/slack/{target}", summary="Events of Slack for an agent", responses=_ANSWERS)
async def receive_slack(request: Request, gateway: Gateway, target: str) -> Response:
    """Signed with the secret in `signing_secret_env`. A repetition is answered like the first delivery."""

    def answer(call: ChatCall) -> Response | None:
        connectors = find_connectors(_load(gateway, target), ChatPlatform.SLACK)
        found = answer_slack(call, connectors, gateway.environ, _sender(gateway))
        if isinstance(found, str):
            return PlainTextResponse(found)
        return None if found is None else JSONResponse(dict(found))

    return await _answer(request, gateway, answer)


@calls.post("/chat/discord/{target}", summary="Interactions of Discord for an agent", responses=_ANSWERS)
async def receive_discord(request: Request, gateway: Gateway, target: str) -> Response:
    """Signed with the key whose public half is `public_key`."""

    def answer(call: ChatCall) -> Response | None:
        connectors = find_connectors(_load(gateway, target), ChatPlatform.DISCORD)
        found = answer_discord(call, connectors, _sender(gateway))
        return None if found is None else JSONResponse(dict(found))

    return await _answer(request, gateway, answer)


async def _answer(request: Request, gateway: FleetGateway, answer: Callable[[ChatCall], Response | None]) -> Response:
    body = await _read_body(request)
    if body is None:
        return build_problem(request, 413, Code.TOO_LARGE, "The body is too large.")
    headers = {name.lower(): value for name, value in request.headers.items()}
    call = ChatCall(body=body, headers=headers, received_at=gateway.handle.now)
    found = await asyncio.to_thread(answer, call)
    return found or build_problem(request, 401, Code.UNAUTHENTICATED, "The call is not accepted.")


def _load(gateway: FleetGateway, target: str) -> list:  # type: ignore[type-arg]
    with gateway.open() as handle:
        reader = handle.require_reader()
        known = reader.find_target(target[:200])
        return [] if known is None else list(reader.targets([known[0]]).values())


def _sender(gateway: FleetGateway) -> Callable[[ReceiveChat], ChatReceipt]:
    def send(command: ReceiveChat) -> ChatReceipt:
        return gateway.deliver(CHAT_ACTOR, command, request_id=chat_request_id(command)).result

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
