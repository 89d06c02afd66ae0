"""The state of a schedule at one moment: the only module that decides it.

List, status, explain, next, show, gates, shell completion, `state.yaml` and the documented statuses of the Python API
read `resolve_condition` or one of the functions below. None of them looks at `enabled`, `disabled_by` or `paused` to
decide for itself, so two screens cannot disagree. Completion runs at every keystroke: keep the imports light.
"""

from dataclasses import replace
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.policies import OnInterrupt
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import humanize

if TYPE_CHECKING:
    from herdbeat.domain.planned_pause import PauseWindow
    from herdbeat.domain.records import ScheduleOutline, ScheduleRecord
    from herdbeat.store.name_lookup import NamedSchedule


class DisplayState(StrEnum):
    """The word that people see."""

    RUNNING = "running"
    OK = "ok"
    LATE = "late"  # due for longer than late_after, and not started
    FAILING = "failing"
    PAUSED = "paused"
    DISABLED = "disabled"
    WAITING = "waiting"  # only an event can fire it
    NEW = "new"
    DONE = "done"  # a one-shot that has fired, or a schedule whose life is over


_FAILED_STATUSES = ("failed", "timed_out")
"""`RunStatus.is_failure`, as words: domain/run.py loads the policies, which is too much for completion."""

ScheduleFacts: TypeAlias = "ScheduleRecord | ScheduleOutline | NamedSchedule"
"""What the state is decided from: a whole record, or the short row that a list or a shell finds names with."""


class ScheduleCondition(NamedTuple):
    """The state, and the facts that can hold beside it.

    A run continues after its schedule is paused or disabled, and a paused schedule can be quarantined: `state` names
    the first that applies, the flags name each. `late_since` is the instant that should have started, None if none is
    late. `is_failing` also holds while a beat that failed waits for its next attempt, before its failure is counted,
    and when the last run could not start.
    """

    state: DisplayState
    is_enabled: bool
    is_paused: bool
    is_quarantined: bool
    is_failing: bool
    late_since: datetime | None


def resolve_condition(facts: ScheduleFacts, now: datetime) -> ScheduleCondition:
    """Return the condition of a schedule at `now`. Pure."""
    next_start = facts.next_run_at if facts.retry_at is None else facts.retry_at
    is_late = next_start is not None and next_start + facts.late_after < now
    is_failing = bool(facts.quarantine is not None or facts.failures or facts.is_unable or _has_failed_attempt(facts))
    is_paused = facts.paused and (facts.paused_until is None or facts.paused_until > now)
    return ScheduleCondition(
        state=_resolve_state(facts, is_paused=is_paused, is_late=is_late, is_failing=is_failing),
        is_enabled=is_enabled(facts),
        is_paused=is_paused,
        is_quarantined=facts.quarantine is not None,
        is_failing=is_failing,
        late_since=next_start if is_late else None,
    )


def _has_failed_attempt(facts: ScheduleFacts) -> bool:
    """Whether a beat that failed waits for its retry. One that was interrupted did not fail."""
    return facts.retry_attempt is not None and facts.last_status in _FAILED_STATUSES


def _resolve_state(facts: ScheduleFacts, *, is_paused: bool, is_late: bool, is_failing: bool) -> DisplayState:
    """Return the first that applies: what happens now, then what was stopped, then what went wrong."""
    if facts.running:
        return DisplayState.RUNNING
    if not is_enabled(facts):
        return DisplayState.DISABLED
    if is_paused:
        return DisplayState.PAUSED
    if facts.waiting or is_late:
        return DisplayState.LATE
    if is_failing:
        return DisplayState.FAILING
    if facts.next_run_at is None and facts.retry_attempt is None and (facts.waits_for_event or not facts.was_cut_off):
        return DisplayState.WAITING if facts.waits_for_event else DisplayState.DONE
    return DisplayState.OK if facts.last_run_at is not None else DisplayState.NEW


def drop_dead_runs(record: "ScheduleRecord") -> "ScheduleRecord":
    """Return the record of a fleet that no node runs: what its ledger calls running was cut off when the node died."""
    if not record.running:
        return replace(record, target_running=0) if record.target_running else record
    policies = record.plan.policies
    is_repeated = policies.on_interrupt is OnInterrupt.RETRY
    runs, max_runs = record.runs + (0 if is_repeated else record.running), policies.bounds.max_runs
    # As the next start finds it: an interrupted run counts, and a one-shot has had its only one, unless it is repeated.
    is_over = record.plan.trigger.kind == "delay" or (max_runs is not None and runs >= max_runs)
    is_over = is_over and not is_repeated
    return replace(
        record,
        running=0,
        target_running=0,
        runs=runs,
        was_cut_off=not is_over,
        next_run_at=None if is_over else record.next_run_at,
        last_run_at=record.last_started_at or record.last_run_at,
        last_status=RunStatus.INTERRUPTED,
    )


