"""What an agent with `allow_create` may add to itself: a few schedules, each with an end, within its own limits.

A new schedule has the policies and the settings of the one that asks for it, so that no agent leaves a limit, an
isolation or a tool policy behind by writing itself another schedule.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast
from zoneinfo import ZoneInfo

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.codec import from_json
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Bounds, FirstRun, Limits, Policies
from herdbeat.domain.schedule import RunSpec, Schedule, display_name
from herdbeat.domain.target import CreatedVia
from herdbeat.domain.trigger import Trigger
from herdbeat.durations import format_duration
from herdbeat.errors import SchedulerError, truncate_for_message
from herdbeat.scheduler.agent_hints import AgentCaller, Refusal, min_wake_distance
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.apply.settle import remove_schedules
from herdbeat.scheduler.control import describe_human_hold
from herdbeat.store.base import ScheduleRow, ScheduleSnapshot, TargetRow, Transaction
from herdbeat.triggers import Cron, Delay, Interval, load_trigger

MAX_OWN_SCHEDULES = 10
MAX_LIFETIME = timedelta(days=30)
DEFAULT_LIFETIME = timedelta(days=7)
MAX_PROMPT_CHARS = 4_000
_MAX_NAME_CHARS = 64
_NAME_PATTERN = re.compile(rf"[a-zA-Z0-9][a-zA-Z0-9_-]{{0,{_MAX_NAME_CHARS - 1}}}")
_UNSENDABLE_PATTERN = re.compile("[\x00\ud800-\udfff]")
_SAME_END = timedelta(hours=1)
"""A repetition counts its `expires` from a later moment. It asks for nothing new by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSchedule:
    """What a model asks for: any text, any number."""

    name: str
    prompt: str
    every: str = ""
    cron: str = ""
    at: datetime | None = None
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScheduleResult:
    """The schedule after a request. `what` is None if nothing had to be changed."""

    label: str
    what: ChangeKind | None
    ends_at: datetime | None = None
    next_run_at: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnTarget:
    """The agent that asks: its row, its schedules by name, and the row of the one that asks."""

    id: int
    row: TargetRow
    schedules: dict[str, tuple[int, ScheduleRow]]
    asking: ScheduleRow

    @property
    def created(self) -> dict[str, int]:
        return {name: number for name, (number, row) in self.schedules.items() if row.origin == CreatedVia.MCP}


def create_own_schedule(
    tx: Transaction, now: datetime, asking: ScheduleSnapshot, caller: AgentCaller, wanted: WantedSchedule
) -> OwnScheduleResult | Refusal:
    """Add the schedule, or change it if an agent has added it before. Those that have ended make room."""
    target = _load_target(tx, asking)
    ready = _check_request(target, wanted) or _check_held(now, asking) or _plan(now, asking, target, wanted)
    if isinstance(ready, Refusal):
        return ready
    if known := _find_same(tx, target, ready):
        return known
    ended = [number for number, each in _read_created(tx, target).items() if _has_ended(each, now)]
    kept = target.created.keys() - {name for name, number in target.created.items() if number in ended}
    if len(kept | {wanted.name}) > MAX_OWN_SCHEDULES:
        return Refusal(
            code="too_many_schedules",
            detail=f"You have {len(kept)} schedules of your own; {MAX_OWN_SCHEDULES} are allowed.",
            hint=f"Delete one of them first: {', '.join(sorted(kept))}.",
        )
    remove_schedules(tx, now, [each for each in ended if each != target.created.get(wanted.name)])
    fleet = Fleet(name="", zone=ready.policies.zone, targets=(), schedules=(ready,), store="", server=ServerSettings())
    apply_fleet(tx, fleet, now, caller.origin, is_whole=False, reason=caller.reason)
    number, _ = tx.schedule_list_by_target([target.id])[target.id, wanted.name]
    what = ChangeKind.EDIT if wanted.name in target.created else ChangeKind.ADD
    return _describe(tx.schedules([number])[number], display_name(target.row.name, wanted.name), what)


