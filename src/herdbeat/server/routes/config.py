"""Configuration: what applying the fleet's own files would change, and the apply. No request carries configuration."""

import hashlib
import json
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse

from herdbeat.error_codes import Code
from herdbeat.server.auth import AdminCaller, Gateway
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import HttpError
from herdbeat.server.routes.inputs import ReasonBody
from herdbeat.service.commands.base import ApplyFleet
from herdbeat.service.commands.fleet import preview_apply, serialize_plan
from herdbeat.service.serialize import JsonObject, serialize_config

router = APIRouter(prefix="/config", tags=["config"])


@router.get("", summary="The values in force, each with the line of the file that sets it")
def show_config(caller: AdminCaller, gateway: Gateway) -> JSONResponse:  # noqa: ARG001 -- checked by its type
    """What `herdbeat config show --json` prints: secrets are hidden."""
    return JSONResponse(serialize_config(gateway.read_config_values()))


@router.post("/plan", summary="What applying the fleet's own files would change")
def plan(caller: AdminCaller, gateway: Gateway) -> JSONResponse:  # noqa: ARG001 -- checked by its type
    found = _read_plan(gateway)
    return JSONResponse({**found, "applied": False}, headers={"ETag": _etag(found)})


@router.post("/apply", summary="Apply the fleet's own files, as the plan has shown them")
def apply(
    caller: AdminCaller, gateway: Gateway, body: ReasonBody, if_match: Annotated[str, Header(alias="If-Match")]
) -> JSONResponse:
    """`If-Match` is the ETag of the plan: files that were edited since are not applied unseen."""
    found = _read_plan(gateway)
    if if_match.strip() not in ("*", _etag(found)):
        raise HttpError(412, Code.STALE_VERSION, "The files or the fleet have changed since the plan.")
    delivery = gateway.deliver(caller.actor, ApplyFleet(path=gateway.spec.config, reason=body.reason))
    return JSONResponse({**found, "applied": True, "served": delivery.has_live_node})


def _read_plan(gateway: FleetGateway) -> JsonObject:
    handle, loaded = gateway.handle, gateway.load_own_fleet()
    return serialize_plan(preview_apply(handle.path, loaded.fleet, handle.now))


def _etag(plan: JsonObject) -> str:
    """The plan without its times, which move while somebody reads it."""
    changes = plan["items"]
    assert isinstance(changes, list)
    stable = [{key: each[key] for key in ("what", "subject", "before", "after") if key in each} for each in changes]
    return f'"{hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:20]}"'
