"""Target sources and fleet settings to the Fleet. A target that is invalid is reported and left out.

Settings that are valid and have no effect are warned of: `validate` shows the warnings, `doctor` reports a problem.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from herdbeat.config.build_agent import (
    check_runtime,
    find_definition,
    normalize_runtime,
    resolve_folders,
    resolve_program,
    warn_unsupported_settings,
)
from herdbeat.config.build_isolation import build_isolation, build_workspace, warn_container_options
from herdbeat.config.build_schedule import (
    ResolvedSchedule,
    build_schedule,
    build_tool_policy,
    expand_rule_sets,
    get_session_block,
)
from herdbeat.config.build_settings import build_fleet_settings, check_callbacks, check_executor, warn_planner
from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.nodes import ConfigNode, drop_keys, get_list_data, get_mapping_data, mark_references
from herdbeat.config.provenance import (
    ResolvedValue,
    SectionReader,
    build_value,
    iter_default_values,
    iter_explicit_values,
)
from herdbeat.config.schema.agent import SESSION_TABLE
from herdbeat.config.schema.policies import BUDGET
from herdbeat.config.schema.schedule import TOOL_POLICY
from herdbeat.config.schema.targets import DESCRIPTION, INSTANCES, SPEC_KEYS, TARGET_LEVEL_KEYS, TARGET_TABLES
from herdbeat.config.sources import (
    FleetFile,
    ScheduleSource,
    TargetSource,
    iter_schedule_sources,
    warn_changed_fleet,
    warn_changed_schedule,
)
from herdbeat.domain.agent_run import find_price
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.hooks import HOOK_LISTS
from herdbeat.domain.policies import Budget
from herdbeat.domain.references import keep_data_references, keep_spec_references
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import (
    COMMAND_RUNTIME,
    SPEC_TYPES,
    AgentSpec,
    CommandSpec,
    EndpointSpec,
    Target,
    TargetKind,
    TargetSpec,
)
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation, did_you_mean_suffix
from herdbeat.runners.http.addresses import EgressAllowlist, describe_special_range, find_blocked_address


@dataclass(slots=True)
class IneffectiveBudgets:
    """The limits in dollars and tokens of targets that are no agents, with their locations in the files."""

    locations: dict[str, dict[SourceLocation, None]] = field(default_factory=dict)

    def add(self, node: ConfigNode) -> None:
        """Note each such limit of a target or a schedule."""
        budget = node.child(BUDGET.name)
        for name in _AGENT_LIMITS:
            limit = budget.child(name) if budget is not None else None
            if limit is not None and limit.value:
                self.locations.setdefault(name, {})[limit.report_location] = None

    def warn(self, diagnostics: Diagnostics) -> None:
        """Warn of each kind of limit once, at its first location."""
        for name, locations in self.locations.items():
            first, *others = locations
            more = f" (also used in {len(others)} more place{'' if len(others) == 1 else 's'})" if others else ""
            diagnostics.warning(Code.NOT_YET, f'"{name}" does not work yet: {_AGENT_LIMITS[name]}{more}.', first)


_AGENT_LIMITS = {
    "usd_per_day": "only agents report their cost, and the limit is never reached",
    "tokens_per_day": "only agents report their tokens, and the limit is never reached",
}


def warn_unknown_costs(fleet: Fleet, locations: Mapping[str, SourceLocation], diagnostics: Diagnostics) -> None:
    """Warn once per agent with a budget in dollars or tokens whose use will not be known."""
    # Most fleets have no such agent, and `validate` then needs nothing of the agents.
    for target in fleet.targets:
        if target.name in locations and (budgets := _list_limited_budgets(fleet, target)):
            problem = _describe_unknown_cost(fleet, target, budgets)
            if problem is not None:
                message, hint = problem
                diagnostics.warning(Code.UNKNOWN_COST, message, locations[target.name], hint)


def _list_limited_budgets(fleet: Fleet, target: Target) -> list[Budget]:
    """Return the budgets that count dollars or tokens of this agent."""
    own = [schedule.policies.budget for schedule in fleet.schedules if schedule.target == target.name]
    budgets = (each for each in (fleet.budget, target.budget, *own) if each is not None)
    return [each for each in budgets if each.usd_per_day is not None or each.tokens_per_day is not None]


def _describe_unknown_cost(fleet: Fleet, target: Target, budgets: list[Budget]) -> tuple[str, str] | None:
    """Return message and hint; None if the cost is known, or nothing is known of the CLI."""
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such budgets
    from herdbeat.runners.agents.price_package import is_installed  # noqa: PLC0415 - as above

    spec = target.spec
    assert isinstance(spec, AgentSpec)
    preset = find_preset(spec.runtime, {})
    if spec.preset or preset is None or preset.reports_usd:
        return None  # a definition of the user, or a program of which nothing is known, is not judged
    if not preset.reports_tokens:
        message = (
            f'Budgets in dollars and tokens have no effect on the agent "{target.name}": {preset.name} reports none.'
        )
        return message, "Set budget: { runs_per_day: ... }."
    # A budget that has tokens too is kept in tokens.
    if all(each.tokens_per_day is not None for each in budgets):
        return None
    # The package knows nearly every model, and what it does not know is shown by herdbeat cost.
    if is_installed() or find_price(fleet.prices, spec.model or "") is not None:
        return None
    subject = f'the model "{spec.model}"' if spec.model else "its model"
    message = f'The budget in dollars of the agent "{target.name}" has no effect: the price of {subject} is unknown.'
    return message, "Set budget: { tokens_per_day: ... }, add the model under prices:, or install genai-prices."


def check_hook_channels(source: TargetSource, diagnostics: Diagnostics) -> None:
    """Report each `notify:` of its hooks that is not a channel of the fleet."""
    known = [name for name, _ in source.fleet.notify.items()] if source.fleet.notify is not None else []
    for hook in _iter_hooks(source.node):
        name = hook.child("notify")
        if name is not None and isinstance(name.value, str) and name.value not in known:
            message = f'There is no channel "{name.value}"{did_you_mean_suffix(find_closest_match(name.value, known))}'
            hint = f"Channels under notify: {', '.join(known) or 'none'}."
            diagnostics.error(Code.INVALID_VALUE, message, name.location, hint)


def check_rule_targets(
    source: TargetSource, schedule: ConfigNode, targets: Collection[str], diagnostics: Diagnostics
) -> None:
    """Report each `trigger:` of its rules that is not a target; a sibling in the same sub-fleet needs no prefix."""
    prefix = source.name.rpartition(".")[0]
    for rule in expand_rule_sets(schedule, source.fleet.rules, diagnostics):
        name = rule.child("trigger")
        if name is None or not isinstance(name.value, str):
            continue
        target = name.value.partition("/")[0]
        if target not in targets and f"{prefix}.{target}" not in targets:
            message = f'There is no target "{target}"{did_you_mean_suffix(find_closest_match(target, targets))}'
            diagnostics.error(Code.UNKNOWN_TARGET, message, name.location, "Correct the name, or add the target.")


def check_triggers(schedules: Sequence[Schedule], diagnostics: Diagnostics) -> None:
    """Report rules that start a schedule which does not exist, and rules that start each other in a circle.

    At run time only the depth of the chain would end such a circle.
    """
    by_target: dict[str, list[Schedule]] = {}
    for schedule in schedules:
        by_target.setdefault(schedule.target, []).append(schedule)
    if not diagnostics.error_count:  # else a schedule may be missing because it is invalid
        _check_triggered_names(schedules, by_target, diagnostics)
    edges = {each.id: [other.id for other in _iter_triggered_schedules(each, by_target)] for each in schedules}
    reported: set[str] = set()
    for schedule in schedules:
        cycle = _find_cycle(schedule.id, edges)
        if cycle and reported.isdisjoint(cycle):
            reported.update(cycle)
            message = f"Rules start each other in a circle: {' → '.join([*cycle, cycle[0]])}."
            where = schedule.origin if isinstance(schedule.origin, SourceLocation) else None
            diagnostics.error(Code.CONFLICTING_KEYS, message, where, "Remove one trigger: of the circle.")


def _check_triggered_names(
    schedules: Sequence[Schedule], by_target: Mapping[str, list[Schedule]], diagnostics: Diagnostics
) -> None:
    for schedule in schedules:
        for trigger in _list_triggers(schedule):
            found = _find_schedules(schedule, trigger, by_target)
            if not any(_is_triggered(each, trigger, found) for each in found):
                names = ", ".join(f"{each.target}/{each.name}" for each in found) or "none"
                where = schedule.origin if isinstance(schedule.origin, SourceLocation) else None
                message = f'A rule of {schedule.label} starts "{trigger}", which is not a schedule.'
                diagnostics.error(Code.UNKNOWN_TARGET, message, where, f"Schedules of that target: {names}.")


def _list_triggers(schedule: Schedule) -> list[str]:
    return [str(rule["trigger"]) for rule in schedule.policies.adapt if rule.get("trigger")]


def _find_schedules(schedule: Schedule, trigger: str, by_target: Mapping[str, list[Schedule]]) -> list[Schedule]:
    """Return the schedules of the target that a rule names. One of the same sub-fleet needs no prefix."""
    prefix, target = schedule.target.rpartition(".")[0], trigger.partition("/")[0]
    return by_target.get(f"{prefix}.{target}") or by_target.get(target) or []


def _is_triggered(schedule: Schedule, trigger: str, found: Sequence[Schedule]) -> bool:
    wanted = trigger.partition("/")[2] or (DEFAULT_SCHEDULE_NAME if len(found) > 1 else "")
    return not wanted or schedule.name == wanted


def _iter_triggered_schedules(schedule: Schedule, by_target: Mapping[str, list[Schedule]]) -> Iterator[Schedule]:
    for trigger in _list_triggers(schedule):
        found = _find_schedules(schedule, trigger, by_target)
        yield from (each for each in found if _is_triggered(each, trigger, found))


def _find_cycle(start: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a way that leads back to the start; empty if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for following in edges.get(way[-1], ()):
            if following == start:
                return way
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []


def _iter_hooks(node: ConfigNode) -> Iterator[ConfigNode]:
    for block in (node, node.child("hooks")):
        for name in HOOK_LISTS:
            listed = block.child(name) if block is not None else None
            if listed is not None:
                yield from listed.elements()


SCHEDULE_ONLY_KEYS = {
    kind: {name for name, key in table.by_name.items() if any(key is shared_key for shared_key in TARGET_LEVEL_KEYS)}
    - {BUDGET.name, TOOL_POLICY.name if kind is TargetKind.AGENT else ""}
    for kind, table in TARGET_TABLES.items()
}
"""Keys beside a name that only schedules read. The budget is also the target's own, and the tool policy the agent's."""


def build_target(source: TargetSource, diagnostics: Diagnostics, *, has_schedules: bool) -> Target | None:
    """Return the target; None after every problem of its own keys was reported.

    Keys beside its name that are for its schedules are validated with those: a bad jitter costs the schedule, not the
    target.
    """
    errors_before = diagnostics.error_count
    deferred_keys = {"schedules"} | (SCHEDULE_ONLY_KEYS[source.kind] if has_schedules else set())
    TARGET_TABLES[source.kind].validate(drop_keys(source.node, *deferred_keys), diagnostics)
    check_hook_channels(source, diagnostics)
    if source.kind is TargetKind.AGENT:
        check_runtime(source, diagnostics)
    if source.is_invalid or diagnostics.error_count > errors_before:
        return None
    values = SectionReader(source.node, "").read((DESCRIPTION, INSTANCES, BUDGET))
    values |= {"name": source.name, "spec": _build_spec(source)}
    values |= {"hooks": _build_hooks(source), "origin": source.node.report_location}
    return build_value(Target, values)


def _build_spec(source: TargetSource) -> TargetSpec:
    """Return what a run needs of the target. Its free texts keep their references: see `domain.references`."""
    source = replace(source, node=mark_references(source.node))
    kind, node = source.kind, source.node
    values = SectionReader(node, "").read(SPEC_KEYS[kind])
    if kind in (TargetKind.AGENT, TargetKind.COMMAND):
        values["working_directory"] = _resolve_working_directory(source)
        values["env"] = tuple(str(name) for name in get_list_data(node, "env"))
        values["env_values"] = {name: str(value) for name, value in get_mapping_data(node, "env").items()}
    if kind is TargetKind.AGENT:
        values["setting_sources"] = values["setting_sources"] or None  # an empty list is as good as none
        values["tool_policy"] = build_tool_policy(node)
        values |= {"docker": get_mapping_data(node, "docker") or None, "chat": get_mapping_data(node, "chat")}
        values |= _build_agent_values(source, values)
        values |= {"workspace": build_workspace(node), "isolation": build_isolation(node, node)}
    return keep_spec_references(build_value(SPEC_TYPES[kind], values))


def _build_agent_values(source: TargetSource, values: Mapping[str, object]) -> dict[str, object]:
    """Return what takes more than the value of a key: the runtime's definition, paths, and the session."""
    session = SectionReader(get_session_block(source.node), "").read(SESSION_TABLE.keys)
    program, folders = values["program"], values["extra_dirs"]
    runtime = normalize_runtime(str(values["runtime"]))
    return {
        "runtime": runtime,
        "preset": find_definition(source, runtime),
        "program": resolve_program(source, program if isinstance(program, str) else None),
        "extra_dirs": resolve_folders(source, tuple(map(str, folders)) if isinstance(folders, list | tuple) else ()),
        "session_timeout": session["timeout"],
        "session_max_turns": session["max_turns"],
    }