def delete_own_schedule(
    tx: Transaction, now: datetime, asking: ScheduleSnapshot, caller: AgentCaller, name: str
) -> OwnScheduleResult | Refusal:
    """Remove it. One that is not there is not an error: the request may be a repetition."""
    target = _load_target(tx, asking)
    label = display_name(target.row.name, truncate_for_message(name, _MAX_NAME_CHARS))
    if refusal := _check_allowed(target):
        return refusal
    if name not in target.schedules:
        return OwnScheduleResult(label=label, what=None, notes=("there is no such schedule",))
    if name not in target.created:
        return Refusal(
            code="not_yours",
            detail=f"{label} is not a schedule that you have created.",
            hint=f"Yours: {', '.join(sorted(target.created)) or 'none'}.",
        )
    number = target.created[name]
    # Else it could create the schedule once more, without the pause.
    if refusal := _check_held(now, tx.schedules([number])[number]):
        return refusal
    remove_schedules(tx, now, [number])
    after = {"reason": caller.reason}
    tx.add_changes(
        [Change(at=now, who=caller.origin, what=ChangeKind.REMOVE, subject=f"{target.row.name}/{name}", after=after)]
    )
    return OwnScheduleResult(label=label, what=ChangeKind.REMOVE)


def _load_target(tx: Transaction, asking: ScheduleSnapshot) -> _OwnTarget:
    number, row = next(each for each in tx.targets().values() if each[0] == asking.target_id)
    rows = tx.schedule_list_by_target([number])
    own = {name: stored for (_, name), stored in rows.items()}
    return _OwnTarget(
        id=number, row=row, schedules=own, asking=next(each for key, each in own.values() if key == asking.id)
    )


def _check_allowed(target: _OwnTarget) -> Refusal | None:
    if json.loads(target.row.spec).get("allow_create") is True:
        return None
    return Refusal(
        code="not_allowed",
        detail="This agent may not create or delete schedules.",
        hint="A person allows it with allow_create: true in its file. Use wake_me or set_pace.",
    )


def _check_request(target: _OwnTarget, wanted: WantedSchedule) -> Refusal | None:
    if refusal := _check_allowed(target):
        return refusal
    if not _NAME_PATTERN.fullmatch(wanted.name):
        hint = "Use letters, digits, - and _, such as check-deploy."
        return Refusal(code="bad_name", detail=f"The name has to have 1 to {_MAX_NAME_CHARS} characters.", hint=hint)
    if not wanted.prompt.strip() or len(wanted.prompt) > MAX_PROMPT_CHARS:
        detail = f"The prompt has {len(wanted.prompt)} characters; 1 to {MAX_PROMPT_CHARS:,} are allowed."
        return Refusal(code="bad_prompt", detail=detail, hint="Say in a few sentences what to do then.")
    if _UNSENDABLE_PATTERN.search(wanted.prompt):
        hint = "Write it without these characters."
        return Refusal(code="bad_prompt", detail="The prompt has characters that no program can be given.", hint=hint)
    if wanted.name in target.schedules and wanted.name not in target.created:
        detail = f"{display_name(target.row.name, wanted.name)} is not a schedule that you have created."
        return Refusal(code="name_taken", detail=detail, hint="Choose another name.")
    if sum(map(bool, (wanted.every, wanted.cron, wanted.at))) != 1:
        return Refusal(code="one_time", detail="A schedule needs every, cron or at.", hint="Give one of them.")
    return None


def _check_held(now: datetime, schedule: ScheduleSnapshot) -> Refusal | None:
    """A person's pause or disabling must not be evaded by another schedule in the place of the one that is held."""
    hold = describe_human_hold(now, schedule)
    if not hold:
        return None
    hint = "Only a person can change that. Wait for it."
    return Refusal(code="held", detail=f"{schedule.label} is {hold}.", hint=hint)


