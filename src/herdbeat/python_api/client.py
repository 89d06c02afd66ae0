"""`HerdClient`: the methods of a herd that take the name of a function, as a client of the command bus.

They go through the state directory, so they work in the herd's own event loop, in another thread, and in another
process that has the same herd.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from herdbeat.bootstrap.config import LEDGER_FILE_NAME
from herdbeat.bootstrap.embedding import Timer
from herdbeat.bootstrap.handle import Filter, FleetHandle, PostgresLocation, Reader, open_ledger_reader, open_store
from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import NotFound, ScheduleTriggerError, UsageError
from herdbeat.python_api.herdctl_types import DurationLike, TriggerResult
from herdbeat.python_api.options import PROGRAM_ACTOR, get_current_actor, parse_duration_option, require_aware
from herdbeat.python_api.registry import ScheduleRegistry
from herdbeat.python_api.schedule_functions import dispatch_change
from herdbeat.service.commands.base import (
    Actor,
    HintSchedules,
    PauseSchedules,
    ResumeSchedules,
    ScheduleCommand,
    TriggeredBeat,
    TriggerSchedule,
)
from herdbeat.service.commands.dispatch import NotRunning
from herdbeat.service.queries.explain import Explanation, load_next_explanation
from herdbeat.service.queries.selectors import find_latest_attempt, find_schedule
from herdbeat.service.queries.upcoming import iter_schedule_runs
from herdbeat.threads import call_in_thread
from herdbeat.timestamps import require_supported_year

StorePlace = Path | PostgresLocation
"""A state directory, or a ledger in a database."""

POLL_INTERVAL_S = 0.02
RUN_START_TIMEOUT_S = 5.0
"""Seconds that the loop has to claim a beat, so that its run has an id. It takes milliseconds."""


def trigger_result_from_beat(beat: TriggeredBeat) -> TriggerResult | None:
    """Return the result of a beat that starts nothing now: it was refused, or it waits and has no job yet."""
    if not beat.success:
        return TriggerResult(success=False, skipped=True, skip_reason=beat.skip_reason)
    return TriggerResult(success=True) if beat.waits_for else None


def trigger_result_from_ledger(reader: Reader, beat: str, *, require_finished: bool = False) -> TriggerResult | None:
    """Return the result once the run has started, or with `require_finished` has ended; None until then."""
    run = find_latest_attempt(reader, beat)
    if run is None:
        return _result_from_skip(reader, beat)
    if require_finished and run.status is RunStatus.RUNNING:
        return None
    if not require_finished or run.status is RunStatus.SUCCEEDED:
        return TriggerResult(success=True, job_id=format_short_id(run.id))
    return TriggerResult(success=False, job_id=format_short_id(run.id), error=run.error or f"It ended as {run.status}.")


def _result_from_skip(reader: Reader, beat: str) -> TriggerResult | None:
    """Return the result of a beat that its budget or its active hours skip: they are checked when it would start."""
    number = parse_short_id(beat)
    record = None if number is None else reader.beat(number)
    if record is None or record.outcome is not BeatOutcome.SKIPPED:
        return None
    return TriggerResult(success=False, skipped=True, skip_reason=SkipReason(record.reason))


class HerdClient(ScheduleRegistry, ABC):
    """Methods that change something are awaited; those that only read return at once."""

    timer: Timer

    @property
    @abstractmethod
    def state_dir(self) -> Path:
        """The folder of the ledger, or of this process's node if the ledger is in a database."""

    @property
    def ledger(self) -> StorePlace:
        """Where the ledger is: in a state directory, or in a database."""
        return self.state_dir

    def _open_handle(self) -> FleetHandle:
        place = self.ledger
        return open_store(place / LEDGER_FILE_NAME if isinstance(place, Path) else place, self.timer)

    async def trigger(
        self, label: str, *, wait: bool = False, queue: bool = False, by: str = PROGRAM_ACTOR, prompt: str = ""
    ) -> TriggerResult:
        """Run a function now, beside its schedule. Returns when it has started; with `wait`, when it has ended.

        `prompt` is what this run has as its prompt, instead of the schedule's.
        Skipped if it is at capacity (unless it may `queue`), paused or disabled; a person (`by="human:you"`) may run
        what is paused or disabled.
        """
        schedule, place = self.own(label), self.ledger
        try:
            wanted = partial(TriggerSchedule, queue=queue, prompt=prompt)
            beat = await call_in_thread(_trigger, self._open_handle, place, schedule.id, by, wanted)
        except NotRunning as error:
            raise ScheduleTriggerError("The herd is not running.", label, "", hint="Start it first.") from error
        refused = trigger_result_from_beat(beat)
        if refused is not None and not (wait and refused.success):
            return refused
        wait_for_result = partial(_wait_for_result, self._open_handle, place)
        return await call_in_thread(wait_for_result, str(beat.beat), require_finished=wait)

    async def pause(
        self,
        label: str,
        *,
        until: datetime | None = None,
        lasts: DurationLike | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> None:
        """Pause it until a moment, for a duration, or until somebody resumes it. An active run finishes."""
        if until is not None and lasts is not None:
            raise UsageError("until and lasts cannot be used together.", hint="Pass only one of them.")
        now = self.timer.now()
        end = _pause_until(until) if until is not None else None if lasts is None else _pause_end(now, lasts)
        await self._change(label, by, PauseSchedules(reason=reason, until=end))

    async def resume(self, label: str, *, reason: str = "", by: str | None = None) -> None:
        """End its pause. What was due meanwhile is skipped, so that no burst follows."""
        await self._change(label, by, ResumeSchedules(reason=reason))

    async def hint(
        self,
        label: str,
        *,
        every: DurationLike | None = None,
        at: datetime | None = None,
        lasts: DurationLike | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> None:
        """Request another interval, or one more run. A hint may replace the baseline, never pass the limits."""
        command = HintSchedules(
            reason=reason,
            every=None if every is None else parse_duration_option(every, "every").total_seconds(),
            at=None if at is None else require_aware(at),
            lasts=None if lasts is None else parse_duration_option(lasts, "lasts").total_seconds(),
        )
        await self._change(label, by, command)

    def next(self, label: str) -> datetime | None:
        """Return when it runs next; None while it runs, or if nothing is planned. `explain` says why."""
        schedule = self.own(label)
        try:
            with open_ledger_reader(self.ledger) as reader:
                return find_schedule(reader, schedule.id).next_run_at
        except NotFound:
            return next((run.next_run_at for run in iter_schedule_runs(schedule, self.timer.now())), None)

    def explain(self, label: str) -> Explanation:
        """Return why it runs next when it does, or not at all: `text` in one sentence, `steps` the whole decision."""
        has_live_node = self._open_handle().holder_pid is not None
        with open_ledger_reader(self.ledger) as reader:
            record = find_schedule(reader, self.own(label).id)
            return load_next_explanation(reader, record, self.timer.now(), has_live_node=has_live_node)

    def beats(self, label: str, *, most: int = 50) -> list[BeatRecord]:
        """Return its due instants with their outcomes, newest first."""
        with open_ledger_reader(self.ledger) as reader:
            return reader.beats(self._build_filter(label, most))

    def runs(self, label: str, *, most: int = 50) -> list[RunRecord]:
        """Return its runs, newest first."""
        with open_ledger_reader(self.ledger) as reader:
            return reader.runs(self._build_filter(label, most))

    async def _change(self, label: str, by: str | None, command: ScheduleCommand) -> None:
        await call_in_thread(self._change_now, self.own(label).id, by or get_current_actor(), command)

    def _change_now(self, schedule_id: str, who: str, command: ScheduleCommand) -> None:
        dispatch_change(self._open_handle(), self.ledger, schedule_id, who, command)

    def _build_filter(self, label: str, most: int) -> Filter:
        schedule = self.own(label)
        return Filter(target=schedule.target, name=schedule.name, limit=most)


OpenHandle = Callable[[], FleetHandle]


def _trigger(
    open_handle: OpenHandle, place: StorePlace, schedule: str, by: str, wanted: Callable[..., TriggerSchedule]
) -> TriggeredBeat:
    """Blocks: call it in a thread. Raises NotRunning: a herd that does not run keeps no beat for later."""
    handle = open_handle()
    if handle.holder_pid is None:
        raise NotRunning("The herd is not running.", hint="Start it first.")
    with open_ledger_reader(place) as reader:
        command = wanted(schedule=find_schedule(reader, schedule).id)
    # Into a database anybody may write, and its nodes notice; a file has one writer.
    deliver = handle.dispatcher.deliver if handle.is_shared else handle.dispatcher.deliver_to_node
    return deliver(Actor(name=by), command).result


def _pause_until(until: datetime) -> datetime:
    return require_supported_year(require_aware(until), until.isoformat())


def _pause_end(now: datetime, lasts: DurationLike) -> datetime:
    try:
        return now + parse_duration_option(lasts, "lasts")
    except OverflowError as error:
        raise UsageError(
            f"{lasts} from now is out of range.", hint="Use a shorter duration, or omit lasts to pause without an end."
        ) from error


def _wait_for_result(open_handle: OpenHandle, place: StorePlace, beat: str, *, require_finished: bool) -> TriggerResult:
    """Read the ledger until the run has started, or finished. Blocks: call it in a thread."""
    deadline, handle = time.monotonic() + RUN_START_TIMEOUT_S, open_handle()
    with open_ledger_reader(place) as reader:
        while (result := trigger_result_from_ledger(reader, beat, require_finished=require_finished)) is None:
            if handle.holder_pid is None:
                return TriggerResult(
                    success=False, error="The request was saved, but the herd stopped before the run started."
                )
            if not require_finished and time.monotonic() > deadline:
                return TriggerResult(success=True)
            time.sleep(POLL_INTERVAL_S)
    return result
