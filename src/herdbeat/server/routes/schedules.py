"""Schedules: list, show, create, change, delete; next runs, explanation, statistics, hints; and every action on one."""

import json
from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import build_remote_schedule, edit_remote_schedule
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import CreatedVia, TargetKind
from herdbeat.errors import Conflict, UsageError
from herdbeat.server.auth import Gateway, OperateCaller, ReadCaller
from herdbeat.server.pagination import LIST_CONTENT, CountRows, Cursor, Limit, ListFormat, parse_cursor, render_list
from herdbeat.server.routes.actions import (
    ENDED_HINT_MAX_AGE,
    IdempotencyKey,
    IfMatch,
    build_config_source,
    build_etag,
    build_hint,
    build_location,
    build_pause,
    build_request_id,
    deliver_change,
    deliver_edit,
    find_record,
    require_match,
    wait_for_run,
)
from herdbeat.server.routes.inputs import (
    BackfillBody,
    HintBody,
    HoldInput,
    PauseInput,
    ReasonInput,
    RowId,
    RunInput,
    ScheduleBody,
    ScheduleChangeBody,
    SkipInput,
    UtcTime,
)
from herdbeat.service.commands.base import (
    BackfillSchedule,
    ClearHints,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    NewSchedule,
    ResetSchedules,
    ResumeSchedules,
    SkipBeats,
    TriggerSchedule,
    UpsertedSchedule,
    UpsertSchedule,
    result_to_json,
)
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.commands.fleet import require_unmanaged
from herdbeat.service.commands.runs import BackfillWindow, clip_to_past, plan_backfill
from herdbeat.service.queries.details import find_details, find_target
from herdbeat.service.queries.explain import (
    load_future_explanation,
    load_instant_explanation,
    load_next_explanation,
)
from herdbeat.service.queries.hints import classify_hints
from herdbeat.service.queries.schedule_search import ScheduleFilters, ScheduleSort, count_found, list_found
from herdbeat.service.queries.schedule_state import DisplayState
from herdbeat.service.queries.selectors import split_selector
from herdbeat.service.queries.stats import read_stats
from herdbeat.service.queries.upcoming import load_upcoming
from herdbeat.service.serialize import (
    serialize_details,
    serialize_explanation,
    serialize_hint,
    serialize_result,
    serialize_stats,
    serialize_summary,
    serialize_upcoming,
)
from herdbeat.timestamps import format_timestamp

router = APIRouter(prefix="/schedules", tags=["schedules"])

ValueFilter = Annotated[list[str] | None, Query(max_length=100)]


