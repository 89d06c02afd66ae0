"""What can be asked about single beats and runs of a running fleet: cancel, retry, backfill."""

from collections.abc import Mapping
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, UsageError
from herdbeat.events import Listener, contained, nobody
from herdbeat.faces.local.server import Handler, Request
from herdbeat.moments import parse_moment
from herdbeat.scheduler.backfill import Window
from herdbeat.scheduler.loop import Loop
from herdbeat.serve import Ready
from herdbeat.service.backfilling import Filling, backfill_here, passed_part
from herdbeat.service.cancelling import cancel_here, cancel_run_here
from herdbeat.service.objects import Json
from herdbeat.service.retrying import retry_here

BATCH = 1_000


class BeatsDesk:
    """Answers for one fleet at work."""

    def __init__(self, fleet: Fleet, ready: Ready, clock: Clock, listener: Listener = nobody) -> None:
        self._tell = contained(listener)
        self._fleet = fleet
        self._ready = ready
        self._clock = clock

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"cancel": self.cancel, "retry": self.retry, "backfill": self.backfill}

    async def cancel(self, request: Request) -> Json:
        """`schedules` are the ids whose runs and waiting beats are meant; or `run` is the one run, with its `label`."""
        who, reason, force = _text(request, "who"), _text(request, "reason"), request.get("force") is True
        store, now = self._ready.store, self._clock.now()
        if "run" in request:
            run_id, label = _numbers(request, "run")[0], _text(request, "label")
            item = await cancel_run_here(store, self._loop, now, run_id, label, who=who, reason=reason, force=force)
            return {"items": [item]}
        ids = _numbers(request, "schedules")
        items = await cancel_here(store, self._loop, now, ids, who=who, reason=reason, force=force, tell=self._tell)
        self._ready.node.wake()
        return {"items": items}

    async def retry(self, request: Request) -> Json:
        """`runs` are the ids; `force` also repeats what succeeded."""
        who, reason, force = _text(request, "who"), _text(request, "reason"), request.get("force") is True
        runs = _numbers(request, "runs")
        items = await retry_here(self._ready.store, self._clock.now(), runs, who=who, reason=reason, force=force)
        self._ready.node.wake()
        return {"items": items}

    async def backfill(self, request: Request) -> Json:
        """`schedule` is the id, `label` its name, `from` and `until` are the window of its past."""
        window = Window(start=parse_moment(_text(request, "from")), end=parse_moment(_text(request, "until")))
        filling = Filling(
            schedule_id=_numbers(request, "schedule")[0],
            label=_text(request, "label"),
            window=passed_part(window, self._clock.now()),
            rate=self._fleet.catchup_rate,
            who=_text(request, "who"),
            reason=_text(request, "reason"),
        )
        answer = await backfill_here(self._ready.store, self._clock.now(), filling)
        self._ready.node.wake()
        return answer

    @property
    def _loop(self) -> Loop:
        loop = self._ready.node.loop
        if loop is None:
            raise Conflict("The fleet is just starting.", hint="Ask again in a moment.")
        return loop


def _text(request: Request, key: str) -> str:
    found = request.get(key)
    if not isinstance(found, str):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as a text.')
    return found


def _numbers(request: Request, key: str) -> list[int]:
    """One number, or a list of them."""
    found = request.get(key)
    numbers: list[Any] = found if isinstance(found, list) else [found]
    if not 0 < len(numbers) <= BATCH or not all(type(each) is int for each in numbers):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as ids, at most {BATCH}.')
    return numbers
