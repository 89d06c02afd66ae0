"""One schedule entry -> a Schedule, or the reasons why there is none."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.config.build_policies import build_policies, check_crossed_limits, warn_unused_policies
from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.nodes import ConfigNode, PlainData
from herdbeat.config.provenance import ResolvedValue, SectionReader, build_value, to_config_value
from herdbeat.config.schema import schedule as keys
from herdbeat.config.schema.formats import NAME
from herdbeat.config.schema.messages import find_closest_match, key_name, redact_value
from herdbeat.config.schema.policies import ADAPT, TIMEZONE
from herdbeat.config.schema.schedule import AT, CRON, INTERVAL, TYPE, WORK_SOURCE
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.work import AUTH, LABELS, WORK_SOURCE_TABLE
from herdbeat.config.sources import ScheduleSource, TargetSource
from herdbeat.domain.policies import ActiveHours, Policies
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import ToolPolicy
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, Severity, SourceLocation, did_you_mean_suffix
from herdbeat.prompts import validate_prompt
from herdbeat.triggers import Chat, Cron, Delay, Interval, Manual, Webhook

# The rules of a schedule, with the named sets it uses put in.


def build_rules(
    schedule: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics
) -> tuple[Mapping[str, object], ...]:
    """The rules in order. A set that does not exist is reported; sets do not nest."""
    adapt = schedule.child(ADAPT.name)
    if adapt is None:
        return ()
    return tuple(_rule_to_dict(rule) for rule in _expand_rule_sets(adapt, sets, diagnostics))


def _expand_rule_sets(adapt: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> Iterator[ConfigNode]:
    for rule in adapt.elements():
        name = rule.child("use")
        if name is None:
            yield rule
            continue
        found = sets.child(str(name.value)) if sets is not None else None
        if found is None:
            _report_unknown_rule_set(name, sets, diagnostics)
            continue
        yield from found.elements()


def _report_unknown_rule_set(name: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> None:
    known = [each for each, _ in sets.items()] if sets is not None else []
    guess = find_closest_match(str(name.value), known)
    listed = ", ".join(known) or "none"
    message = f'There is no set of rules "{name.value}"{did_you_mean_suffix(guess)}'
    diagnostics.error(Code.INVALID_VALUE, message, name.location, f"Sets under rules: {listed}.")


def _rule_to_dict(rule: ConfigNode) -> Mapping[str, object]:
    plain = rule.to_data()
    return dict(plain) if isinstance(plain, dict) else {}


# Prompts, checked when they are written: strictly in our files, mildly in those of other tools.


def check_prompts(
    target_source: TargetSource, schedule_source: ScheduleSource, kind: TriggerKind, diagnostics: Diagnostics
) -> None:
    """The schedule's prompt, or the one it falls back to."""
    prompt = schedule_source.node.child("prompt")
    if prompt is None or prompt.value is None:
        prompt = target_source.node.child("default_prompt")
    if prompt is not None:
        has_work = _has_work_source(schedule_source.node.child("work_source"))
        check_prompt(prompt, kind, diagnostics, has_work=has_work)


def check_prompt(prompt: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics, *, has_work: bool) -> None:
    if not isinstance(prompt.value, str) or prompt.undefined_variable:
        return
    # In another tool's file unknown braces are text: it would have left them as they are (SEMANTICS 38).
    severity = Severity.WARNING if diagnostics.is_foreign(prompt.location) else Severity.ERROR
    for error in validate_prompt(prompt.value, kind, has_work=has_work):
        diagnostics.add(error, prompt, severity)


def _has_work_source(work_source: ConfigNode | None) -> bool:
    return work_source is not None and work_source.value is not None


# A schedule's trigger keys -> its Trigger.