def is_enabled(facts: ScheduleFacts) -> bool:
    """Its file and the people who run the fleet each have a switch; both must be on."""
    return facts.enabled and facts.disabled_by is None


def is_fired(record: "ScheduleRecord", state: str) -> bool:
    """Whether it is a one-shot that is done, failed or not. It counts as disabled, as documented, until re-armed."""
    if record.plan.trigger.kind != "delay" or state not in (DisplayState.DONE, DisplayState.FAILING):
        return False
    return record.next_run_at is None and record.retry_attempt is None


def to_documented_status(facts: ScheduleFacts) -> Literal["running", "disabled", "idle"]:
    """The three words of `state.yaml` and of the Python API, which know nothing of pauses and failures."""
    if facts.running:
        return "running"
    return "idle" if is_enabled(facts) else "disabled"


def find_blocking_reason(record: "ScheduleRecord", now: datetime) -> SkipReason | None:
    """Return the first reason, in the documented order, why a schedule would not start now; None if it would."""
    condition = resolve_condition(record, now)
    reasons = (
        (record.waits_for_event, SkipReason.UNSUPPORTED_TYPE),
        (not condition.is_enabled, SkipReason.DISABLED),
        (condition.is_quarantined, SkipReason.CONFIG_ERROR),
        (condition.is_paused, SkipReason.PAUSED),
        (record.running > 0, SkipReason.ALREADY_RUNNING),
        (record.target_running >= record.target_room, SkipReason.AT_CAPACITY),
        (not record.waiting and (record.next_run_at is None or record.next_run_at > now), SkipReason.NOT_DUE),
    )
    return next((reason for applies, reason in reasons if applies), None)


class Hold(NamedTuple):
    """Who stopped a schedule that could run, and until when: None means until it is lifted."""

    state: Literal[DisplayState.DISABLED, DisplayState.PAUSED]
    by: str
    reason: str = ""
    until: datetime | None = None


def find_hold(record: "ScheduleRecord", now: datetime) -> Hold | None:
    """Return what a person or a policy did to stop it. What its file switches off is as it should be: None."""
    if record.disabled_by is not None:
        return Hold(DisplayState.DISABLED, record.disabled_by)
    if resolve_condition(record, now).is_paused:
        return Hold(DisplayState.PAUSED, record.paused_by, record.paused_reason, record.paused_until)
    return None


# Sentences for people: what stops a schedule, who did it, for how long, and the command that undoes it.


def describe_window(window: "PauseWindow", zone: tzinfo) -> str:
    """Return for example `2026-04-01 22:00 to 02:00 CEST by human:you "database"`."""
    begins, ends = window.from_at.astimezone(zone), window.until.astimezone(zone)
    end = f"{ends:%H:%M %Z}" if begins.date() == ends.date() else f"{ends:%Y-%m-%d %H:%M %Z}"
    by, reason = f" by {window.by}" if window.by else "", f' "{window.reason}"' if window.reason else ""
    return f"{begins:%Y-%m-%d %H:%M} to {end}{by}{reason}"


def describe_pause(record: "ScheduleRecord", now: datetime) -> str:
    end = "" if record.paused_until is None else f" for another {humanize(record.paused_until - now)}"
    by = f" by {record.paused_by}" if record.paused_by else ""
    reason = f' "{record.paused_reason}"' if record.paused_reason else ""
    return f"paused{end}{by}{reason}; resume it: herdbeat resume {record.label}"


def describe_retry(record: "ScheduleRecord", now: datetime) -> str:
    """Return for example `retry 2 of 3 in 40s`; empty if none waits."""
    if record.retry_attempt is None:
        return ""
    if record.retry_at is None:
        when = "when capacity is free"
    else:
        when = f"in {humanize(record.retry_at - now)}" if record.retry_at > now else "now"
    return f"{describe_retry_number(record)} {when}"


def describe_retry_number(record: "ScheduleRecord") -> str:
    """Return `retry 2 of 3`: the number of the attempt, the first one included. More can only be asked by hand."""
    attempts = record.plan.policies.retry.attempts
    most = f" of {attempts}" if (record.retry_attempt or 0) <= attempts else ""
    return f"retry {record.retry_attempt}{most}"


def describe_skips(record: "ScheduleRecord") -> str:
    beats = "the next beat is" if record.skips == 1 else f"the next {record.skips} beats are"
    reason = f' "{record.skips_reason}"' if record.skips_reason else ""
    return f"{beats} skipped, requested by {record.skips_by}{reason}; undo: herdbeat skip --clear {record.label}"


def describe_disabled(record: "ScheduleRecord") -> str:
    """Name each switch that is off, because each is switched on in its own way."""
    by_hand = f"disabled by {record.disabled_by} (herdbeat enable {record.label})" if record.disabled_by else ""
    place = f" in {record.origin}" if record.origin else " in its file"
    by_file = "" if record.enabled else f"enabled: false{place}"
    return " and ".join(part for part in (by_hand, by_file) if part)
