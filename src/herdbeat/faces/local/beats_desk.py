"""What can be asked about single beats and runs of a running fleet: cancel, retry, backfill."""

from collections.abc import Mapping
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, UsageError
from herdbeat.events import EventListener, null_listener, safe_listener
from herdbeat.faces.local.server import ControlRequest, RequestHandler
from herdbeat.moments import parse_timestamp
from herdbeat.scheduler.backfill import BackfillWindow
from herdbeat.scheduler.loop import Loop
from herdbeat.serve import RunningFleet
from herdbeat.service.backfilling import BackfillSchedule, backfill_in_process, clip_to_past
from herdbeat.service.cancelling import cancel_in_process, cancel_run_in_process
from herdbeat.service.objects import JsonObject
from herdbeat.service.retrying import retry_in_process

MAX_IDS_PER_REQUEST = 1_000


class RunHandlers:
    """Answers for one fleet at work."""

    def __init__(
        self, fleet: Fleet, running_fleet: RunningFleet, clock: Clock, listener: EventListener = null_listener
    ) -> None:
        self._publish = safe_listener(listener)
        self._fleet = fleet
        self._running_fleet = running_fleet
        self._clock = clock

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"cancel": self.cancel, "retry": self.retry, "backfill": self.backfill}

    async def cancel(self, request: ControlRequest) -> JsonObject:
        """`schedules` are the ids whose runs and waiting beats are meant; or `run` is the one run, with its `label`."""
        who, reason, force = _get_text(request, "who"), _get_text(request, "reason"), request.get("force") is True
        store, now = self._running_fleet.store, self._clock.now()
        if "run" in request:
            run_id, label = _get_ids(request, "run")[0], _get_text(request, "label")
            item = await cancel_run_in_process(
                store, self._loop, now, run_id, label, who=who, reason=reason, force=force
            )
            return {"items": [item]}
        ids = _get_ids(request, "schedules")
        items = await cancel_in_process(
            store, self._loop, now, ids, who=who, reason=reason, force=force, publish=self._publish
        )
        self._running_fleet.node.wake()
        return {"items": items}

    async def retry(self, request: ControlRequest) -> JsonObject:
        """`runs` are the ids; `force` also repeats what succeeded."""
        who, reason, force = _get_text(request, "who"), _get_text(request, "reason"), request.get("force") is True
        runs = _get_ids(request, "runs")
        items = await retry_in_process(
            self._running_fleet.store, self._clock.now(), runs, who=who, reason=reason, force=force
        )
        self._running_fleet.node.wake()
        return {"items": items}

    async def backfill(self, request: ControlRequest) -> JsonObject:
        """`schedule` is the id, `label` its name, `from` and `until` are the window of its past."""
        window = BackfillWindow(
            start=parse_timestamp(_get_text(request, "from")), end=parse_timestamp(_get_text(request, "until"))
        )
        command = BackfillSchedule(
            schedule_id=_get_ids(request, "schedule")[0],
            label=_get_text(request, "label"),
            window=clip_to_past(window, self._clock.now()),
            rate=self._fleet.catchup_rate,
            who=_get_text(request, "who"),
            reason=_get_text(request, "reason"),
        )
        answer = await backfill_in_process(self._running_fleet.store, self._clock.now(), command)
        self._running_fleet.node.wake()
        return answer

    @property
    def _loop(self) -> Loop:
        loop = self._running_fleet.node.loop
        if loop is None:
            raise Conflict("The fleet is just starting.", hint="Ask again in a moment.")
        return loop


def _get_text(request: ControlRequest, key: str) -> str:
    found = request.get(key)
    if not isinstance(found, str):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as a text.')
    return found


def _get_ids(request: ControlRequest, key: str) -> list[int]:
    """One number, or a list of them."""
    found = request.get(key)
    numbers: list[Any] = found if isinstance(found, list) else [found]
    if not 0 < len(numbers) <= MAX_IDS_PER_REQUEST or not all(type(each) is int for each in numbers):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as ids, at most {MAX_IDS_PER_REQUEST}.')
    return numbers
