"""One change of many schedules: selected by names, tags or groups, guarded by the expected number."""

from dataclasses import replace

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from herdbeat.domain.selection import Selection
from herdbeat.errors import Conflict, UsageError
from herdbeat.server.auth import Caller, Gateway, OperateCaller
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.routes.actions import build_hint, build_pause
from herdbeat.server.routes.inputs import BulkBody, HintBody, SelectBody
from herdbeat.service.commands.base import (
    CancelSchedules,
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    SkipBeats,
)
from herdbeat.service.commands.dispatch import create_request_id
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.service.serialize import serialize_delivery, serialize_result

router = APIRouter(tags=["schedules"])

MAX_SAMPLE = 20


@router.post("/bulk", summary="Pause, resume, hint … many schedules at once")
def change_many(caller: OperateCaller, gateway: Gateway, body: BulkBody) -> JSONResponse:
    """With `dry_run` nothing changes, and the answer says how many and which. `expect` guards against surprises."""
    selection = build_selection(body.select)
    _require_own(caller, selection)
    with gateway.open() as handle:
        records = select_schedules(handle.require_reader(), selection)
    if body.expect is not None and body.expect != len(records):
        hint = "Look at the selection with dry_run, and send its count as expect."
        raise Conflict(f"{len(records)} schedules are selected, not {body.expect}.", hint=hint)
    sample = [each.label for each in records[:MAX_SAMPLE]]
    if body.dry_run:
        return JSONResponse({"action": body.action, "count": len(records), "sample": sample, "dry_run": True})
    ids, bulk_id = tuple(each.id for each in records), create_request_id()
    answer = {"action": body.action, "count": len(records), "bulk_id": bulk_id}
    if body.action == "cancel":
        cancel = CancelSchedules(schedules=ids, force=body.args.force, reason=body.args.reason)
        cancelled = gateway.deliver(caller.actor, cancel, bulk_id)
        return JSONResponse({**answer, **serialize_result(cancelled)})
    command = replace(_build_command(body, gateway), schedules=ids)
    return JSONResponse({**answer, **serialize_delivery(gateway.deliver(caller.actor, command, bulk_id))})


def _require_own(caller: Caller, selection: Selection) -> None:
    """Decide by the names alone: which target has a tag, or whether a name exists, is not for every caller."""
    for each in selection.names:
        caller.require_target_of(each)
    if selection.tags or selection.groups or selection.everything:
        caller.require_whole_fleet()


def build_selection(select: SelectBody) -> Selection:
    tags, groups = select.tag, select.group
    return Selection(
        names=tuple(select.names),
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        groups=(groups,) if isinstance(groups, str) else tuple(groups),
        everything=select.all,
    )


def _build_command(body: BulkBody, gateway: FleetGateway) -> ScheduleCommand:
    args, reason = body.args, body.args.reason
    match body.action:
        case "pause":
            return build_pause(args, gateway.handle.now, "/args")
        case "resume":
            return ResumeSchedules(reason=reason)
        case "enable":
            return EnableSchedules(reason=reason)
        case "disable":
            return DisableSchedules(reason=reason, cancel_running=args.cancel_running)
        case "skip":
            return SkipBeats(count=args.count, reason=reason)
        case "reset":
            return ResetSchedules(reason=reason)
        case "hint":
            return build_hint(HintBody(every=args.every, at=args.at, ttl=args.ttl, reason=reason), "/args")
        case "clear_hints":
            return ClearHints(reason=reason, hint=args.hint)
        case "cancel":
            raise UsageError("cancel is no change of a schedule.", hint="Send it alone.")