@router.get("", summary="Schedules, as they were added or in another order", responses=LIST_CONTENT)
def list_all(
    request: Request,
    caller: ReadCaller,
    gateway: Gateway,
    target: ValueFilter = None,
    tag: ValueFilter = None,
    group: ValueFilter = None,
    state: DisplayState | None = None,
    q: Annotated[str, Query(max_length=200, description="Words, `tag:x`, `state:late`, `-` excludes")] = "",
    sort: Annotated[
        ScheduleSort | None,
        Query(description="Else as they were added. A value that changes between two pages can move a schedule"),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    list_format: ListFormat = None,
    count: CountRows = None,
) -> Response:
    filters = ScheduleFilters(
        target=(caller.actor.target,) if caller.actor.target else tuple(target or ()),
        tag=() if caller.actor.target else tuple(tag or ()),
        group=() if caller.actor.target else tuple(group or ()),
        state=state,
        text=q,
        only_target=caller.actor.target,
    )
    if q and (target or tag or group or state):
        raise UsageError("q cannot be combined with other filters.", hint="Write them into q: tag:x state:late.")
    with gateway.open() as handle:
        page = list_found(
            handle.require_reader(),
            filters,
            handle.now,
            handle.zone,
            after=parse_cursor(cursor),
            limit=limit,
            sort=sort,
        )
        total = count_found(handle.require_reader(), filters, handle.now) if count else None
    after = None if page.next_after is None else format_short_id(page.next_after)
    return render_list(request, [serialize_summary(each) for each in page.rows], after, list_format, total)


@router.post("", summary="Create a schedule of a known target", status_code=201)
def create(
    request: Request, caller: OperateCaller, gateway: Gateway, body: ScheduleBody, key: IdempotencyKey = ""
) -> JSONResponse:
    target, name = split_selector(body.schedule)
    caller.require_target(target)
    name = name or DEFAULT_SCHEDULE_NAME
    with gateway.open() as handle:
        kind = _find_target_kind(handle, target)
        source = build_config_source(gateway)
        new = build_remote_schedule(kind, (target, name), body.model_extra or {}, source)
    command = UpsertSchedule(
        what=ChangeKind.ADD, target=target, name=name, new_schedule=new, way=CreatedVia.API, reason=body.reason
    )
    delivery = gateway.deliver(caller.actor, command, build_request_id(request, caller, key, body))
    answer = serialize_result(delivery)
    return JSONResponse(answer, status_code=201, headers=build_location(request, f"schedules/{target}/{name}"))


@router.get("/{target}/{name}", summary="Everything about one schedule")
def show(caller: ReadCaller, gateway: Gateway, target: str, name: str) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        view = find_details(handle.require_reader(), f"{record.target}/{record.name}", handle.now)
        return JSONResponse(serialize_details(view), headers=build_etag(_load_stored(handle, record)))


@router.patch("/{target}/{name}", summary="Change a schedule that no file defines")
def change(
    caller: OperateCaller,
    gateway: Gateway,
    target: str,
    name: str,
    body: ScheduleChangeBody,
    if_match: IfMatch = None,
) -> JSONResponse:
    """With `If-Match`, the change is refused if somebody else changed the schedule since it was read."""
    caller.require_target(target)

    def edit() -> Delivery[UpsertedSchedule]:
        with gateway.open() as handle:
            record = find_record(handle, target, name)
            require_unmanaged(record.label, record.origin)
            stored = _load_stored(handle, record)
            expected = require_match(if_match, stored)
            kind = _find_target_kind(handle, record.target)
            label = (record.target, record.name)
            edited = edit_remote_schedule(stored, kind, label, body.model_extra or {}, build_config_source(gateway))
        command = UpsertSchedule(
            what=ChangeKind.EDIT,
            target=record.target,
            name=record.name,
            new_schedule=edited,
            way=CreatedVia.API,
            reason=body.reason,
            expected=expected,
        )
        return gateway.deliver(caller.actor, command)

    return deliver_edit(edit, if_match)


@router.delete("/{target}/{name}", summary="Delete a schedule that no file defines")
def delete(caller: OperateCaller, gateway: Gateway, target: str, name: str, if_match: IfMatch = None) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        require_unmanaged(record.label, record.origin)
        expected = require_match(if_match, _load_stored(handle, record))
    command = DeleteSchedule(target=record.target, name=record.name, expected=expected if if_match else "")
    delivery = gateway.deliver(caller.actor, command)
    return JSONResponse(serialize_result(delivery))


@router.get("/{target}/{name}/next", summary="The next runs of a schedule")
def list_next(
    caller: ReadCaller,
    gateway: Gateway,
    target: str,
    name: str,
    count: Limit = 10,
    start: Annotated[UtcTime | None, Query(alias="from")] = None,
) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        view = load_upcoming(
            handle.require_reader(),
            f"{record.target}/{record.name}",
            handle.now,
            start=start.astimezone(UTC) if start else handle.now,
            count=count,
            has_live_node=handle.holder_pid is not None,
        )
        return JSONResponse(serialize_upcoming(view))


@router.get("/{target}/{name}/explain", summary="Why it runs when it does, or why nothing ran at a moment")
def explain(
    caller: ReadCaller, gateway: Gateway, target: str, name: str, at: Annotated[UtcTime | None, Query()] = None
) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        reader, record = handle.require_reader(), find_record(handle, target, name)
        has_live_node = handle.holder_pid is not None
        now, zone = handle.now, handle.zone
        if at is None:
            explanation = load_next_explanation(reader, record, now, has_live_node=has_live_node)
        elif at > now:
            moment = at.astimezone(UTC)
            explanation = load_future_explanation(reader, record, moment, now, zone, has_live_node=has_live_node)
        else:
            explanation = load_instant_explanation(reader, record, at.astimezone(UTC), now, zone)
        return JSONResponse(serialize_explanation(explanation))


@router.get("/{target}/{name}/stats", summary="Outcomes, success rate, waits, durations and pace in a window")
def show_stats(
    caller: ReadCaller, gateway: Gateway, target: str, name: str, window: Annotated[str, Query(max_length=10)] = "24h"
) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        stats = read_stats(handle.require_reader(), find_record(handle, target, name), window, handle.now)
        return JSONResponse(serialize_stats(stats))


@router.post(
    "/{target}/{name}/runs",
    summary="Run it now, beside its own times",
    status_code=202,
    responses={200: {"content": {"application/json": {}}, "description": "It has run, or runs, with this dedup id"}},
)
def trigger(
    request: Request,
    caller: OperateCaller,
    gateway: Gateway,
    target: str,
    name: str,
    body: RunInput,
    key: IdempotencyKey = "",
) -> JSONResponse:
    """202 with the beat, and with its run if it has started. 200 if a beat with this dedup id exists already."""
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        command = TriggerSchedule(
            schedule=record.id,
            queue=body.queue,
            dedup_id=body.dedup_id or key,
            is_private_id=bool(key) and not body.dedup_id,
            prompt=body.prompt,
            input="" if body.input is None else json.dumps(body.input),
            reset=body.reset,
            reason=body.reason,
        )
        delivery = gateway.deliver(caller.actor, command, build_request_id(request, caller, key, body))
        result = delivery.result
        if not result.success:
            detail = f"{result.schedule} was not started: {result.skip_reason}."
            hint = f'{result.running} of {result.max_concurrent} running. Send "queue": true to wait for room.'
            raise Conflict(detail, hint=hint)
        run = wait_for_run(handle, str(result.beat)) if delivery.has_live_node else None
    answer = {**result_to_json(result), "run": run, "served": delivery.has_live_node}
    place = build_location(request, f"runs/{run}" if run else f"beats/{result.beat}")
    return JSONResponse(answer, status_code=200 if result.deduplicated else 202, headers=place)


@router.post("/{target}/{name}/pause", summary="Hold a schedule until a time, or until it is resumed")
def pause(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: PauseInput) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, build_pause(body, gateway.handle.now))


