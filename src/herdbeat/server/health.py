"""Health: `/healthz` says whether the scheduler's loop moves, `/readyz` whether this server can answer."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from herdbeat.errors import HerdbeatError
from herdbeat.server.auth import Gateway
from herdbeat.service.queries.health import read_health

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the scheduler runs and keeps up", responses={503: {"description": "No"}})
def show_health(gateway: Gateway) -> JSONResponse:
    """200 while a node answers and its loop moves; 503 with the reason otherwise. It says nothing about the fleet."""
    try:
        with gateway.open() as handle:
            health = read_health(handle.require_reader(), handle.now, is_running=handle.is_running)
    except HerdbeatError as error:
        return JSONResponse({"ok": False, "reason": error.code}, status_code=503)
    return JSONResponse({"ok": health.ok, "reason": health.reason}, status_code=200 if health.ok else 503)


@router.get("/readyz", summary="Whether the server can read the ledger", responses={503: {"description": "No"}})
def show_readiness(gateway: Gateway) -> JSONResponse:
    try:
        with gateway.open() as handle:
            handle.require_reader().count_all_schedules()
    except HerdbeatError as error:
        return JSONResponse({"ok": False, "reason": error.code}, status_code=503)
    return JSONResponse({"ok": True, "reason": ""})
