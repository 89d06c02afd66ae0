"""One schedule entry -> a Schedule, or the reasons why there is none."""

from contextlib import suppress
from dataclasses import dataclass

from herdbeat.config.adapt import build_rules
from herdbeat.config.drafts import TargetSource
from herdbeat.config.entries import ScheduleSource
from herdbeat.config.forms import NAME
from herdbeat.config.keys import schedule as keys
from herdbeat.config.keys.policies import TIMEZONE
from herdbeat.config.policies import build_policies, check_crossed_limits, warn_unused_policies
from herdbeat.config.prompts import check_prompts
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.settings import SectionReader
from herdbeat.config.triggers import build_trigger, detect_trigger_kind, require_reachable_active_hours
from herdbeat.config.values import ResolvedValue
from herdbeat.config.work import build_work_source, check_repository
from herdbeat.domain.policies import Policies
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import ToolMode, ToolPolicy
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import HerdbeatError, SourceLocation
from herdbeat.located import ConfigNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSchedule:
    """A schedule, and each of its values with its origin."""

    schedule: Schedule
    values: tuple[ResolvedValue, ...]


def build_schedule(
    target_source: TargetSource, schedule_source: ScheduleSource, diagnostics: Diagnostics
) -> ResolvedSchedule | None:
    """The schedule; None after every problem it has was reported."""
    errors_before = diagnostics.error_count
    NAME.validate(
        ConfigNode(schedule_source.name, schedule_source.raw.report_location, raw=schedule_source.name), diagnostics
    )
    keys.SCHEDULE.validate(schedule_source.node, diagnostics)
    kind = _detect_kind(schedule_source, diagnostics)
    if kind is None:
        return None
    settings = SectionReader(
        schedule_source.node, f"{target_source.kind.section}.{target_source.name}.schedules.{schedule_source.name}"
    )
    if diagnostics.error_count > errors_before:
        _report_remaining_problems(target_source, schedule_source, settings, kind, diagnostics)
        return None
    settings.values.append(
        ResolvedValue(path=f"{settings.path}.type", value=str(kind), origin=_trigger_location(schedule_source))
    )
    zone = settings.get(TIMEZONE, schedule_source.zone.zone, schedule_source.zone.origin)
    trigger = build_trigger(settings, kind, zone, diagnostics)
    rules = build_rules(schedule_source.node, target_source.rules, diagnostics)
    check_crossed_limits(settings, diagnostics)
    check_prompts(target_source, schedule_source, kind, diagnostics)
    check_repository(target_source, schedule_source.node, diagnostics)
    warn_unused_policies(schedule_source.raw, kind, diagnostics)
    if trigger is None or diagnostics.error_count > errors_before:
        return None
    policies = build_policies(settings, zone, kind, target_source.kind, rules)
    if not _can_fire(schedule_source, trigger, policies, diagnostics):
        return None
    schedule = _assemble_schedule(target_source, schedule_source, settings, trigger=trigger, policies=policies)
    return ResolvedSchedule(schedule=schedule, values=tuple(settings.values))


def _detect_kind(schedule_source: ScheduleSource, diagnostics: Diagnostics) -> TriggerKind | None:
    try:
        return detect_trigger_kind(schedule_source.node, diagnostics)
    except HerdbeatError:
        return None  # a bad `type` was reported by the check of all keys


def _report_remaining_problems(
    target_source: TargetSource,
    schedule_source: ScheduleSource,
    settings: SectionReader,
    kind: TriggerKind,
    diagnostics: Diagnostics,
) -> None:
    """Another key is wrong already; what else is wrong is still told in the same breath."""
    zone = schedule_source.zone.zone
    with suppress(HerdbeatError):
        zone = TIMEZONE.get(settings.node) or zone
    build_trigger(settings, kind, zone, diagnostics)
    build_rules(schedule_source.node, target_source.rules, diagnostics)
    check_prompts(target_source, schedule_source, kind, diagnostics)
    check_repository(target_source, schedule_source.node, diagnostics)
    with suppress(HerdbeatError):
        check_crossed_limits(settings, diagnostics)


def _can_fire(schedule_source: ScheduleSource, trigger: Trigger, policies: Policies, diagnostics: Diagnostics) -> bool:
    try:
        require_reachable_active_hours(trigger, policies.active_hours)
    except ValidationError as error:
        diagnostics.add(error, schedule_source.node.find(("active_hours",)))
        return False
    return True


def _assemble_schedule(
    target_source: TargetSource,
    schedule_source: ScheduleSource,
    settings: SectionReader,
    *,
    trigger: Trigger,
    policies: Policies,
) -> Schedule:
    resumes = settings.get(keys.SESSION, "fresh") == "resume"
    return Schedule(
        target=target_source.name,
        name=schedule_source.name,
        trigger=trigger,
        policies=policies,
        prompt=settings.get_optional(keys.PROMPT),
        enabled=settings.get(keys.ENABLED, default=True),
        work_source=build_work_source(target_source, settings),
        resume_session=settings.get(keys.RESUME_SESSION, default=resumes),
        output_to_file=settings.get(keys.OUTPUT_TO_FILE, default=False),
        tool_policy=build_tool_policy(schedule_source.node) if settings.get_optional(keys.TOOL_POLICY) else None,
        secret_env=settings.get_optional(keys.SECRET_ENV),
        secret=settings.get_optional(keys.SECRET),
        origin=schedule_source.raw.report_location,
    )


def build_tool_policy(node: ConfigNode) -> ToolPolicy | None:
    """The tool policy of a checked schedule or agent."""
    block = node.child("tool_policy")
    if block is None or not isinstance(block.value, dict):
        return None
    return ToolPolicy(mode=keys.MODE.get(block) or ToolMode.ALLOW_ALL, tools=keys.TOOLS.get(block) or ())


def _trigger_location(schedule_source: ScheduleSource) -> SourceLocation:
    found = (schedule_source.node.child(key.name) for key in keys.TRIGGER_KEYS)
    return next((child.location for child in found if child is not None), schedule_source.raw.location)
