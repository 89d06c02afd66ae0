"""One schedule source to a Schedule, or to the reasons why there is none."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.config.build_isolation import build_isolation, build_workspace
from herdbeat.config.build_policies import build_policies, check_crossed_limits, warn_unused_policies
from herdbeat.config.build_webhook import build_webhook
from herdbeat.config.diagnostics import Diagnostics, ValidationError, find_closest_match, key_name, redact_value
from herdbeat.config.nodes import ConfigNode, PlainData, mark_references
from herdbeat.config.provenance import ResolvedValue, SectionReader, build_value, to_config_value
from herdbeat.config.schema import schedule as keys
from herdbeat.config.schema.agent import SESSION_MODE, SESSION_TABLE
from herdbeat.config.schema.formats import NAME
from herdbeat.config.schema.isolation import ISOLATION, SCHEDULE_ISOLATION, SCHEDULE_WORKSPACE, WORKSPACE
from herdbeat.config.schema.policies import ADAPT, TIMEZONE
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.work import AUTH, LABELS, WORK_SOURCE_TABLE
from herdbeat.config.sources import ScheduleSource, TargetSource
from herdbeat.domain.isolation import IsolationSpec
from herdbeat.domain.policies import ActiveHours, Policies
from herdbeat.domain.references import keep_data_references, keep_spec_references
from herdbeat.domain.schedule import RunSpec, Schedule
from herdbeat.domain.target import TargetKind, ToolPolicy
from herdbeat.domain.trigger import IntervalAnchor, Trigger, TriggerKind
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, Severity, did_you_mean_suffix
from herdbeat.prompts import validate_prompt
from herdbeat.rules.rule import name_rules
from herdbeat.triggers import Cron, Delay, FixedRate, Interval, load_trigger

_KEY_BY_KIND = {TriggerKind.INTERVAL: keys.INTERVAL, TriggerKind.CRON: keys.CRON, TriggerKind.DELAY: keys.AT}
DEFAULT_SESSION_TIMEOUT = timedelta(hours=24)
_MISSING_TRIGGER_HINT = 'Add every: 5m, cron: "0 9 * * *", at: a date and time, or type: manual.'
_SEARCH_START = datetime(2026, 1, 1, tzinfo=UTC)
_SEARCH_END = _SEARCH_START + timedelta(days=366 * 41)
_GITHUB_DEFAULT_KEYS = ("item", "claim", "state", "filter_labels", "exclude_labels", "cleanup_on_failure", "attempts")
"""In the order in which stored work sources have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSchedule:
    """A schedule, and each of its values with its origin."""

    schedule: Schedule
    values: tuple[ResolvedValue, ...]


