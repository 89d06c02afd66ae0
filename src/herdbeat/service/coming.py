"""What comes after the next run: a few instants, how long that goes on, and what then. The governor itself is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise

from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import format_duration
from herdbeat.governor import forecast_decisions
from herdbeat.service.outlook import build_governor_state

MAX_PREVIEW_INSTANTS = 3
"""Instants that are asked for: two of them and their distance tell how it goes on."""

_MAX_DESCRIBED_INTERVAL = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPreview:
    """`instants` begin with the next run. `is_all` says that nothing comes after them, `pace` how they go on.

    `is_hoped` says that all but the first are so only if it succeeds. `until` is when the hint ends that makes them so;
    `after` is what counts from then on.
    """

    instants: tuple[datetime, ...] = ()
    is_complete: bool = False
    pace: str = ""
    is_conditional: bool = False
    until: datetime | None = None
    after: str = ""


def preview_runs(record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> RunPreview:
    """Nothing for a schedule whose next run depends on how one ends that is still going, or on who enables it."""
    if record.next_run_at is None or record.quarantine is not None:
        return RunPreview()
    # What somebody asked to let pass will not run.
    found = list(
        islice(
            forecast_decisions(now, build_governor_state(record, hints)),
            record.skips,
            record.skips + MAX_PREVIEW_INSTANTS,
        )
    )
    instants = tuple(each.next_run_at for each in found if each.next_run_at is not None)
    hint = _find_deciding_hint(found, hints)
    return RunPreview(
        instants=instants,
        is_complete=len(found) < MAX_PREVIEW_INSTANTS,
        pace=_describe_interval(record, instants),
        is_conditional=record.failures > 0 and record.plan.trigger.interval is not None and hint is None,
        until=hint.expires_at if hint else None,
        after=record.plan.trigger.describe() if hint else "",
    )


def _find_deciding_hint(found: Sequence[Decision], hints: Sequence[Hint]) -> Hint | None:
    """The pace that somebody wished for, if it is what makes these instants."""
    if not found or not any(step.won and step.source is Source.AI_INTERVAL for step in found[0].trace):
        return None
    interval_hints = [hint for hint in hints if hint.every is not None]
    return min(interval_hints, key=lambda hint: hint.rank, default=None)


def _describe_interval(record: ScheduleRecord, instants: Sequence[datetime]) -> str:
    """`every 30s` as it will really be, limits included; a calendar in its own words."""
    gaps = {later - earlier for earlier, later in pairwise(instants[1:])}
    if record.plan.trigger.interval is None or len(gaps) != 1 or (gap := gaps.pop()) > _MAX_DESCRIBED_INTERVAL:
        return record.plan.trigger.describe()
    whole = timedelta(seconds=round(gap.total_seconds()))
    return f"every {format_duration(whole)}" if whole else record.plan.trigger.describe()
