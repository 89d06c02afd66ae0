"""Sessions and tokens: log in with a token or a one-time link, log out; list, create and revoke tokens.

The text of a token is in the answer of its creation and nowhere else.
"""

import hmac
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from herdbeat.error_codes import Code
from herdbeat.server.auth import COOKIE_NAME, AdminCaller, Gateway, ReadCaller, get_authenticator
from herdbeat.server.pagination import Limit
from herdbeat.server.problems import HttpError
from herdbeat.server.routes.actions import parse_length
from herdbeat.server.routes.inputs import LoginBody, TokenBody
from herdbeat.service.commands.base import Actor, CreateToken, RevokeToken, result_to_json
from herdbeat.service.commands.tokens import mint_token
from herdbeat.service.serialize import serialize_token

router = APIRouter(tags=["session"])
page_router = APIRouter(include_in_schema=False)

LINK_SESSION_AGE = timedelta(days=30)


@router.get("/session", summary="Who is asking, what they may do, and the CSRF token for changes")
def show_session(request: Request, caller: ReadCaller) -> JSONResponse:
    actor = caller.actor
    return JSONResponse(
        {
            "name": actor.name,
            "scopes": sorted(actor.scopes),
            "target": actor.target or None,
            "credential": caller.kind,
            "csrf_token": get_authenticator(request).build_csrf_token(caller) if caller.is_csrf_protected else None,
        }
    )


@router.post("/session", summary="Log in: exchange a token for a cookie", status_code=204)
def log_in(request: Request, body: LoginBody) -> Response:
    authenticator = get_authenticator(request)
    authenticator.require_no_foreign_page(request)
    authenticator.login(request, body.token)
    answer = Response(status_code=204)
    set_session_cookie(request, answer, body.token)
    return answer


@router.delete("/session", summary="Log out", status_code=204)
def log_out(request: Request, caller: ReadCaller) -> Response:  # noqa: ARG001 -- same-origin is checked with it
    answer = Response(status_code=204)
    base_path = get_authenticator(request).settings.base_path
    answer.delete_cookie(COOKIE_NAME, path=base_path or "/", httponly=True, samesite="strict")
    return answer


@page_router.get("/login")
def use_login_link(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The link that `up` prints: it works once, and opens a session with a token of its own, which can be revoked."""
    authenticator = get_authenticator(request)
    if not code:  # the address was typed: the first page asks visitors without a session to sign in
        return RedirectResponse(f"{authenticator.settings.base_path}/", status_code=303)
    expected = request.app.state.login_code
    if not expected or not hmac.compare_digest(code.encode(), expected.encode()):
        authenticator.failed_logins.add(authenticator.find_client_address(request))
        hint = "Restart herdbeat for a new link, or log in with a token: herdbeat token create"
        raise HttpError(401, Code.UNAUTHENTICATED, "This login link is wrong or was used before.", hint=hint)
    request.app.state.login_code = ""
    minted, gateway = mint_token(), authenticator.gateway
    command = CreateToken(
        name=f"browser-{minted.digest[:8]}",
        grants="admin",
        digest=minted.digest,
        expires_at=gateway.handle.now + LINK_SESSION_AGE,
        reason="login link",
    )
    gateway.deliver(Actor(name="human:local"), command)
    answer = RedirectResponse(f"{authenticator.settings.base_path}/", status_code=303)
    set_session_cookie(request, answer, minted.text)
    return answer


def set_session_cookie(request: Request, answer: Response, token: str) -> None:
    settings = get_authenticator(request).settings
    is_https = bool(settings.tls_cert) or settings.public_url.startswith("https:")
    answer.set_cookie(
        COOKIE_NAME, token, path=settings.base_path or "/", httponly=True, samesite="strict", secure=is_https
    )


token_router = APIRouter(prefix="/tokens", tags=["tokens"])


@token_router.get("", summary="All tokens, newest first, without their texts")
def list_tokens(caller: AdminCaller, gateway: Gateway, limit: Limit = 50) -> JSONResponse:  # noqa: ARG001
    with gateway.open() as handle:
        found = handle.require_reader().tokens(limit)
        return JSONResponse({"items": [serialize_token(each, handle.now) for each in found]})


@token_router.post("", summary="Create a token", status_code=201)
def create_token(caller: AdminCaller, gateway: Gateway, body: TokenBody) -> JSONResponse:
    minted = mint_token()
    expires_at = None if body.expires is None else gateway.handle.now + parse_length(body.expires, "/expires")
    command = CreateToken(
        name=body.name, grants=body.scope, digest=minted.digest, expires_at=expires_at, reason=body.reason
    )
    created = gateway.deliver(caller.actor, command).result
    return JSONResponse({**result_to_json(created), "token": minted.text}, status_code=201)


@token_router.delete("/{name}", summary="Revoke a token, with the sessions that were opened with it")
def revoke_token(caller: AdminCaller, gateway: Gateway, name: str) -> JSONResponse:
    return JSONResponse(result_to_json(gateway.deliver(caller.actor, RevokeToken(name=name)).result))
