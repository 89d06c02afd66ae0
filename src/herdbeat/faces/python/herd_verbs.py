"""What can be asked and told of a herd by the name of a function: thin words over the service.

They go through the state directory, so they work in the herd's own event loop, in another thread, and in another
process that has the same herd.
"""

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Protocol

from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.errors import NotFound, ScheduleTriggerError, UsageError
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.faces.python.agents import duration
from herdbeat.faces.python.documented import Seconds, TriggerResult
from herdbeat.faces.python.fired import at_once, became
from herdbeat.faces.python.moments import aware
from herdbeat.faces.python.schedule_states import change, reading
from herdbeat.faces.python.who import PROGRAM, person
from herdbeat.scheduler.timer import Timer
from herdbeat.service.acts import Hinting, Pausing, Resuming
from herdbeat.service.explain import Explanation
from herdbeat.service.preview import of_schedule
from herdbeat.service.questions import find_schedule
from herdbeat.service.why import why_next
from herdbeat.store.lock import holder_of
from herdbeat.store.reader import Filter

LOOK = 0.02
PATIENCE = 5.0
"""Seconds for the loop to take a beat up, so that its run can be named. It takes milliseconds."""


class Asked(Protocol):
    """What the words need of a herd."""

    timer: Timer

    @property
    def state_dir(self) -> Path: ...

    def own(self, label: str) -> Schedule: ...


class HerdVerbs:
    """The words. Those that change something are awaited; those that only look answer at once."""

    async def trigger(
        self: Asked, label: str, *, wait: bool = False, queue: bool = False, by: str = PROGRAM
    ) -> TriggerResult:
        """Run a function now, beside its schedule. Returns when it has started; with `wait`, when it has ended.

        Skipped if it is at capacity (unless it may `queue`), paused or disabled; a person (`by="human:you"`) may run
        what is paused or disabled.
        """
        request = {"do": "run", "schedule": self.own(label).id, "origin": by, "queue": queue}
        try:
            answer = await asyncio.to_thread(ask, self.state_dir, request)
        except NobodyThere as error:
            raise ScheduleTriggerError("The herd does not run.", label, "", hint="Start it first.") from error
        refused = at_once(answer)
        if refused is not None and not (wait and refused.success):
            return refused
        return await asyncio.to_thread(_result, self.state_dir, str(answer["beat"]), is_over=wait)

    async def pause(
        self: Asked,
        label: str,
        *,
        until: datetime | None = None,
        lasts: Seconds | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> None:
        """Hold it until a moment, for so long, or until somebody resumes it. A run that is going finishes."""
        if until is not None and lasts is not None:
            raise UsageError("A pause has an end or a length, not both.", hint="Leave until or lasts out.")
        now = self.timer.now()
        end = aware(until) if until is not None else None if lasts is None else _after(now, lasts)
        await change(self.state_dir, self.own(label).id, Pausing(who=by or person(), reason=reason, until=end), now)

    async def resume(self: Asked, label: str, *, reason: str = "", by: str | None = None) -> None:
        """Let it go on. What passed meanwhile is skipped, so that no burst follows."""
        act = Resuming(who=by or person(), reason=reason)
        await change(self.state_dir, self.own(label).id, act, self.timer.now())

    async def hint(
        self: Asked,
        label: str,
        *,
        every: Seconds | None = None,
        at: datetime | None = None,
        lasts: Seconds | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> None:
        """Wish for another pace or one more run, for a while. It may replace the baseline, never pass the limits."""
        act = Hinting(
            who=by or person(),
            reason=reason,
            every=None if every is None else duration(every, "every").total_seconds(),
            at=None if at is None else aware(at),
            lasts=None if lasts is None else duration(lasts, "lasts").total_seconds(),
        )
        await change(self.state_dir, self.own(label).id, act, self.timer.now())

    def next(self: Asked, label: str) -> datetime | None:
        """When it runs next; None while it is running, or if nothing is planned. `explain` says why."""
        schedule = self.own(label)
        try:
            with reading(self.state_dir) as reader:
                return find_schedule(reader, schedule.id).next_run_at
        except NotFound:
            return next((each.next_run_at for each in of_schedule(schedule, self.timer.now())), None)

    def explain(self: Asked, label: str) -> Explanation:
        """Why it runs next when it does, or why not: `text` is the sentence, `steps` the whole decision."""
        with reading(self.state_dir) as reader:
            record = find_schedule(reader, self.own(label).id)
            return why_next(reader, record, self.timer.now(), is_served=holder_of(self.state_dir) is not None)

    def beats(self: Asked, label: str, *, most: int = 50) -> list[BeatRecord]:
        """Its due instants and what became of each, newest first."""
        with reading(self.state_dir) as reader:
            return reader.beats(_filter(self, label, most))

    def runs(self: Asked, label: str, *, most: int = 50) -> list[RunRecord]:
        """Its runs, newest first."""
        with reading(self.state_dir) as reader:
            return reader.runs(_filter(self, label, most))


def _after(now: datetime, lasts: Seconds) -> datetime:
    try:
        return now + duration(lasts, "lasts")
    except OverflowError as error:
        raise UsageError(f"{lasts} from now is past the end of the calendar.", hint="Leave lasts out.") from error


def _filter(herd: Asked, label: str, most: int) -> Filter:
    schedule = herd.own(label)
    return Filter(target=schedule.target, name=schedule.name, limit=most)


def _result(state_dir: Path, beat: str, *, is_over: bool) -> TriggerResult:
    """Looks at the ledger until the run is there, or is over. Blocks: for a thread."""
    deadline = time.monotonic() + PATIENCE
    with reading(state_dir) as reader:
        while (found := became(reader, beat, is_over=is_over)) is None:
            if holder_of(state_dir) is None:
                return TriggerResult(success=False, error="It is written down, but the herd has stopped.")
            if not is_over and time.monotonic() > deadline:
                return TriggerResult(success=True)
            time.sleep(LOOK)
    return found
