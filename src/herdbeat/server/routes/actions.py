"""From a body to a command, and from its delivery to an answer: what the routes of schedules and of bulk share."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

from fastapi import Header, Request
from fastapi.responses import JSONResponse

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import ConfigSource
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import parse_duration
from herdbeat.error_codes import Code
from herdbeat.errors import (
    Conflict,
    IntervalParseError,
    InvalidSpec,
    NotFound,
    Problem,
    UsageError,
    truncate_for_message,
)
from herdbeat.server.auth import Caller
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.routes.inputs import Body, HintBody, PauseBody
from herdbeat.service.commands.base import (
    HintSchedules,
    NewSchedule,
    NewTarget,
    PauseSchedules,
    ScheduleCommand,
    StaleVersion,
)
from herdbeat.service.commands.dispatch import Delivery, build_keyed_request_id
from herdbeat.service.commands.fleet import compute_version, repeat_while_stale
from herdbeat.service.queries.selectors import find_latest_attempt, find_schedule
from herdbeat.service.serialize import serialize_delivery, serialize_result

R = TypeVar("R")

START_TIMEOUT_S = 0.3
"""Seconds to wait for the run of a beat, so that the answer can name it. It takes milliseconds."""

POLL_INTERVAL_S = 0.02
ENDED_HINT_MAX_AGE = timedelta(days=1)
"""How long hints that have ended are listed."""


IdempotencyKey = Annotated[str, Header(alias="Idempotency-Key", max_length=200)]
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=200)]


def build_request_id(request: Request, caller: Caller, key: str, body: Body) -> str:
    """Return the id of a request that may be repeated. A key of one sender is not that of another.

    A token counts by its hash: a new one may get the name of a revoked one.
    """
    if not key:
        return ""
    content = [request.method, request.scope["route"].path, request.path_params, body.model_dump(mode="json")]
    owner = caller.digest or f"{caller.kind}:{caller.actor.name}"
    return build_keyed_request_id(owner, key, json.dumps(content, sort_keys=True))


def build_location(request: Request, path: str) -> dict[str, str]:
    """Return the header that names what was made, under the path at which the client reaches this server."""
    return {"Location": f"{request.scope.get('root_path', '')}/api/v1/{path}"}


def build_etag(stored: NewSchedule | NewTarget) -> dict[str, str]:
    """Return the header that names the version of what can be edited."""
    return {"ETag": f'"{compute_version(stored)}"'}


def require_match(if_match: str | None, stored: NewSchedule | NewTarget) -> str:
    """Return the version that a change is based on. Raises StaleVersion if the sender has read another one."""
    version = compute_version(stored)
    if if_match is not None and if_match.strip() not in ("*", f'"{version}"'):
        raise StaleVersion("It was changed since it was read.", hint=Code.STALE_VERSION.info.fix)
    return version


def deliver_edit(edit: Callable[[], Delivery[R]], if_match: str | None) -> JSONResponse:
    """Edit what is there: again if it has changed meanwhile, unless its sender names the version that they mean."""
    is_for_any = if_match is None or if_match.strip() == "*"
    delivery = repeat_while_stale(edit) if is_for_any else edit()
    return JSONResponse(serialize_result(delivery))


def find_record(handle: FleetHandle, target: str, name: str) -> ScheduleRecord:
    """Raises NotFound, with a guess."""
    return find_schedule(handle.require_reader(), f"{target}/{name}")


def parse_hint_id(text: str) -> int:
    """Raises NotFound."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
    if number is None:
        raise NotFound(f'There is no hint "{truncate_for_message(text)}".', hint="List hints: GET /api/v1/hints")
    return number


def find_hint_schedule(handle: FleetHandle, hint_id: str) -> ScheduleRecord:
    """Return the schedule of a hint that has not ended. Raises NotFound."""
    number, reader = parse_hint_id(hint_id), handle.require_reader()
    label = next((each.schedule for each in reader.hints(None, ended_since=handle.now) if each.id == number), None)
    if label is None:
        hint = "List hints: GET /api/v1/hints"
        raise NotFound(f'There is no hint "{truncate_for_message(hint_id)}" in force.', hint=hint)
    return find_schedule(reader, label)


def deliver_change(
    gateway: FleetGateway, caller: Caller, target: str, name: str, command: ScheduleCommand
) -> JSONResponse:
    """Change one schedule. Raises Conflict with the reason if the schedule refuses it."""
    caller.require_target(target)
    with gateway.open() as handle:
        record = find_record(handle, target, name)
    delivery = gateway.deliver(caller.actor, replace(command, schedules=(record.id,)))
    for refused in delivery.result.refused:
        raise Conflict(f"{refused.schedule}: {refused.refused}.", hint=refused.hint)
    return JSONResponse(serialize_delivery(delivery))


def parse_length(text: str, pointer: str) -> timedelta:
    """Parse a duration of a body. Raises InvalidSpec, which says where it is."""
    try:
        return parse_duration(text)
    except IntervalParseError as error:
        raise InvalidSpec(Problem(code=error.code, message=error.message, hint=error.hint), pointer, text) from error


def build_pause(body: PauseBody, now: datetime, at: str = "") -> PauseSchedules:
    """`at` is where the body is, if it is a part of another one."""
    if body.until is not None and body.for_ is not None:
        raise UsageError("until and for cannot be combined.", hint="Send one of them.")
    until = body.until.astimezone(UTC) if body.until else None
    if body.for_ is not None:
        until = now + parse_length(body.for_, f"{at}/for")
    return PauseSchedules(until=until, reason=body.reason, cancel_running=body.cancel_running)


def build_hint(body: HintBody, at: str = "") -> HintSchedules:
    if (body.every is None) == (body.at is None):
        raise UsageError("A hint is an interval or a time.", hint='Send "every": "5m", or "at" with a time.')
    return HintSchedules(
        every=None if body.every is None else parse_length(body.every, f"{at}/every").total_seconds(),
        at=body.at.astimezone(UTC) if body.at else None,
        lasts=None if body.ttl is None else parse_length(body.ttl, f"{at}/ttl").total_seconds(),
        reason=body.reason,
    )


def wait_for_run(handle: FleetHandle, beat: str) -> str | None:
    """Return the run that the loop starts for a beat, if that happens at once."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (run := find_latest_attempt(handle.require_reader(), beat)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_INTERVAL_S)
    return format_short_id(run.id)


def build_config_source(gateway: FleetGateway) -> ConfigSource:
    spec = gateway.spec
    return ConfigSource(path=spec.config, folder=Path(spec.folder or "."), zone=spec.zone, environ=gateway.environ)