def _build_hooks(source: TargetSource) -> Mapping[str, object]:
    """Return the hooks by list, each with what its channel says; the lists may also stand beside the name."""
    inherited, node = source.fleet.notify, mark_references(source.node)
    channels = {name: mark_references(each).to_data() for name, each in inherited.items()} if inherited else {}
    written = get_mapping_data(node, "hooks") | {
        name: get_list_data(node, name) for name in HOOK_LISTS if node.child(name)
    }
    return {
        name: [_merge_channel(hook, channels) for hook in listed] if isinstance(listed, list) else listed
        for name, listed in written.items()
    }


def _merge_channel(hook: object, channels: Mapping[str, object]) -> object:
    """Return the hook with the keys of the channel that it names. What the hook says itself counts."""
    if not isinstance(hook, dict):
        return hook
    channel = channels.get(str(hook.get("notify")))
    return keep_data_references({**(channel if isinstance(channel, dict) else {}), **hook})


def _resolve_working_directory(source: TargetSource) -> str:
    written = source.node.child("working_directory")
    if written is not None and isinstance(written.value, dict):
        written = written.child("root")
    return source.resolve_path("." if written is None else str(written.value))


@dataclass(slots=True)
class FleetBuilder:
    """Collects targets and schedules that are valid, then builds the fleet from them."""

    diagnostics: Diagnostics
    targets: list[Target] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    values: list[ResolvedValue] = field(default_factory=list)
    ineffective_budgets: IneffectiveBudgets = field(default_factory=IneffectiveBudgets)
    url_locations: dict[str, SourceLocation] = field(default_factory=dict)
    name_locations: dict[str, SourceLocation] = field(default_factory=dict)

    def add_all(self, sources: Sequence[TargetSource], *, has_fleet_budget: bool = False) -> None:
        """Add all targets of a fleet, in file order, and their schedules. What is invalid is reported and left out."""
        names = frozenset(source.name for source in sources)
        for source in sources:
            self._add(source, names, has_fleet_budget=has_fleet_budget)
        if any(schedule.policies.adapt for schedule in self.schedules):
            check_triggers(self.schedules, self.diagnostics)

    def build(self, file: FleetFile) -> Fleet:
        """Return the fleet with the settings of its file; `values` then begins with them."""
        warn_changed_fleet(file.tree, self.diagnostics)
        settings = SectionReader(file.tree, "")
        fleet = build_fleet_settings(file, settings)
        check_callbacks(fleet, file.tree, self.diagnostics)
        self.values[:0] = settings.values
        return replace(
            fleet,
            targets=tuple(self.targets),
            schedules=tuple(self.schedules),
            files=tuple(self.diagnostics.sources),
            is_sound=not self.diagnostics.error_count,
        )

    def warn_ineffective_keys(self, fleet: Fleet, tree: ConfigNode) -> None:
        """Warn of what the files ask for and this version does not do, and of endpoints that may not be reached."""
        self.ineffective_budgets.warn(self.diagnostics)
        if self.url_locations:
            _warn_blocked_addresses(self.url_locations, fleet.egress_allow, self.diagnostics)
        if self.name_locations:
            warn_unknown_costs(fleet, self.name_locations, self.diagnostics)
        if fleet.planner is not None:
            warn_planner(fleet, fleet.planner, tree, self.diagnostics)

    def _add(self, source: TargetSource, names: Collection[str], *, has_fleet_budget: bool) -> None:
        schedule_sources = list(iter_schedule_sources(source, self.diagnostics))
        target = build_target(source, self.diagnostics, has_schedules=bool(schedule_sources))
        resolved = [self._build_schedule(source, schedule_source, names) for schedule_source in schedule_sources]
        if target is None or (not schedule_sources and _is_missing_trigger(source, self.diagnostics)):
            return
        schedules = [each.schedule for each in resolved if each is not None]
        if _names_engine(target) and not check_executor(source, target.spec, schedules, self.diagnostics):
            return
        if not _reports_cost(target):
            for node in (source.node, *(each.node for each in schedule_sources)):
                self.ineffective_budgets.add(node)
        self.targets.append(target)
        if isinstance(target.spec, AgentSpec):
            self.name_locations[target.name] = source.node.find(("name",)).location
            warn_unsupported_settings(source, target.spec, schedules, self.diagnostics)
            warn_container_options(source.node, self.diagnostics)
        if isinstance(target.spec, EndpointSpec):
            url = source.node.find(("url",))
            self.url_locations[str(url.value)] = url.location
            _refuse_two_logins(source, self.diagnostics)
        self.schedules.extend(schedules)
        self.values.extend(_resolve_target_values(source))
        self.values.extend(value for each in resolved if each is not None for value in each.values)
        if not has_fleet_budget:
            _warn_missing_budget(target, source, schedules, self.diagnostics)

    def _build_schedule(
        self, source: TargetSource, schedule_source: ScheduleSource, names: Collection[str]
    ) -> ResolvedSchedule | None:
        errors_before = self.diagnostics.error_count
        if schedule_source.name not in source.imported:
            warn_changed_schedule(schedule_source, self.diagnostics)
        check_rule_targets(source, schedule_source.node, names, self.diagnostics)
        resolved = build_schedule(source, schedule_source, self.diagnostics)
        return None if self.diagnostics.error_count > errors_before or schedule_source.is_invalid else resolved