_KEY_BY_KIND: dict[TriggerKind, Field[str]] = {
    TriggerKind.INTERVAL: INTERVAL,
    TriggerKind.CRON: CRON,
    TriggerKind.DELAY: AT,
}
_EVENT_TRIGGERS = {TriggerKind.WEBHOOK: Webhook, TriggerKind.CHAT: Chat, TriggerKind.MANUAL: Manual}
_SEARCH_START = datetime(2026, 1, 1, tzinfo=UTC)
_SEARCH_END = _SEARCH_START + timedelta(days=366 * 41)
_MISSING_TRIGGER_HINT = 'Add every: 5m, cron: "0 9 * * *", at: a date and time, or type: manual.'


def detect_trigger_kind(node: ConfigNode, diagnostics: Diagnostics) -> TriggerKind | None:
    """The kind that `type` names, or that the one trigger key implies; None after a problem was reported."""
    written = [kind for kind, key in _KEY_BY_KIND.items() if node.child(key.name) is not None]
    kind = TYPE.get(node)
    if kind is not None:
        _warn_unused_trigger_keys(node, TriggerKind(kind), diagnostics)
        return TriggerKind(kind)
    if len(written) == 1:
        return written[0]
    if not written:
        diagnostics.error(Code.MISSING_KEY, "The schedule has no trigger.", node.report_location, _MISSING_TRIGGER_HINT)
        return None
    first, second = (node.find((_KEY_BY_KIND[each].name,)) for each in written[:2])
    message = f'"{key_name(first)}" and "{key_name(second)}" exclude each other.'
    diagnostics.error(Code.CONFLICTING_KEYS, message, second.report_location, "Keep the one you mean.")
    return None


def build_trigger(
    settings: SectionReader, kind: TriggerKind, zone: ZoneInfo, diagnostics: Diagnostics
) -> Trigger | None:
    """The trigger; None after its problem was reported at the value that is wrong."""
    if kind in _EVENT_TRIGGERS:
        return _EVENT_TRIGGERS[kind]()
    key = _KEY_BY_KIND[kind]
    child = settings.node.child(key.name)
    if child is None:
        hint = f"Add {key.name}: {key.meaning[0].lower()}{key.meaning[1:]}"
        diagnostics.error(Code.MISSING_KEY, f'Type {kind} needs "{key.name}".', settings.node.report_location, hint)
        return None
    try:
        written = settings.get(key, "")
        return _parse_trigger(written, kind, zone)
    except HerdbeatError as error:
        diagnostics.add(redact_value(error, child, key.field_type.describe()), child)
    return None


def _parse_trigger(written: str, kind: TriggerKind, zone: ZoneInfo) -> Trigger:
    match kind:
        case TriggerKind.INTERVAL:
            return Interval.parse(written)
        case TriggerKind.CRON:
            return Cron.parse(written, zone)
        case _:
            return Delay.parse(written)