def _plan(now: datetime, asking: ScheduleSnapshot, target: _OwnTarget, wanted: WantedSchedule) -> Schedule | Refusal:
    policies = asking.plan.policies
    if policies.budget is not None or policies.bounds.max_runs is not None:
        return Refusal(
            code="own_limit",
            detail="Your schedule has a budget or max_runs of its own, which another schedule would not count for.",
            hint="A person can give the budget to the agent instead of its schedule. Use wake_me.",
        )
    nearest = min_wake_distance(policies)
    trigger = _parse_trigger(wanted, policies.zone)
    ends_at = _find_end(now, policies, wanted)
    if isinstance(trigger, Refusal):
        return trigger
    if isinstance(ends_at, Refusal):
        return ends_at
    if isinstance(trigger, Interval) and trigger.every < nearest:
        shortest = format_duration(nearest)
        detail, hint = f"every {wanted.every} is below {shortest}.", f"Call it again with every={shortest}, or more."
        return Refusal(code="below_min_interval", detail=detail, accepted={"every": shortest}, hint=hint)
    if wanted.at is not None and not now + nearest <= wanted.at < ends_at:
        detail = f"at has to be at least {format_duration(nearest)} ahead, and before the schedule expires."
        return Refusal(code="bad_time", detail=detail, hint="Give another at, or a longer expires.")
    brief = from_json(RunSpec, json.loads(target.asking.brief), load_trigger)
    return Schedule(
        target=target.row.name,
        name=wanted.name,
        trigger=trigger,
        policies=_limit(policies, nearest, ends_at),
        prompt=wanted.prompt.replace("{{", "\\{{"),  # a model's text is no template
        resume_session=False,
        workspace=brief.workspace,
        isolation=brief.isolation,
        tool_policy=brief.tool_policy,
        on_denied=brief.on_denied,
        account=brief.account,
        origin=CreatedVia.MCP,
    )


def _parse_trigger(wanted: WantedSchedule, zone: ZoneInfo) -> Trigger | Refusal:
    try:
        if wanted.at is not None:
            return Delay(wanted.at)
        return Interval.parse(wanted.every) if wanted.every else Cron.parse(wanted.cron, zone)
    except SchedulerError as error:
        return Refusal(code="bad_trigger", detail=truncate_for_message(error.message, 200), hint=error.hint)


def _find_end(now: datetime, policies: Policies, wanted: WantedSchedule) -> datetime | Refusal:
    """Return when it expires: at the latest with the schedule that asks."""
    seconds = DEFAULT_LIFETIME.total_seconds() if wanted.expires_s is None else wanted.expires_s
    if not 0 < seconds <= MAX_LIFETIME.total_seconds():  # NaN, too
        longest = format_duration(MAX_LIFETIME)
        detail, hint = f"expires has to be at most {longest}.", f"Call it again with expires={longest}, or less."
        return Refusal(code="too_long", detail=detail, accepted={"expires": longest}, hint=hint)
    last = policies.bounds.ends_at
    end = now + timedelta(seconds=seconds)
    return end if last is None else min(end, last)


def _limit(policies: Policies, nearest: timedelta, ends_at: datetime) -> Policies:
    """Return the policies of the asking schedule for a new one. A cron expression of an agent keeps a distance, too.

    It has no wakes of its own: ten schedules would have ten times the wakes of a day.
    """
    return replace(
        policies,
        limits=Limits(at_least=nearest, at_most=policies.limits.at_most),
        bounds=Bounds(ends_at=ends_at),
        first_run=FirstRun.AFTER_INTERVAL,
        wakes_per_day=0,
        adapt=(),
        dedup=None,
        when=None,
        max_queued=None,
    )


def _read_created(tx: Transaction, target: _OwnTarget) -> dict[int, ScheduleSnapshot]:
    return tx.schedules(list(target.created.values())) if target.created else {}


def _has_ended(schedule: ScheduleSnapshot, now: datetime) -> bool:
    ends_at = schedule.plan.policies.bounds.ends_at
    return ends_at is not None and ends_at <= now


def _find_same(tx: Transaction, target: _OwnTarget, wanted: Schedule) -> OwnScheduleResult | None:
    """Return the schedule if it is already as it is wanted."""
    number = target.created.get(wanted.name)
    if number is None:
        return None
    stored, row = tx.schedules([number])[number], target.schedules[wanted.name][1]
    prompt = from_json(RunSpec, json.loads(row.brief), load_trigger).prompt
    ends_at = stored.plan.policies.bounds.ends_at
    until = cast("datetime", wanted.policies.bounds.ends_at)
    is_same_end = ends_at is not None and abs(until - ends_at) < _SAME_END
    if (stored.plan.trigger, prompt) != (wanted.trigger, wanted.prompt) or not is_same_end:
        return None
    return _describe(stored, display_name(target.row.name, wanted.name), None)


def _describe(schedule: ScheduleSnapshot, label: str, what: ChangeKind | None) -> OwnScheduleResult:
    return OwnScheduleResult(
        label=label, what=what, ends_at=schedule.plan.policies.bounds.ends_at, next_run_at=schedule.next_run_at
    )