def _reports_cost(target: Target) -> bool:
    return isinstance(target.spec, AgentSpec) and target.spec.runtime != COMMAND_RUNTIME


def _names_engine(target: Target) -> bool:
    spec = target.spec
    return isinstance(spec, AgentSpec | CommandSpec) and spec.executor not in (None, ExecutorKind.LOCAL)


def _resolve_target_values(source: TargetSource) -> list[ResolvedValue]:
    """Return what is written about the target itself, then the defaults of what is not."""
    path = f"{source.kind.section}.{source.name}"
    schedule_keys = {"name", "schedules", *SCHEDULE_ONLY_KEYS[source.kind]}
    written = iter_explicit_values(drop_keys(source.node, *schedule_keys), path)
    excluded = schedule_keys | {BUDGET.name, TOOL_POLICY.name}
    return [*written, *iter_default_values(TARGET_TABLES[source.kind], source.node, path, exclude=excluded)]


def _is_missing_trigger(source: TargetSource, diagnostics: Diagnostics) -> bool:
    """Report a target without a trigger, unless it is an agent: those may wait for a person or a rule."""
    if source.kind is TargetKind.AGENT:
        return False
    message = f'"{source.name}" has no trigger.'
    hint = "Add every: 5m, cron: or at:; or type: manual, if only people and rules start it."
    diagnostics.error(Code.MISSING_KEY, message, source.node.location, hint)
    return True