def build_schedule(
    source: TargetSource, schedule_source: ScheduleSource, diagnostics: Diagnostics
) -> ResolvedSchedule | None:
    """Return the schedule; None after every problem it has was reported."""
    errors_before = diagnostics.error_count
    node, name = schedule_source.node, schedule_source.name
    NAME.validate(ConfigNode(name, schedule_source.raw.report_location, raw=name), diagnostics)
    keys.SCHEDULE.validate(node, diagnostics)
    _check_agent_only_keys(source.kind, node, diagnostics)
    has_valid_keys = diagnostics.error_count == errors_before
    kind = detect_trigger_kind(node, diagnostics)
    if kind is None:
        return None
    path = f"{source.kind.section}.{source.name}.schedules.{name}"
    settings = SectionReader(node, path, kinds=(kind, source.kind))
    written = (node.child(key.name) for key in keys.TRIGGER_KEYS)
    origin = next((child.location for child in written if child is not None), schedule_source.raw.location)
    settings.values.append(ResolvedValue(path=f"{path}.type", value=str(kind), origin=origin))
    # A key that is wrong was reported above. What else is wrong is reported in the same load, so checks that need
    # such a key give up, and the others still run.
    zone = schedule_source.zone.zone
    with suppress(HerdbeatError):
        zone = settings.get(TIMEZONE, zone, schedule_source.zone.origin)
    trigger = build_trigger(settings, kind, zone, diagnostics)
    if kind is TriggerKind.WEBHOOK:
        trigger = build_webhook(source.fleet.tree, node, diagnostics)
    elif has_valid_keys:
        _warn_unused_auth(schedule_source.raw, kind, diagnostics)
    if isinstance(trigger, Delay) and name in source.imported:
        trigger = replace(trigger, is_workflow=True)
    rules = build_rules(node, source.fleet.rules, diagnostics)
    with suppress(HerdbeatError):
        check_crossed_limits(settings, diagnostics)
    check_prompt(source, node, kind, diagnostics)
    check_repository(source, node, diagnostics)
    if has_valid_keys:
        warn_unused_policies(schedule_source.raw, kind, diagnostics)
    if trigger is None or diagnostics.error_count > errors_before:
        return None
    policies = build_policies(settings, zone, rules)
    if not _can_meet_active_hours(trigger, policies.active_hours):
        message = f"The schedule never fires inside its active hours {policies.active_hours}."
        hint = "Widen active_hours, or move the cron expression into them."
        diagnostics.error(Code.NEVER_FIRES, message, node.find(("active_hours",)).location, hint)
        return None
    schedule = _assemble_schedule(source, schedule_source, settings, trigger, policies)
    return ResolvedSchedule(schedule=schedule, values=tuple(settings.values))


def _check_agent_only_keys(kind: TargetKind, node: ConfigNode, diagnostics: Diagnostics) -> None:
    """Report a workspace or an isolation of another kind of target: it would run without."""
    if kind is TargetKind.AGENT:
        return
    for name in (WORKSPACE.name, ISOLATION.name):
        child = node.child(name)
        if child is not None:
            message = f'Only agents can have "{name}".'
            hint = "Write the program under agents, with runtime: command."
            diagnostics.error(Code.INVALID_VALUE, message, child.report_location, hint)


