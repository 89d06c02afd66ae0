"""Targets: agents, endpoints, commands and callables. Only endpoints can be created here."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.bootstrap.remote_specs import build_remote_endpoint, edit_remote_endpoint
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import CreatedVia
from herdbeat.server.auth import Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import LIST_CONTENT, Limit, ListFormat, render_list
from herdbeat.server.routes.actions import (
    IdempotencyKey,
    IfMatch,
    build_config_source,
    build_etag,
    build_location,
    build_request_id,
    deliver_edit,
    require_match,
)
from herdbeat.server.routes.inputs import TargetBody, TargetChangeBody
from herdbeat.service.commands.base import DeleteSchedule, UpsertedSchedule, UpsertSchedule
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.commands.fleet import build_new_target, require_unmanaged
from herdbeat.service.queries.details import find_target
from herdbeat.service.serialize import serialize_result, serialize_target, serialize_target_view

router = APIRouter(prefix="/targets", tags=["targets"])


@router.get("", summary="All targets, by name", responses=LIST_CONTENT)
def list_all(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next_cursor` of the page before")] = None,
    list_format: ListFormat = None,
) -> Response:
    with gateway.open() as handle:
        rows = handle.require_reader().target_page(cursor or "", limit + 1, only=caller.actor.target)
    after = rows[limit - 1].name if len(rows) > limit else None
    return render_list(request, [serialize_target(each) for each in rows[:limit]], after, list_format)


@router.get("/{target}", summary="One target with its schedules")
def show(caller: ReadCaller, gateway: Gateway, target: str) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        view = find_target(handle.require_reader(), target, handle.now)
        return JSONResponse(serialize_target_view(view), headers=build_etag(build_new_target(view.target)))


@router.post("", summary="Create an endpoint, with a schedule if it has a trigger", status_code=201)
def create(
    request: Request, caller: OperateCaller, gateway: Gateway, body: TargetBody, key: IdempotencyKey = ""
) -> JSONResponse:
    caller.require_whole_fleet()
    document = {"name": body.name, "url": body.url, **(body.model_extra or {})}
    target, schedule = build_remote_endpoint(body.name, document, build_config_source(gateway))
    command = UpsertSchedule(
        what=ChangeKind.ADD,
        target=body.name,
        name=None if schedule is None else DEFAULT_SCHEDULE_NAME,
        new_target=target,
        new_schedule=schedule,
        way=CreatedVia.API,
        reason=body.reason,
    )
    delivery = gateway.deliver(caller.actor, command, build_request_id(request, caller, key, body))
    answer = serialize_result(delivery)
    return JSONResponse(answer, status_code=201, headers=build_location(request, f"targets/{body.name}"))


@router.patch("/{target}", summary="Change an endpoint that no file defines")
def change(
    caller: OperateCaller, gateway: Gateway, target: str, body: TargetChangeBody, if_match: IfMatch = None
) -> JSONResponse:
    """Its schedules are changed on their own: PATCH /schedules/{target}/{name}."""
    caller.require_whole_fleet()

    def edit() -> Delivery[UpsertedSchedule]:
        with gateway.open() as handle:
            view = find_target(handle.require_reader(), target, handle.now)
            require_unmanaged(target, view.written_at)
            expected = require_match(if_match, build_new_target(view.target))
        edited = edit_remote_endpoint(view.target, body.model_extra or {}, build_config_source(gateway))
        command = UpsertSchedule(
            what=ChangeKind.EDIT,
            target=target,
            new_target=edited,
            way=CreatedVia.API,
            reason=body.reason,
            expected=expected,
        )
        return gateway.deliver(caller.actor, command)

    return deliver_edit(edit, if_match)


@router.delete("/{target}", summary="Delete a target that no file defines, with its schedules")
def delete(caller: OperateCaller, gateway: Gateway, target: str, if_match: IfMatch = None) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        view = find_target(handle.require_reader(), target, handle.now)
        require_unmanaged(target, view.written_at)
        expected = require_match(if_match, build_new_target(view.target))
    command = DeleteSchedule(target=target, expected=expected if if_match else "")
    delivery = gateway.deliver(caller.actor, command)
    return JSONResponse(serialize_result(delivery))
