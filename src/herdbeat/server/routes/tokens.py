"""Tokens: list, create, revoke. The text of a token is in the answer of its creation and nowhere else."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from herdbeat.durations import parse_duration
from herdbeat.server.auth import AdminCaller, Gateway
from herdbeat.server.pagination import Limit
from herdbeat.server.routes.inputs import TokenBody
from herdbeat.service.commands.base import CreateToken, RevokeToken, result_to_json
from herdbeat.service.commands.tokens import mint_token
from herdbeat.service.serialize import serialize_token

router = APIRouter(prefix="/tokens", tags=["tokens"])


@router.get("", summary="All tokens, newest first, without their texts")
def list_all(caller: AdminCaller, gateway: Gateway, limit: Limit = 50) -> JSONResponse:  # noqa: ARG001
    with gateway.open() as handle:
        tokens = handle.require_reader().tokens(limit)
        return JSONResponse({"items": [serialize_token(each, handle.now) for each in tokens]})


@router.post("", summary="Create a token", status_code=201)
def create(caller: AdminCaller, gateway: Gateway, body: TokenBody) -> JSONResponse:
    minted = mint_token()
    expires_at = None if body.expires is None else gateway.handle.now + parse_duration(body.expires)
    command = CreateToken(
        name=body.name, grants=body.scope, digest=minted.digest, expires_at=expires_at, reason=body.reason
    )
    created = gateway.deliver(caller.actor, command).result
    return JSONResponse({**result_to_json(created), "token": minted.text}, status_code=201)


@router.delete("/{name}", summary="Revoke a token, with the sessions that were opened with it")
def revoke(caller: AdminCaller, gateway: Gateway, name: str) -> JSONResponse:
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, RevokeToken(name=name)).result))
