"""A checked schedule -> its Policies, every default resolved for its kind of trigger and target."""

from collections.abc import Mapping
from datetime import timedelta
from zoneinfo import ZoneInfo

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.provenance import SectionReader
from herdbeat.config.schema import policies as keys
from herdbeat.config.schema.table import Field
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
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation
from herdbeat.timestamps import format_timestamp

_DEFAULT_TIMEOUTS = {
    TargetKind.AGENT: timedelta(hours=1),
    TargetKind.ENDPOINT: timedelta(seconds=30),
    TargetKind.COMMAND: timedelta(hours=1),
    TargetKind.CALLABLE: timedelta(hours=1),
}
_THIRTY_SECONDS = timedelta(seconds=30)


def build_policies(
    settings: SectionReader,
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
        catchup=settings.get(keys.CATCHUP, catchup),
        catchup_max=settings.get(keys.CATCHUP_MAX, 100),
        grace=settings.get(keys.GRACE, _THIRTY_SECONDS),
        max_late=settings.get_optional(keys.MAX_LATE),
        overlap=settings.get(keys.OVERLAP, overlap),
        jitter=settings.get_optional(keys.JITTER_KEY),
        limits=Limits(
            at_least=settings.get_optional(keys.MIN_INTERVAL), at_most=settings.get_optional(keys.MAX_INTERVAL)
        ),
        backoff=_build_backoff(settings.section(keys.BACKOFF)),
        retry=_build_retry(settings.section(keys.RETRY)),
        timeout=settings.get(keys.TIMEOUT, _DEFAULT_TIMEOUTS[target]),
        late_after=settings.get(keys.LATE_AFTER, _THIRTY_SECONDS),
        pause_after_failures=settings.get_optional(keys.PAUSE_AFTER_FAILURES),
        bounds=_build_bounds(settings),
        active_hours=_build_active_hours(settings, zone),
        budget=build_budget(settings),
        precheck=settings.get_optional(keys.PRECHECK) or (),
        priority=settings.get(keys.PRIORITY, 0),
        tags=settings.get_optional(keys.TAGS) or (),
        group=settings.get_optional(keys.GROUP),
        runs_on=settings.get_optional(keys.RUNS_ON),
        dedup=settings.get_optional(keys.DEDUP),
        when=settings.get_optional(keys.WHEN),
        max_queued=settings.get_optional(keys.MAX_QUEUED),
        first_run=settings.get(keys.FIRST_RUN, FirstRun.NOW),
        on_interrupt=settings.get(keys.ON_INTERRUPT, OnInterrupt.SKIP),
        adapt=adapt if settings.get_optional(keys.ADAPT) else (),
    )


def build_default_policies(zone: ZoneInfo, trigger: TriggerKind, target: TargetKind) -> Policies:
    """What a schedule has that says nothing."""
    empty_section = SectionReader(ConfigNode({}, SourceLocation(file="", line=0, column=0)), "")
    return build_policies(empty_section, zone, trigger, target, ())


def warn_unused_policies(written: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    """Keys that this kind of schedule never looks at. Those that come from defaults are meant for others."""
    unused_keys: list[Field[object]] = [] if kind.waits_for_event else [keys.DEDUP, keys.WHEN, keys.MAX_QUEUED]
    unused_keys += [] if kind is TriggerKind.INTERVAL else [keys.FIRST_RUN]
    for key in unused_keys:
        child = written.child(key.name)
        if child is not None:
            message = f'"{key.name}" has no effect on {"an" if kind is TriggerKind.INTERVAL else "a"} {kind} schedule.'
            diagnostics.warning(Code.NOT_SERVED, message, child.report_location, "Remove it.")


def check_crossed_limits(settings: SectionReader, diagnostics: Diagnostics) -> None:
    """Limits that no instant can obey."""
    shortest, longest = keys.MIN_INTERVAL.get(settings.node), keys.MAX_INTERVAL.get(settings.node)
    if shortest and longest and shortest > longest:
        message = f'min_interval "{format_duration(shortest)}" is above max_interval "{format_duration(longest)}".'
        diagnostics.error(
            Code.LIMITS_CROSSED, message, _key_location(settings, "min_interval"), "Lower the one or raise the other."
        )
    start, end = keys.STARTS_AT.get(settings.node), keys.ENDS_AT.get(settings.node)
    if start and end and start >= end:
        message = f'It ends at "{format_timestamp(end)}", before it starts at "{format_timestamp(start)}".'
        diagnostics.error(Code.LIMITS_CROSSED, message, _key_location(settings, "ends_at"), "Move one of the two.")


def _key_location(settings: SectionReader, name: str) -> SourceLocation:
    return settings.node.find((name,)).location


def _build_backoff(settings: SectionReader) -> Backoff:
    return Backoff(factor=settings.get(keys.FACTOR, 2), max_failures=settings.get(keys.MAX_FAILURES, 5))


def _build_retry(settings: SectionReader) -> Retry:
    return Retry(
        attempts=settings.get(keys.ATTEMPTS, 1),
        wait=settings.get(keys.WAIT, _THIRTY_SECONDS),
        factor=settings.get(keys.FACTOR, 2),
    )


def _build_bounds(settings: SectionReader) -> Bounds:
    return Bounds(
        max_runs=settings.get_optional(keys.MAX_RUNS),
        starts_at=settings.get_optional(keys.STARTS_AT),
        ends_at=settings.get_optional(keys.ENDS_AT),
    )


def _build_active_hours(settings: SectionReader, zone: ZoneInfo) -> ActiveHours | None:
    hours = settings.get_optional(keys.ACTIVE_HOURS)
    return ActiveHours(opens=hours.opens, closes=hours.closes, zone=zone) if hours else None


def build_budget(settings: SectionReader) -> Budget | None:
    """The budget of a schedule, a target or a fleet that was checked."""
    block = settings.section(keys.BUDGET)
    budget = Budget(
        usd_per_day=block.get_optional(keys.USD_PER_DAY),
        tokens_per_day=block.get_optional(keys.TOKENS_PER_DAY),
        runs_per_day=block.get_optional(keys.RUNS_PER_DAY),
    )
    return None if budget == Budget() else budget