def _warn_unused_trigger_keys(node: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    for other, key in _KEY_BY_KIND.items():
        child = node.child(key.name)
        if other is not kind and child is not None:
            diagnostics.warning(
                Code.NOT_SERVED,
                f'"{key_name(child)}" has no effect: the schedule is of type {kind}.',
                child.report_location,
                "Remove it, or change the type.",
            )


def require_reachable_active_hours(trigger: Trigger, hours: ActiveHours | None) -> None:
    """Raise if a cron schedule never falls into its active hours.

    Looks at the first instant after each opening of the window: for a year of openings, and for
    rarer expressions until every combination of leap year and weekday has come by.
    """
    if hours is None or trigger.kind is not TriggerKind.CRON:
        return
    moment = _SEARCH_START
    for _ in range(370):
        found = trigger.next_time(None, _next_opening(moment, hours) - timedelta(seconds=1))
        if found is None or found > _SEARCH_END:
            break
        if hours.contains(found):
            return
        moment = found
    raise ValidationError(
        Code.NEVER_FIRES,
        f"It never fires inside its active hours {hours}.",
        hint="Widen active_hours, or move the cron expression into them.",
    )


def _next_opening(moment: datetime, hours: ActiveHours) -> datetime:
    """The next time the window opens, strictly after the moment."""
    local = moment.astimezone(hours.zone)
    opens = datetime.combine(local.date(), hours.opens, hours.zone)
    if opens.astimezone(UTC) <= moment:
        opens = datetime.combine(local.date() + timedelta(days=1), hours.opens, hours.zone)
    return opens.astimezone(UTC)


# The work source of a schedule, with its defaults resolved.


_GITHUB_DEFAULT_KEYS = (
    *("item", "claim", "state", "filter_labels"),
    *("exclude_labels", "cleanup_on_failure", "attempts"),
)
"""In the order in which stored work sources have them."""


def check_repository(target_source: TargetSource, schedule: ConfigNode, diagnostics: Diagnostics) -> None:
    """A github source needs a repository, its own or the agent's."""
    source = schedule.child(WORK_SOURCE.name)
    if source is None or source.find(("type",)).value != "github":
        return
    if source.child("repo") is not None or target_source.node.child("repo") is not None:
        return
    # herdctl never asks its sources, and its own examples name none: such a file must load.
    severity = Severity.WARNING if diagnostics.is_foreign(source.report_location) else Severity.ERROR
    message = "The github work source names no repository, so it will find no work."
    problem = ValidationError(Code.MISSING_KEY, message, hint="Add repo: owner/name.", where=source.report_location)
    diagnostics.add(problem, source, severity)


def build_work_source(target_source: TargetSource, settings: SectionReader) -> Mapping[str, object] | None:
    """The source as plain data. A directory is absolute; a repository may be the agent's own."""
    if settings.get_optional(WORK_SOURCE) is None:
        return None
    node = settings.node.child(WORK_SOURCE.name)
    assert node is not None
    written = node.to_data()
    assert isinstance(written, dict)
    defaults = _declared_defaults(WORK_SOURCE_TABLE)
    if written.get("type") == "directory":
        folder = target_source.home / str(written["path"])
        return {"attempts": defaults["attempts"], **written, "path": str(folder)}
    labels, auth = written.get("labels"), written.get("auth")
    repo = target_source.node.child("repo")
    return {
        "repo": repo.value if repo else None,
        **{name: defaults.get(name, []) for name in _GITHUB_DEFAULT_KEYS},
        **written,
        "labels": _declared_defaults(LABELS) | (labels if isinstance(labels, dict) else {}),
        "auth": _declared_defaults(AUTH) | (auth if isinstance(auth, dict) else {}),
    }


def _declared_defaults(table: Table) -> dict[str, PlainData]:
    return {key.name: to_config_value(key.default_value()) for key in table.keys if key.default}


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
    path = f"{target_source.kind.section}.{target_source.name}.schedules.{schedule_source.name}"
    settings = SectionReader(schedule_source.node, path, kinds=(kind, target_source.kind))
    if diagnostics.error_count > errors_before:
        _report_remaining_problems(target_source, schedule_source, settings, kind, diagnostics)
        return None
    settings.values.append(
        ResolvedValue(path=f"{path}.type", value=str(kind), origin=_trigger_location(schedule_source))
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
    policies = build_policies(settings, zone, rules)
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
    resumes = settings.get(keys.SESSION) == "resume"
    return Schedule(
        target=target_source.name,
        name=schedule_source.name,
        trigger=trigger,
        policies=policies,
        prompt=settings.get_optional(keys.PROMPT),
        enabled=settings.get(keys.ENABLED),
        work_source=build_work_source(target_source, settings),
        resume_session=settings.get(keys.RESUME_SESSION, default=resumes),
        output_to_file=settings.get(keys.OUTPUT_TO_FILE),
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
    return build_value(ToolPolicy, SectionReader(block, "").read((keys.MODE, keys.TOOLS)))


def _trigger_location(schedule_source: ScheduleSource) -> SourceLocation:
    found = (schedule_source.node.child(key.name) for key in keys.TRIGGER_KEYS)
    return next((child.location for child in found if child is not None), schedule_source.raw.location)