def _refuse_two_logins(source: TargetSource, diagnostics: Diagnostics) -> None:
    """Report an endpoint whose URL has a user name and whose headers have Authorization: no request can have both."""
    headers = source.node.child("headers")
    if headers is None or not isinstance(headers.value, dict):
        return
    if urlsplit(str(source.node.find(("url",)).value)).username is None:
        return
    for name, header in headers.value.items():
        if name.lower() == "authorization":
            message = "The url contains a user name, and the headers contain Authorization."
            diagnostics.error(Code.CONFLICTING_KEYS, message, header.report_location, "Remove one of them.")


def _warn_blocked_addresses(
    urls: Mapping[str, SourceLocation], allow: tuple[str, ...], diagnostics: Diagnostics
) -> None:
    """Warn of endpoints on this machine or in a private network that no entry of `egress.allow` covers."""
    allowed = EgressAllowlist.parse(allow)
    for url, location in urls.items():
        host = urlsplit(url).hostname or ""
        address = find_blocked_address(host, allowed)
        if address is not None:
            message = f"The address is {describe_special_range(address)}, which endpoints are not allowed to reach."
            hint = f'To allow it, add egress: {{ allow: ["{host}"] }} at the top of the fleet file.'
            diagnostics.warning(Code.BLOCKED_ADDRESS, message, location, hint)


_FREE_RUNTIMES = (COMMAND_RUNTIME, "fake")


def _warn_missing_budget(
    target: Target, source: TargetSource, schedules: Sequence[Schedule], diagnostics: Diagnostics
) -> None:
    """Warn once per agent, and only where a herdbeat.yaml lists it: other files have no key for a budget."""
    if target.budget is not None or not isinstance(target.spec, AgentSpec) or target.spec.runtime in _FREE_RUNTIMES:
        return
    if diagnostics.lenient or all(each.policies.budget is not None or not each.enabled for each in schedules):
        return
    message = f'The agent "{target.name}" has no budget.'
    hint = "Set budget: { runs_per_day: 24 } on the agent or for the whole fleet."
    diagnostics.warning(Code.NO_BUDGET, message, source.node.find(("name",)).location, hint)
