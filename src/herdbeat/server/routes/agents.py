"""Agents: where they need a person, their sessions, accounts at their limit, work items; sessions of the planner."""

import os
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from herdbeat.errors import NotFound
from herdbeat.server.auth import Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import Limit
from herdbeat.server.routes.fleet import Selector
from herdbeat.server.routes.inputs import MAX_ROW_ID, AttentionBody, ReasonInput, ReleaseBody, RowId
from herdbeat.service.commands.base import AckRuns, ReleaseAccount, ReleaseWork, result_to_json
from herdbeat.service.queries.agents import find_attention, read_sessions, select_marked_runs
from herdbeat.service.queries.work import find_work_claim, list_work_items
from herdbeat.service.serialize import (
    serialize_account_hold,
    serialize_attention,
    serialize_planner_session,
    serialize_result,
    serialize_sessions,
    serialize_work,
)

router = APIRouter(tags=["agents"])


@router.get("/attention", summary="Runs that need a person, newest first")
def list_attention(caller: ReadCaller, gateway: Gateway, selector: Selector = None) -> JSONResponse:
    with gateway.open() as handle:
        marks = find_attention(handle.require_reader(), caller.actor.target or selector)
        return JSONResponse({"items": [serialize_attention(each) for each in marks]})


@router.post("/attention/ack", summary="Acknowledge runs that needed a person")
def acknowledge_many(caller: OperateCaller, gateway: Gateway, body: AttentionBody) -> JSONResponse:
    """Name runs, a selector, or `all`."""
    caller.require_whole_fleet()
    names = [*body.runs, *([body.selector] if body.selector else [])]
    with gateway.open() as handle:
        runs = select_marked_runs(handle.require_reader(), names, everything=body.all)
    delivery = gateway.deliver(caller.actor, AckRuns(runs=runs, reason=body.reason))
    return JSONResponse(serialize_result(delivery))


@router.get("/sessions", summary="Conversations that later runs can continue, last used first")
def list_sessions(caller: ReadCaller, gateway: Gateway, selector: Selector = None, limit: Limit = 50) -> JSONResponse:
    with gateway.open() as handle:
        subject = caller.actor.target or selector
        sessions = read_sessions(
            handle.require_reader(), subject, limit, state_dir=handle.state_dir, environ=os.environ
        )
        return JSONResponse(serialize_sessions(sessions))


@router.get("/accounts", summary="Accounts that are held at their usage limit")
def list_accounts(caller: ReadCaller, gateway: Gateway) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        holds = handle.require_reader().holds(handle.now)
        return JSONResponse({"items": [serialize_account_hold(each) for each in holds]})


@router.post("/accounts/{account}/release", summary="Start what waits for the usage limit of an account")
def release_account(caller: OperateCaller, gateway: Gateway, account: str, body: ReasonInput) -> JSONResponse:
    caller.require_whole_fleet()
    delivery = gateway.deliver(caller.actor, ReleaseAccount(account=account, reason=body.reason))
    return JSONResponse(serialize_result(delivery))


@router.get("/work", summary="Work items: in progress, not reported, blocked")
def list_work(
    caller: ReadCaller,
    gateway: Gateway,
    target: Annotated[str | None, Query(max_length=200)] = None,
    include_ended: Annotated[bool, Query(alias="all", description="Also what is reported or released")] = False,
    limit: Limit = 50,
) -> JSONResponse:
    with gateway.open() as handle:
        wanted = caller.actor.target or target
        items = list_work_items(
            handle.require_reader(),
            handle.now,
            wanted,
            only_open=not include_ended,
            limit=limit,
            is_shared=handle.is_shared,
        )
        return JSONResponse(serialize_work(items))


@router.post("/work/release", summary="Offer work items again")
def release_work(caller: OperateCaller, gateway: Gateway, body: ReleaseBody) -> JSONResponse:
    """Each item says whether it is offered again, or what is in the way."""
    caller.require_whole_fleet()
    with gateway.open() as handle:
        reader = handle.require_reader()
        claims = tuple(dict.fromkeys(find_work_claim(reader, each).claim.id for each in body.items))
    delivery = gateway.deliver(caller.actor, ReleaseWork(claims=claims, reason=body.reason))
    return JSONResponse(result_to_json(delivery.result))


planner_router = APIRouter(prefix="/planner/sessions", tags=["planner"])


@planner_router.get("", summary="List sessions of the planner, the newest first")
def list_planner_sessions(
    caller: ReadCaller,
    gateway: Gateway,
    group: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int | None, Query(ge=1, le=MAX_ROW_ID, description="Only sessions with a smaller id")] = None,
    limit: Limit = 50,
) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        found = handle.require_reader().planner_sessions(group, before=before, limit=limit)
    return JSONResponse({"items": [serialize_planner_session(each) for each in found]})


@planner_router.get("/{session_id}", summary="Show one session, with every call and every proposal")
def show_planner_session(caller: ReadCaller, gateway: Gateway, session_id: RowId) -> JSONResponse:
    caller.require_whole_fleet()
    with gateway.open() as handle:
        found = handle.require_reader().planner_sessions(session_id=session_id, limit=1)
    if not found:
        raise NotFound(f"There is no session {session_id}.", hint="List them: GET /api/v1/planner/sessions")
    return JSONResponse(serialize_planner_session(found[0]))