@router.post("/{target}/{name}/resume", summary="End a pause")
def resume(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: ReasonInput) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, ResumeSchedules(reason=body.reason))


@router.post("/{target}/{name}/enable", summary="Enable a schedule")
def enable(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: ReasonInput) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, EnableSchedules(reason=body.reason))


@router.post("/{target}/{name}/disable", summary="Disable a schedule")
def disable(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: HoldInput) -> JSONResponse:
    command = DisableSchedules(reason=body.reason, cancel_running=body.cancel_running)
    return deliver_change(gateway, caller, target, name, command)


@router.post("/{target}/{name}/skip", summary="Skip the next beats")
def skip(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: SkipInput) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, SkipBeats(count=body.count, reason=body.reason))


@router.post("/{target}/{name}/reset", summary="Forget failures and leave the quarantine")
def reset(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: ReasonInput) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, ResetSchedules(reason=body.reason))


@router.get("/{target}/{name}/hints", summary="Hints: active, shadowed, and those that ended within a day")
def list_hints(caller: ReadCaller, gateway: Gateway, target: str, name: str) -> JSONResponse:
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        ended_since = handle.now - ENDED_HINT_MAX_AGE
        hints = classify_hints(handle.require_reader().hints([record.id], ended_since=ended_since), handle.now)
        return JSONResponse({"items": [serialize_hint(each) for each in hints]})


@router.post("/{target}/{name}/hints", summary="Ask for another interval, or for one more run at a time")
def give_hint(caller: OperateCaller, gateway: Gateway, target: str, name: str, body: HintBody) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, build_hint(body))


@router.post("/{target}/{name}/backfill", summary="Run the instants of a past window now", status_code=202)
def backfill(
    request: Request,
    caller: OperateCaller,
    gateway: Gateway,
    target: str,
    name: str,
    body: BackfillBody,
    key: IdempotencyKey = "",
) -> JSONResponse:
    """With `dry_run` the instants are listed, and nothing is written."""
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
        until = handle.now if body.until is None else body.until.astimezone(UTC)
        window = clip_to_past(BackfillWindow(start=body.from_.astimezone(UTC), end=until), handle.now)
        instants = plan_backfill(record.plan, record.label, window, body.max)
    if body.dry_run:
        items = [format_timestamp(each) for each in instants]
        return JSONResponse({"schedule": record.label, "count": len(items), "instants": items})
    command = BackfillSchedule(schedule=record.id, start=window.start, end=window.end, reason=body.reason)
    delivery = gateway.deliver(caller.actor, command, build_request_id(request, caller, key, body))
    answer = serialize_result(delivery)
    return JSONResponse(answer, status_code=202)


@router.delete("/{target}/{name}/hints", summary="Remove the hints")
def clear_hints(caller: OperateCaller, gateway: Gateway, target: str, name: str) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, ClearHints())


@router.delete("/{target}/{name}/hints/{hint_id}", summary="Remove one hint, such as the wake of an agent")
def clear_hint(caller: OperateCaller, gateway: Gateway, target: str, name: str, hint_id: RowId) -> JSONResponse:
    return deliver_change(gateway, caller, target, name, ClearHints(hint=hint_id))


def _load_stored(handle: FleetHandle, record: ScheduleRecord) -> NewSchedule:
    brief = handle.require_reader().run_specs([record.id])[record.id]
    return NewSchedule(plan=record.plan, brief=brief, enabled=record.enabled)


def _find_target_kind(handle: FleetHandle, name: str) -> TargetKind:
    """Raises NotFound, with a guess."""
    return find_target(handle.require_reader(), name, handle.now).target.kind
