"""One schedule entry -> a Schedule, or the reasons why there is none."""

from contextlib import suppress
from dataclasses import dataclass

from herdbeat.config.adapt import read_rules
from herdbeat.config.drafts import Draft
from herdbeat.config.entries import Entry
from herdbeat.config.forms import NAME
from herdbeat.config.keys import schedule as keys
from herdbeat.config.keys.policies import TIMEZONE
from herdbeat.config.policies import note_idle_policies, read_policies, refuse_crossed
from herdbeat.config.prompts import check_prompts
from herdbeat.config.report import Misfit, Report
from herdbeat.config.settings import Settings
from herdbeat.config.triggers import read_trigger, refuse_outside_hours, trigger_kind
from herdbeat.config.values import Value
from herdbeat.config.work import check_repository, read_work_source
from herdbeat.domain.policies import Policies
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import ToolMode, ToolPolicy
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import HerdbeatError, Place
from herdbeat.located import Located


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSchedule:
    """A schedule, and each of its values with its origin."""

    schedule: Schedule
    values: tuple[Value, ...]


def read_schedule(draft: Draft, entry: Entry, report: Report) -> ReadSchedule | None:
    """The schedule; None after every problem it has was reported."""
    mark = report.errors
    NAME.check(Located(entry.name, entry.written.label, written=entry.name), report)
    keys.SCHEDULE.check(entry.node, report)
    kind = _kind(entry, report)
    if kind is None:
        return None
    settings = Settings(entry.node, f"{draft.kind.section}.{draft.name}.schedules.{entry.name}")
    if report.errors > mark:
        _look_further(draft, entry, settings, kind, report)
        return None
    settings.values.append(Value(path=f"{settings.path}.type", value=str(kind), origin=_place_of_trigger(entry)))
    zone = settings.take(TIMEZONE, entry.zone.zone, entry.zone.origin)
    trigger = read_trigger(settings, kind, zone, report)
    rules = read_rules(entry.node, draft.rules, report)
    refuse_crossed(settings, report)
    check_prompts(draft, entry, kind, report)
    check_repository(draft, entry.node, report)
    note_idle_policies(entry.written, kind, report)
    if trigger is None or report.errors > mark:
        return None
    policies = read_policies(settings, zone, kind, draft.kind, rules)
    if not _can_fire(entry, trigger, policies, report):
        return None
    schedule = _schedule(draft, entry, settings, trigger=trigger, policies=policies)
    return ReadSchedule(schedule=schedule, values=tuple(settings.values))


def _kind(entry: Entry, report: Report) -> TriggerKind | None:
    try:
        return trigger_kind(entry.node, report)
    except HerdbeatError:
        return None  # a bad `type` was reported by the check of all keys


def _look_further(draft: Draft, entry: Entry, settings: Settings, kind: TriggerKind, report: Report) -> None:
    """Another key is wrong already; what else is wrong is still told in the same breath."""
    zone = entry.zone.zone
    with suppress(HerdbeatError):
        zone = TIMEZONE.of(settings.node) or zone
    read_trigger(settings, kind, zone, report)
    read_rules(entry.node, draft.rules, report)
    check_prompts(draft, entry, kind, report)
    check_repository(draft, entry.node, report)
    with suppress(HerdbeatError):
        refuse_crossed(settings, report)


def _can_fire(entry: Entry, trigger: Trigger, policies: Policies, report: Report) -> bool:
    try:
        refuse_outside_hours(trigger, policies.active_hours)
    except Misfit as error:
        report.misfit(error, entry.node.find(("active_hours",)))
        return False
    return True


def _schedule(draft: Draft, entry: Entry, settings: Settings, *, trigger: Trigger, policies: Policies) -> Schedule:
    resumes = settings.take(keys.SESSION, "fresh") == "resume"
    return Schedule(
        target=draft.name,
        name=entry.name,
        trigger=trigger,
        policies=policies,
        prompt=settings.maybe(keys.PROMPT),
        enabled=settings.take(keys.ENABLED, default=True),
        work_source=read_work_source(draft, settings),
        resume_session=settings.take(keys.RESUME_SESSION, default=resumes),
        output_to_file=settings.take(keys.OUTPUT_TO_FILE, default=False),
        tool_policy=read_tool_policy(entry.node) if settings.maybe(keys.TOOL_POLICY) else None,
        secret_env=settings.maybe(keys.SECRET_ENV),
        secret=settings.maybe(keys.SECRET),
        origin=entry.written.label,
    )


def read_tool_policy(node: Located) -> ToolPolicy | None:
    """The tool policy of a checked schedule or agent."""
    block = node.child("tool_policy")
    if block is None or not isinstance(block.value, dict):
        return None
    return ToolPolicy(mode=keys.MODE.of(block) or ToolMode.ALLOW_ALL, tools=keys.TOOLS.of(block) or ())


def _place_of_trigger(entry: Entry) -> Place:
    found = (entry.node.child(key.name) for key in keys.TRIGGER_KEYS)
    return next((child.place for child in found if child is not None), entry.written.place)