def _warn_unused_auth(written: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    child = written.child(keys.WEBHOOK_AUTH.name)
    if child is not None:
        message = f'"auth" has no effect on a schedule of type {kind}.'
        diagnostics.warning(Code.NOT_SERVED, message, child.report_location, "Remove it, or write type: webhook.")


def _get_chat_expiry(target: ConfigNode) -> timedelta | None:
    """Return how long a conversation can be resumed by the chat block; the longest, if it has several connectors."""
    chat = target.child("chat")
    blocks = list(chat.value.values()) if chat is not None and isinstance(chat.value, dict) else []
    hours = [each.find(("session_expiry_hours",)).value for each in blocks]
    valid = [each for each in hours if isinstance(each, int) and not isinstance(each, bool) and 0 < each < 100_000]
    return timedelta(hours=max(valid)) if valid else None


def _assemble_schedule(
    source: TargetSource, schedule_source: ScheduleSource, settings: SectionReader, trigger: Trigger, policies: Policies
) -> Schedule:
    # The order of the calls is the order of `config show`.
    settings.get_optional(keys.SCHEDULE_SESSION)
    resumes = get_resume_session(schedule_source.node)
    if resumes is None:
        resumes = get_resume_session(source.node) or False
    timeout = get_session_timeout(schedule_source.node)
    if timeout is None and trigger.kind is TriggerKind.CHAT:
        timeout = _get_chat_expiry(source.node)
    timeout = timeout or get_session_timeout(source.node) or DEFAULT_SESSION_TIMEOUT
    settings.get_optional(keys.PROMPT)
    # What a run needs keeps its references: see `domain.references`.
    marked = mark_references(settings.node)
    run_spec = keep_spec_references(
        RunSpec(prompt=keys.PROMPT.get(marked), isolation=_build_schedule_isolation(source, settings, marked))
    )
    return Schedule(
        target=source.name,
        name=schedule_source.name,
        trigger=trigger,
        policies=policies,
        prompt=run_spec.prompt,
        variables=run_spec.variables,
        enabled=settings.get(keys.ENABLED),
        work_source=build_work_source(source, settings),
        resume_session=settings.get(keys.RESUME_SESSION, default=resumes),
        session_timeout=timeout,
        account=settings.get_optional(keys.SCHEDULE_ACCOUNT),
        on_denied=settings.get_optional(keys.SCHEDULE_ON_DENIED),
        workspace=build_workspace(schedule_source.node) if settings.get_optional(SCHEDULE_WORKSPACE) else None,
        isolation=run_spec.isolation,
        output_to_file=settings.get(keys.OUTPUT_TO_FILE),
        tool_policy=build_tool_policy(schedule_source.node) if settings.get_optional(keys.TOOL_POLICY) else None,
        secret_env=settings.get_optional(keys.SECRET_ENV),
        secret=settings.get_optional(keys.SECRET),
        origin=schedule_source.raw.report_location,
    )


def _build_schedule_isolation(
    source: TargetSource, settings: SectionReader, marked: ConfigNode
) -> IsolationSpec | None:
    is_written = settings.get_optional(SCHEDULE_ISOLATION) is not None
    return build_isolation(marked, mark_references(source.node)) if is_written else None


def build_tool_policy(node: ConfigNode) -> ToolPolicy | None:
    """Return the tool policy of a validated schedule or agent."""
    block = node.child("tool_policy")
    if block is None or not isinstance(block.value, dict):
        return None
    return build_value(ToolPolicy, SectionReader(block, "").read((keys.MODE, keys.TOOLS)))


# Triggers.


def detect_trigger_kind(node: ConfigNode, diagnostics: Diagnostics) -> TriggerKind | None:
    """Return the kind that `type` names, or that the one trigger key implies; None after a problem was reported."""
    try:
        written_kind = keys.TYPE.get(node)
    except HerdbeatError:
        return None  # the check of all keys has reported it
    if written_kind is not None:
        kind = TriggerKind(written_kind)
        _warn_unused_trigger_keys(node, kind, diagnostics)
        return kind
    implied = [kind for kind, key in _KEY_BY_KIND.items() if node.child(key.name) is not None]
    if len(implied) == 1:
        return implied[0]
    if not implied:
        diagnostics.error(Code.MISSING_KEY, "The schedule has no trigger.", node.report_location, _MISSING_TRIGGER_HINT)
        return None
    first, second = (node.find((_KEY_BY_KIND[kind].name,)) for kind in implied[:2])
    message = f'"{key_name(first)}" and "{key_name(second)}" cannot be used together.'
    diagnostics.error(Code.CONFLICTING_KEYS, message, second.report_location, "Remove one of them.")
    return None


def build_trigger(
    settings: SectionReader, kind: TriggerKind, zone: ZoneInfo, diagnostics: Diagnostics
) -> Trigger | None:
    """Return the trigger; None after its problem was reported at the value that is wrong."""
    if kind.waits_for_event:
        return load_trigger(kind, {})
    key = _KEY_BY_KIND[kind]
    child = settings.node.child(key.name)
    if child is None:
        hint = f"Add {key.name}. {key.meaning}"
        diagnostics.error(Code.MISSING_KEY, f'Type {kind} needs "{key.name}".', settings.node.report_location, hint)
        return None
    try:
        text = settings.get(key)
        if kind is TriggerKind.CRON:
            return Cron.parse(text, zone)
        if kind is TriggerKind.DELAY:
            return Delay.parse(text)
        return _choose_interval_type(settings).parse(text)
    except HerdbeatError as error:
        diagnostics.add(redact_value(error, child, key.field_type.describe()), child)
    return None


def _choose_interval_type(settings: SectionReader) -> type[Interval]:
    with suppress(HerdbeatError):  # the check of all keys has reported it
        return FixedRate if settings.get(keys.ANCHOR) is IntervalAnchor.START else Interval
    return Interval


def _warn_unused_trigger_keys(node: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    for other, key in _KEY_BY_KIND.items():
        child = node.child(key.name)
        if other is not kind and child is not None:
            message = f'"{key_name(child)}" has no effect on a schedule of type {kind}.'
            hint = "Remove it, or change the type."
            diagnostics.warning(Code.NOT_SERVED, message, child.report_location, hint)


def _can_meet_active_hours(trigger: Trigger, hours: ActiveHours | None) -> bool:
    """Return False for a cron schedule that never falls into its active hours.

    Tries the first instant after each opening of the window: for a year of openings, and for rarer expressions until
    every combination of leap year and weekday has occurred.
    """
    if hours is None or trigger.kind is not TriggerKind.CRON:
        return True
    moment = _SEARCH_START
    for _ in range(370):
        instant = trigger.next_time(None, hours.next_opening(moment) - timedelta(seconds=1))
        if instant is None or instant > _SEARCH_END:
            return False
        if hours.contains(instant):
            return True
        moment = instant
    return False


# Rules, prompts and work sources.


def build_rules(
    schedule: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics
) -> tuple[Mapping[str, object], ...]:
    """Return the rules in order, named sets expanded. A set that does not exist is reported; sets do not nest."""
    nodes = list(expand_rule_sets(schedule, sets, diagnostics))
    if not nodes:
        return ()
    rules = [rule if isinstance(rule, dict) else {} for rule in (node.to_data() for node in nodes)]
    names = name_rules(rules)
    for number, node in enumerate(nodes):
        if names[number] in names[:number]:  # each has a state of its own, by its name
            message = f'Another rule of this schedule is named "{names[number]}".'
            where = node.find(("name",)).location
            diagnostics.error(Code.CONFLICTING_KEYS, message, where, "Give each rule a name of its own.")
    return tuple(rules)


def expand_rule_sets(schedule: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> Iterator[ConfigNode]:
    """Yield the rules of a schedule, each `use:` replaced by the rules of its set."""
    adapt = schedule.child(ADAPT.name)
    for rule in adapt.elements() if adapt is not None else ():
        name = rule.child("use")
        if name is None:
            yield rule
            continue
        rule_set = sets.child(str(name.value)) if sets is not None else None
        if rule_set is None:
            _report_unknown_rule_set(name, sets, diagnostics)
            continue
        yield from rule_set.elements()


def _report_unknown_rule_set(name: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> None:
    known = [each for each, _ in sets.items()] if sets is not None else []
    guess = find_closest_match(str(name.value), known)
    message = f'There is no rule set "{name.value}"{did_you_mean_suffix(guess)}'
    diagnostics.error(
        Code.INVALID_VALUE, message, name.location, f"Rule sets under rules: {', '.join(known) or 'none'}."
    )


def check_prompt(source: TargetSource, schedule: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    """Validate the schedule's prompt, or the agent's default that it falls back to."""
    prompt = schedule.child("prompt")
    if prompt is None or prompt.value is None:
        prompt = source.node.child("default_prompt")
    if prompt is None or not isinstance(prompt.value, str) or prompt.undefined_variable:
        return
    # An empty line is an input that a program may want; an agent is given nothing to do by it.
    is_input = source.kind is not TargetKind.AGENT and "\n" in prompt.value
    if not prompt.value.strip() and not is_input and not diagnostics.is_foreign(prompt.location):
        hint = "Set a value or remove the key."
        diagnostics.add(ValidationError(Code.INVALID_VALUE, f"{key_name(prompt)} is empty.", hint), prompt)
        return
    work_source = schedule.child("work_source")
    has_work = work_source is not None and work_source.value is not None
    # In another tool's file unknown braces are text: that tool leaves them as they are.
    severity = Severity.WARNING if diagnostics.is_foreign(prompt.location) else Severity.ERROR
    for error in validate_prompt(prompt.value, kind, has_work=has_work):
        diagnostics.add(error, prompt, severity)


def check_repository(source: TargetSource, schedule: ConfigNode, diagnostics: Diagnostics) -> None:
    """Report a github source without a repository, its own or the agent's."""
    work_source = schedule.child(keys.WORK_SOURCE.name)
    if work_source is None or work_source.find(("type",)).value != "github":
        return
    if work_source.child("repo") is not None or source.node.child("repo") is not None:
        return
    # herdctl never polls its sources, and its own examples name no repository: such a file must load.
    severity = Severity.WARNING if diagnostics.is_foreign(work_source.report_location) else Severity.ERROR
    message = "The github work source has no repository and will find no work."
    problem = ValidationError(Code.MISSING_KEY, message, "Add repo: owner/name.", work_source.report_location)
    diagnostics.add(problem, work_source, severity)


def build_work_source(source: TargetSource, settings: SectionReader) -> Mapping[str, object] | None:
    """Return the source as plain data. A directory is absolute; a repository may be the agent's own."""
    settings.get_optional(keys.WORK_SOURCE)
    written = keys.WORK_SOURCE.get(mark_references(settings.node))
    return keep_data_references(_complete_work_source(source, written)) if isinstance(written, dict) else None


def _complete_work_source(source: TargetSource, written: Mapping[str, PlainData]) -> dict[str, object]:
    defaults = _get_declared_defaults(WORK_SOURCE_TABLE)
    labels, auth = written.get("labels"), written.get("auth")
    all_labels = _get_declared_defaults(LABELS) | (labels if isinstance(labels, dict) else {})
    match written.get("type"):
        case "directory":
            return {"attempts": defaults["attempts"], **written, "path": str(source.home / str(written["path"]))}
        case "command":
            folder = str(source.home / str(written.get("working_directory") or ""))
            return {"attempts": defaults["attempts"], **written, "working_directory": folder}
        case "linear":
            return {"attempts": defaults["attempts"], **written, "labels": all_labels}
    repo = source.node.child("repo")
    all_auth: dict[str, PlainData] = _get_declared_defaults(AUTH) | (auth if isinstance(auth, dict) else {})
    if "private_key_file" in all_auth:
        all_auth["private_key_file"] = str(source.home / str(all_auth["private_key_file"]))
    return {
        "repo": repo.value if repo else None,
        **{name: defaults.get(name, []) for name in _GITHUB_DEFAULT_KEYS},
        **written,
        "labels": all_labels,
        "auth": all_auth,
    }


def _get_declared_defaults(table: Table) -> dict[str, PlainData]:
    return {key.name: to_config_value(key.default_value()) for key in table.keys if key.default}


# Sessions of agents.


def get_session_block(node: ConfigNode) -> ConfigNode:
    """Return the `session` block of an agent or a schedule, whose short form is a word: `session: resume`."""
    session = node.child("session")
    if session is None or isinstance(session.value, dict):
        return session or ConfigNode({}, node.location)
    return ConfigNode({SESSION_MODE.name: session}, session.location)


def get_session_timeout(node: ConfigNode) -> timedelta | None:
    """Return how long a session can be resumed; None if the node does not say."""
    timeout = _read_session_key(SESSION_TABLE.by_name["timeout"], node)
    return timeout if isinstance(timeout, timedelta) else None


def get_resume_session(node: ConfigNode) -> bool | None:
    """Return whether `session` says to resume; None if it says nothing about it."""
    mode = _read_session_key(SESSION_MODE, node)
    return None if mode is None else mode == "resume"


def _read_session_key(key: Field[object], node: ConfigNode) -> object:
    try:
        return key.get(get_session_block(node))
    except HerdbeatError:
        return None  # the check of all keys has reported it
