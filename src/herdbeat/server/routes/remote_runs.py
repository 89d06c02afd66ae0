"""For `herdbeat exec` alone: take a run that was submitted to an engine, and report for it.

No other credential is accepted here, not even that of an administrator, and these are accepted nowhere else.
"""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from herdbeat.bootstrap.server_spec import read_environment
from herdbeat.domain.codec import to_json
from herdbeat.domain.token import TAKE_TOKEN_PREFIX
from herdbeat.error_codes import Code
from herdbeat.errors import Conflict
from herdbeat.server.auth import Authenticator, Gateway, get_authenticator, read_bearer
from herdbeat.server.problems import HttpError
from herdbeat.server.routes.inputs import ReportBody, RowId, TakeBody
from herdbeat.service.commands.base import Actor, ReportRemoteRun, Scope, TakeRemoteRun
from herdbeat.service.commands.remote_runs import is_exec_secret, select_environment, select_variables
from herdbeat.service.commands.tokens import hash_token

router = APIRouter(prefix="/api/v1/exec", include_in_schema=False)


@router.post("/{run}/take")
def take(request: Request, gateway: Gateway, run: RowId, body: TakeBody) -> JSONResponse:
    text = _require_bearer(request)
    authenticator = get_authenticator(request)
    executor, digest = "", ""
    if text.startswith(TAKE_TOKEN_PREFIX):
        digest = hash_token(text)
    else:
        executor = _find_executor(authenticator, request, text)
    command = TakeRemoteRun(run=run, nonce=body.nonce, place=body.place, executor=executor, digest=digest)
    taken = gateway.deliver(_build_actor(run), command).result
    if taken.refused:
        if digest:
            authenticator.failed_logins.add(authenticator.find_client_address(request))
        raise Conflict(taken.refused, hint="Exit without starting anything.")
    environ = read_environment(gateway.spec.home, gateway.environ)
    return JSONResponse(
        {
            "data": taken.data,
            "variables": select_variables(taken.data, environ, gateway.handle.now),
            "secret": taken.secret,
            "run_token": taken.run_token,
            "note": taken.note,
            "environment": select_environment(taken.data, environ),
        }
    )


@router.post("/{run}/report")
def report(request: Request, gateway: Gateway, run: RowId, body: ReportBody) -> JSONResponse:
    text, authenticator = _require_bearer(request), get_authenticator(request)
    with gateway.open() as handle:
        reader = handle.require_reader()
        key, agent_report = reader.run_key(), reader.run_report(run) if body.wants_told else None
    if not is_exec_secret(key, run, body.nonce, text):
        authenticator.failed_logins.add(authenticator.find_client_address(request))
        raise _unknown_token_error()
    command = ReportRemoteRun(run=run, nonce=body.nonce, sequence=body.sequence, log=body.log, result=body.result)
    receipt = gateway.deliver(_build_actor(run), command).result
    return JSONResponse({"stop": receipt.stop, "is_over": receipt.is_over, "told": to_json(agent_report)})


def _build_actor(run: int) -> Actor:
    return Actor(name=f"exec:{run}", scopes=frozenset({Scope.EXEC}), is_remote=True)


def _require_bearer(request: Request) -> str:
    """Return the token of the request. Raises HttpError 401 without one."""
    text = read_bearer(request)
    if not text:
        raise _unknown_token_error()
    return text


def _find_executor(authenticator: Authenticator, request: Request, text: str) -> str:
    """Return the engine whose machines have this token. Raises HttpError 401, Forbidden."""
    caller = authenticator.login(request, text)
    caller.require(Scope.EXEC)
    return caller.actor.target


def _unknown_token_error() -> HttpError:
    return HttpError(
        401,
        Code.UNAUTHENTICATED,
        "The token is unknown, expired or revoked.",
        headers={"WWW-Authenticate": 'Bearer realm="herdbeat"'},
    )
