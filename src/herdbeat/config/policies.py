"""A checked schedule -> its Policies, every default resolved for its kind of trigger and target."""

from collections.abc import Mapping
from datetime import timedelta
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.keys import policies as keys
from herdbeat.config.report import Report
from herdbeat.config.settings import Settings
from herdbeat.config.tables import Key
from herdbeat.domain.policies import (
    ActiveHours,
    Backoff,
    Bounds,
    Budget,
    Catchup,
    FirstRun,
    Limits,
    OnInterrupt,
    Overlap,
    Policies,
    Retry,
)
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration
from herdbeat.errors import Place
from herdbeat.located import Located
from herdbeat.moments import format_moment

_TIMEOUTS = {
    TargetKind.AGENT: timedelta(hours=1),
    TargetKind.ENDPOINT: timedelta(seconds=30),
    TargetKind.COMMAND: timedelta(hours=1),
    TargetKind.CALLABLE: timedelta(hours=1),
}
_HALF_A_MINUTE = timedelta(seconds=30)


def read_policies(
    settings: Settings,
    zone: ZoneInfo,
    trigger: TriggerKind,
    target: TargetKind,
    adapt: tuple[Mapping[str, object], ...],
) -> Policies:
    """All policies, in the order of the reference. The mapping was checked: nothing here complains."""
    catchup = Catchup.SKIP if trigger is TriggerKind.CRON else Catchup.ONCE
    overlap = Overlap.QUEUE_ALL if trigger.waits_for_event else Overlap.SKIP
    return Policies(
        zone=zone,
        catchup=settings.take(keys.CATCHUP, catchup),
        catchup_max=settings.take(keys.CATCHUP_MAX, 100),
        grace=settings.take(keys.GRACE, _HALF_A_MINUTE),
        max_late=settings.maybe(keys.MAX_LATE),
        overlap=settings.take(keys.OVERLAP, overlap),
        jitter=settings.maybe(keys.JITTERED),
        limits=Limits(at_least=settings.maybe(keys.MIN_INTERVAL), at_most=settings.maybe(keys.MAX_INTERVAL)),
        backoff=_backoff(settings.inside(keys.BACKOFF)),
        retry=_retry(settings.inside(keys.RETRY)),
        timeout=settings.take(keys.TIMEOUT, _TIMEOUTS[target]),
        late_after=settings.take(keys.LATE_AFTER, _HALF_A_MINUTE),
        pause_after_failures=settings.maybe(keys.PAUSE_AFTER_FAILURES),
        bounds=_bounds(settings),
        active_hours=_active_hours(settings, zone),
        budget=read_budget(settings),
        precheck=settings.maybe(keys.PRECHECK) or (),
        priority=settings.take(keys.PRIORITY, 0),
        tags=settings.maybe(keys.TAGS) or (),
        group=settings.maybe(keys.GROUP),
        runs_on=settings.maybe(keys.RUNS_ON),
        dedup=settings.maybe(keys.DEDUP),
        when=settings.maybe(keys.WHEN),
        max_queued=settings.maybe(keys.MAX_QUEUED),
        first_run=settings.take(keys.FIRST_RUN, FirstRun.NOW),
        on_interrupt=settings.take(keys.ON_INTERRUPT, OnInterrupt.SKIP),
        adapt=adapt if settings.maybe(keys.ADAPT) else (),
    )


def default_policies(zone: ZoneInfo, trigger: TriggerKind, target: TargetKind) -> Policies:
    """What a schedule has that says nothing."""
    nothing = Settings(Located({}, Place(file="", line=0, column=0)), "")
    return read_policies(nothing, zone, trigger, target, ())


def note_idle_policies(written: Located, kind: TriggerKind, report: Report) -> None:
    """Keys that this kind of schedule never looks at. Those that come from defaults are meant for others."""
    idle: list[Key[object]] = [] if kind.waits_for_event else [keys.DEDUP, keys.WHEN, keys.MAX_QUEUED]
    idle += [] if kind is TriggerKind.INTERVAL else [keys.FIRST_RUN]
    for key in idle:
        child = written.child(key.name)
        if child is not None:
            message = f'"{key.name}" has no effect on {"an" if kind is TriggerKind.INTERVAL else "a"} {kind} schedule.'
            report.warning(Code.NOT_SERVED, message, child.label, "Remove it.")


def refuse_crossed(settings: Settings, report: Report) -> None:
    """Limits that no instant can obey."""
    shortest, longest = keys.MIN_INTERVAL.of(settings.node), keys.MAX_INTERVAL.of(settings.node)
    if shortest and longest and shortest > longest:
        message = f'min_interval "{format_duration(shortest)}" is above max_interval "{format_duration(longest)}".'
        report.error(
            Code.LIMITS_CROSSED, message, _place(settings, "min_interval"), "Lower the one or raise the other."
        )
    start, end = keys.STARTS_AT.of(settings.node), keys.ENDS_AT.of(settings.node)
    if start and end and start >= end:
        message = f'It ends at "{format_moment(end)}", before it starts at "{format_moment(start)}".'
        report.error(Code.LIMITS_CROSSED, message, _place(settings, "ends_at"), "Move one of the two.")


def _place(settings: Settings, name: str) -> Place:
    return settings.node.find((name,)).place


def _backoff(settings: Settings) -> Backoff:
    return Backoff(factor=settings.take(keys.FACTOR, 2), max_failures=settings.take(keys.MAX_FAILURES, 5))


def _retry(settings: Settings) -> Retry:
    return Retry(
        attempts=settings.take(keys.ATTEMPTS, 1),
        wait=settings.take(keys.WAIT, _HALF_A_MINUTE),
        factor=settings.take(keys.FACTOR, 2),
    )


def _bounds(settings: Settings) -> Bounds:
    return Bounds(
        max_runs=settings.maybe(keys.MAX_RUNS),
        starts_at=settings.maybe(keys.STARTS_AT),
        ends_at=settings.maybe(keys.ENDS_AT),
    )


def _active_hours(settings: Settings, zone: ZoneInfo) -> ActiveHours | None:
    hours = settings.maybe(keys.ACTIVE_HOURS)
    return ActiveHours(opens=hours.opens, closes=hours.closes, zone=zone) if hours else None


def read_budget(settings: Settings) -> Budget | None:
    """The budget of a schedule, a target or a fleet that was checked."""
    block = settings.inside(keys.BUDGET)
    budget = Budget(
        usd_per_day=block.maybe(keys.USD_PER_DAY),
        tokens_per_day=block.maybe(keys.TOKENS_PER_DAY),
        runs_per_day=block.maybe(keys.RUNS_PER_DAY),
    )
    return None if budget == Budget() else budget
