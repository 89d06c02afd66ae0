"""Targets and schedules as the files have them: references followed, defaults and overrides merged, nothing built yet.

A FleetFile yields TargetSources, a TargetSource yields ScheduleSources. What is wrong is reported on the way.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.diagnostics import Diagnostics, undefined_variable_error, wrong_type_error
from herdbeat.config.files import FileReader
from herdbeat.config.locate import resolve_relative_path
from herdbeat.config.nodes import ConfigNode, drop_keys, merge_nodes, rename_key, select_keys
from herdbeat.config.schema.agent import AGENT_DOCKER, AGENT_KEYS, INHERITABLE_KEY_NAMES
from herdbeat.config.schema.executors import EXECUTOR_KEYS
from herdbeat.config.schema.fleet import AGENT_REFERENCE
from herdbeat.config.schema.isolation import is_own_workspace
from herdbeat.config.schema.policies import BUDGET, POLICIES, POLICY_KEY_NAMES
from herdbeat.config.schema.schedule import SCHEDULE, SCHEDULE_KEYS, TRIGGER_KEYS
from herdbeat.domain.hooks import HOOK_LISTS
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.error_codes import Code
from herdbeat.errors import Severity, SourceLocation

_ALIASES = {alias: key.name for key in (*TRIGGER_KEYS, *SCHEDULE_KEYS, *POLICIES) for alias in key.aliases}
_DEPRECATED_KEYS = {"workspace": "working_directory"}
CHAT_SCHEDULE_NAME = "chat"
"""The schedule of an agent that has a `chat` block and no schedule of that type."""

_TRIGGER_KEY_NAMES = tuple(name for key in TRIGGER_KEYS for name in (key.name, *key.aliases))
_KINDS_WITH_OWN_WORK = (TriggerKind.WEBHOOK, TriggerKind.CHAT)
_AGENT_KEY_NAMES = frozenset(key.name for key in AGENT_KEYS)
_INHERITED_BY_ALL = frozenset({"instances"})
_INHERITED_KEY_NAMES = {
    TargetKind.AGENT: INHERITABLE_KEY_NAMES,
    TargetKind.COMMAND: _INHERITED_BY_ALL | {key.name for key in EXECUTOR_KEYS},
}
_OWN_KEYS = ("account", "allow_create", "executor", "isolation", "on_denied", "resources", "workspace")
_ENTRY_DESCRIPTIONS = {"agents": "a mapping such as { path: ./agents/triage.yaml }", "fleets": "a mapping with a path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultZone:
    """The zone of schedules that name none, and where it comes from."""

    zone: ZoneInfo
    origin: SourceLocation | str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """A fleet file: its tree, where it lies, and what it hands down to its targets.

    An invalid one has a problem of its own; its targets are still checked for more. `root_folder` is the folder of the
    first file, if this one is a sub-fleet.
    """

    path: Path
    tree: ConfigNode
    zone: DefaultZone
    prefix: str = ""
    defaults: ConfigNode | None = None
    rules: ConfigNode | None = None
    notify: ConfigNode | None = None
    runtimes: ConfigNode | None = None
    executors: ConfigNode | None = None
    include_chain: tuple[Path, ...] = ()
    root_folder: Path | None = None
    is_invalid: bool = False

    @property
    def home(self) -> Path:
        """The folder of the whole fleet."""
        return self.root_folder or self.path.parent

    @property
    def has_budget(self) -> bool:
        """Whether it has a budget for all of its schedules together."""
        block = self.tree.child(BUDGET.name)
        return block is not None and bool(block.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSchedule:
    """A schedule that a folder of agentd adds to a target, with the zone of that folder."""

    node: ConfigNode
    zone: DefaultZone
    is_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSource:
    """One target of a fleet file, whose defaults, rules and channels are in reach.

    Its relative paths count from `home`. An invalid one was reported while it was collected; it is still checked for
    more. A placeholder stands for an agent that another file defines.
    """

    name: str
    kind: TargetKind
    node: ConfigNode
    home: Path
    fleet: FleetFile
    imported: Mapping[str, ImportedSchedule] = field(default_factory=dict)
    is_invalid: bool = False
    is_placeholder: bool = False

    def resolve_path(self, written: str) -> str:
        """Return a path relative to the folder of the fleet, unless it is written as absolute.

        It was always absolute once: a second machine ran its commands in a folder that only the first one had.
        """
        path = os.path.expanduser(written)  # noqa: PTH111 -- Path's own raises
        is_fixed = Path(path).is_absolute()
        return os.path.normpath(path) if is_fixed else os.path.relpath(self.home / path, self.fleet.home)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSource:
    """One schedule: `node` includes what it inherits, `raw` is only what its own entry says."""

    name: str
    node: ConfigNode
    raw: ConfigNode
    zone: DefaultZone
    is_invalid: bool = False


def iter_schedule_sources(source: TargetSource, diagnostics: Diagnostics) -> Iterator[ScheduleSource]:
    """Yield those under `schedules:`, or else the one beside the target's name; then those that imports add."""
    target_level = _select_target_level_keys(source)
    trigger = next((child for name, child in target_level.items() if name in _TRIGGER_KEY_NAMES), None)
    defaults = _select_inherited_defaults(source)
    inherited = merge_nodes(defaults, drop_keys(target_level, *_TRIGGER_KEY_NAMES))
    listed, zone = _get_listed_schedules(source, diagnostics), source.fleet.zone
    for name, written in listed.items():
        yield ScheduleSource(name=name, node=_merge_inherited(inherited, written), raw=written, zone=zone)
    if (chat := _build_implied_chat(source, listed, trigger)) is not None:
        yield ScheduleSource(
            name=CHAT_SCHEDULE_NAME, node=_merge_inherited(drop_keys(inherited, "prompt"), chat), raw=chat, zone=zone
        )
    if trigger is not None and listed:
        message = "A target with schedules cannot also have a trigger of its own."
        hint = "Move the trigger into schedules, under a name."
        diagnostics.error(Code.CONFLICTING_KEYS, message, trigger.report_location, hint)
    elif trigger is not None:
        node = replace(merge_nodes(defaults, target_level), key=source.node.key)
        yield ScheduleSource(name=DEFAULT_SCHEDULE_NAME, node=node, raw=source.node, zone=zone)
    for name, imported in source.imported.items():
        # The folder's own rule about zones outranks the fleet's defaults.
        node = _merge_inherited(drop_keys(inherited, "timezone"), imported.node)
        is_invalid = imported.is_invalid
        yield ScheduleSource(name=name, node=node, raw=imported.node, zone=imported.zone, is_invalid=is_invalid)


def _build_implied_chat(
    source: TargetSource, listed: Mapping[str, ConfigNode], trigger: ConfigNode | None
) -> ConfigNode | None:
    """Return the chat schedule that an agent has by its `chat` block alone, as in herdctl; None if it has its own."""
    chat = source.node.child("chat") if source.kind is TargetKind.AGENT else None
    has_own = any(each.find(("type",)).value == "chat" for each in listed.values()) or CHAT_SCHEDULE_NAME in listed
    has_own |= trigger is not None and trigger.value == "chat"
    if chat is None or not isinstance(chat.value, dict) or has_own:
        return None
    if not chat.value.keys() & {"slack", "discord"}:
        return None
    return ConfigNode({"type": ConfigNode("chat", chat.location, key=chat.key)}, chat.location, key=chat.key)


def _select_inherited_defaults(source: TargetSource) -> ConfigNode | None:
    """Return the fleet's defaults for its schedules, without the budget if the target has one: they share that."""
    has_budget = source.node.child(BUDGET.name) is not None
    return select_keys(source.fleet.defaults, POLICY_KEY_NAMES - {BUDGET.name} if has_budget else POLICY_KEY_NAMES)


def _merge_inherited(inherited: ConfigNode, written: ConfigNode) -> ConfigNode:
    """Return the schedule merged over what it inherits."""
    # A call or a message brings its own work. With the agent's work_source it would be skipped whenever the queue
    # is empty, and its sender would get no answer.
    if written.find(("type",)).value in _KINDS_WITH_OWN_WORK:
        inherited = drop_keys(inherited, "work_source")
    return replace(merge_nodes(inherited, written), key=written.key)


def _get_listed_schedules(source: TargetSource, diagnostics: Diagnostics) -> dict[str, ConfigNode]:
    listed = source.node.child("schedules")
    if listed is None or listed.value is None:
        return {}
    if not isinstance(listed.value, dict):
        diagnostics.add(wrong_type_error(listed, "a mapping from names to schedules"), listed)
        return {}
    return listed.value


def _select_target_level_keys(source: TargetSource) -> ConfigNode:
    """Return the schedule keys beside the target's name. A budget there is the target's own: its schedules share it."""
    names = set(SCHEDULE.by_name) - {BUDGET.name}
    if source.kind is TargetKind.AGENT:
        names -= _AGENT_KEY_NAMES
    return select_keys(source.node, names) or ConfigNode({}, source.node.location)


# Older and shorter names of keys, normalized to the one name that the rest of the code knows.


def normalize_keys(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    """Return a target, defaults or overrides with normalized keys, those of its schedules included.

    Call it before merging: an override with `expression:` must meet a file with `cron:`.
    """
    node = _normalize_aliases(normalize_deprecated_keys(node, diagnostics), diagnostics)
    schedules = node.child("schedules")
    if not isinstance(node.value, dict) or schedules is None or not isinstance(schedules.value, dict):
        return node
    normalized = {name: _normalize_aliases(child, diagnostics) for name, child in schedules.value.items()}
    return replace(node, value=node.value | {"schedules": replace(schedules, value=normalized)})


def normalize_deprecated_keys(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    """Return the mapping with newer names; each older one is a warning."""
    for old, new in _DEPRECATED_KEYS.items():
        child = node.child(old)
        if child is not None and not is_own_workspace(child):
            message = f'"{old}" is deprecated; the new name is "{new}".'
            hint = f"Replace it with {new}."
            diagnostics.warning(Code.DEPRECATED_KEY, message, child.report_location, hint)
            node = rename_key(node, old, new)
    return node


def _normalize_aliases(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    for alias, name in _ALIASES.items():
        child = node.child(alias)
        if child is None:
            continue
        # herdctl reads `expression` only where `cron` is missing. In our files both must stay, because the check of
        # all keys reports two names of one key.
        if node.child(name) is None or diagnostics.is_foreign(child.report_location):
            node = rename_key(node, alias, name)
    return node


# Keys that mean more here than in the tool a file was written for.


def warn_changed_schedule(schedule_source: ScheduleSource, diagnostics: Diagnostics) -> None:
    """Warn of two keys that herdctl documents and its code ignores."""
    work = schedule_source.node.child("work_source")
    if work is not None and work.value is not None:
        message = "herdctl never uses work_source; herdbeat takes one item per run, and skips the run if there is none."
        _warn_changed_meaning(work, message, diagnostics)
    resume = schedule_source.node.child("resume_session")
    if resume is not None and resume.value is True:
        message = "herdctl never resumes sessions of schedules; herdbeat resumes the last session."
        _warn_changed_meaning(resume, message, diagnostics)


def warn_changed_fleet(tree: ConfigNode, diagnostics: Diagnostics) -> None:
    """Warn of settings of herdctl's fleet that mean something else here."""
    port = tree.find(("webhooks", "port"))
    if isinstance(port.value, int):
        message = f"webhooks.port {port.value} opens no listener: calls arrive at server.port."
        diagnostics.warning(Code.NOT_SERVED, message, port.report_location, "Set server.port, and remove this key.")
    if tree.find(("webhooks", "enabled")).value is True:
        message = "herdctl does not serve webhooks; herdbeat accepts them as POST /hooks/{target}/{schedule}."
        _warn_changed_meaning(tree.find(("webhooks",)), message, diagnostics)


def warn_changed_docker(agent: ConfigNode, defaults: ConfigNode | None, diagnostics: Diagnostics) -> None:
    """herdctl sets `enabled: false` in an agent's block before it merges: a limit there costs it the container."""
    docker = agent.child("docker")
    if docker is None or not isinstance(docker.value, dict) or "enabled" in docker.value or defaults is None:
        return
    if defaults.find(("docker", "enabled")).value is True:
        message = "herdctl runs this agent without the container in defaults; herdbeat runs it in one."
        _warn_changed_meaning(docker, message, diagnostics)


def warn_own_keys(agent: ConfigNode, diagnostics: Diagnostics) -> None:
    """Warn of keys in an agent's own file that herdctl does not know: it refuses to load that file."""
    session = agent.child("session")
    is_own_session = session is not None and (isinstance(session.value, str) or session.child("mode") is not None)
    for name in (*_OWN_KEYS, *(["session"] if is_own_session else [])):
        child = agent.child(name)
        if child is not None:
            message = f'herdctl does not know "{name}" and will not load this file; herdbeat uses it.'
            hint = "Move it to the fleet file, under overrides of this agent, if herdctl should load the file, too."
            diagnostics.warning(Code.CHANGED_MEANING, message, child.report_location, hint)


def _warn_changed_meaning(node: ConfigNode, message: str, diagnostics: Diagnostics) -> None:
    if diagnostics.lenient and diagnostics.is_foreign(node.report_location):
        hint = "No change is needed if this is what you want."
        diagnostics.warning(Code.CHANGED_MEANING, message, node.report_location, hint)


# Blocks in which a variable that is not set costs the block, not the agent: herdctl's examples name variables that only
# their chat needs.


def drop_incomplete_blocks(agent: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    """Return the target without the hooks and chat connectors that need a variable which is not set; warn of each."""
    for name in HOOK_LISTS:
        agent = _drop_incomplete_hooks(agent, name, diagnostics)
    hooks, chat = agent.child("hooks"), agent.child("chat")
    if hooks is not None and isinstance(hooks.value, dict) and isinstance(agent.value, dict):
        for name in HOOK_LISTS:
            hooks = _drop_incomplete_hooks(hooks, name, diagnostics)
        agent = replace(agent, value={**agent.value, "hooks": hooks})
    if chat is not None and isinstance(chat.value, dict) and isinstance(agent.value, dict):
        gone = [name for name, child in chat.value.items() if _warn_incomplete(child, "chat connector", diagnostics)]
        agent = replace(agent, value={**agent.value, "chat": drop_keys(chat, *gone)})
    return agent


def _drop_incomplete_hooks(node: ConfigNode, name: str, diagnostics: Diagnostics) -> ConfigNode:
    listed = node.child(name)
    if listed is None or not isinstance(listed.value, list) or not isinstance(node.value, dict):
        return node
    complete = [hook for hook in listed.value if not _warn_incomplete(hook, "hook", diagnostics)]
    return replace(node, value={**node.value, name: replace(listed, value=complete)})


def _warn_incomplete(block: ConfigNode, what: str, diagnostics: Diagnostics) -> bool:
    """Return whether a variable of the block is not set, after a warning at its place."""
    missing = next((node for _, node in block.walk() if node.undefined_variable), None)
    if missing is None:
        return False
    error = undefined_variable_error(missing.undefined_variable)
    error.message = f"{error.message} The {what} is ignored."
    diagnostics.add(error, missing, Severity.WARNING)
    return True


class TargetCollector:
    """Finds the targets of fleet files. Their names are unique across all files of one load."""

    def __init__(self, files: FileReader) -> None:
        self.files, self.diagnostics = files, files.diagnostics
        self.location_by_name: dict[str, SourceLocation] = {}

    def iter_target_sources(self, fleet: FleetFile) -> Iterator[TargetSource]:
        """Yield the targets of one fleet file, in file order."""
        for kind in TargetKind:
            for entry in self.iter_entries(fleet.tree, kind.section):
                source = self._build_source(fleet, kind, entry)
                if source is not None and self.register_name(source, entry):
                    yield source

    def iter_entries(self, tree: ConfigNode, section: str) -> Iterator[ConfigNode]:
        """Yield the entries of a section that are mappings; report the others."""
        listed = tree.child(section)
        if listed is None or listed.value is None:
            return
        if not isinstance(listed.value, list):
            self.diagnostics.add(wrong_type_error(listed, "a list (each entry starts with -)"), listed)
        description = _ENTRY_DESCRIPTIONS.get(section, "a mapping of keys")
        yield from (entry for entry in listed.elements() if require_mapping(entry, self.diagnostics, description))

    def _build_source(self, fleet: FleetFile, kind: TargetKind, entry: ConfigNode) -> TargetSource | None:
        if kind is TargetKind.AGENT and entry.child("path") is not None:
            return self._load_referenced(fleet, entry)
        node = normalize_keys(entry, self.diagnostics)
        return self.build_target_source(fleet, kind, node, home=fleet.path.parent)

    def _load_referenced(self, fleet: FleetFile, entry: ConfigNode) -> TargetSource | None:
        path = entry.child("path")
        if not AGENT_REFERENCE.is_valid(entry, self.diagnostics) or path is None:
            return None
        file = resolve_relative_path(fleet.path, str(path.value))
        tree = self.files.read_tree(file, path.location, is_foreign=True)
        if tree is None or not require_mapping(tree, self.diagnostics):
            return None
        errors_before = self.diagnostics.error_count
        node = normalize_keys(tree, self.diagnostics)
        check_docker_safety(node, self.diagnostics)
        warn_own_keys(node, self.diagnostics)
        warn_changed_docker(node, fleet.defaults, self.diagnostics)
        overrides = entry.child("overrides")
        if overrides is not None:
            overrides = normalize_keys(overrides, self.diagnostics)
        source = self.build_target_source(fleet, TargetKind.AGENT, node, home=file.parent, overrides=overrides)
        is_valid = self.diagnostics.error_count == errors_before and not self.files.is_broken(file)
        return source if is_valid else replace(source, is_invalid=True)

    def build_target_source(
        self, fleet: FleetFile, kind: TargetKind, node: ConfigNode, *, home: Path, overrides: ConfigNode | None = None
    ) -> TargetSource:
        """Return the target merged over the fleet's defaults, with its overrides on top."""
        names = _INHERITED_KEY_NAMES.get(kind, _INHERITED_BY_ALL)
        merged = merge_nodes(merge_nodes(select_keys(fleet.defaults, names), node), overrides)
        merged = drop_incomplete_blocks(replace(merged, location=node.location, key=node.key), self.diagnostics)
        name = merged.child("name")
        own_name = name.value if name is not None and isinstance(name.value, str) else None
        full_name = fleet.prefix + ("?" if own_name is None else own_name)
        is_invalid = own_name is None or fleet.is_invalid
        return TargetSource(name=full_name, kind=kind, node=merged, home=home, fleet=fleet, is_invalid=is_invalid)

    def register_name(self, source: TargetSource, entry: ConfigNode) -> bool:
        """Return whether the name is free, and take it. A second target of that name is reported, whatever its kind."""
        written = source.node.child("name")
        if written is None or not isinstance(written.value, str):
            return True
        first = self.location_by_name.get(source.name)
        if first is None:
            self.location_by_name[source.name] = written.location
            return True
        # A file that is listed twice has its name in one place; then the listing is what must change.
        where = entry.find(("path",)).location if first == written.location else written.location
        message = f'There is already a target "{source.name}", at {first}.'
        self.diagnostics.error(Code.DUPLICATE_NAME, message, where, "Rename one of them.")
        return False


def check_docker_safety(agent: ConfigNode, diagnostics: Diagnostics) -> bool:
    """Return whether an agent's own file leaves the host alone: it may ask for less, never for network or folders."""
    docker = agent.child("docker")
    return docker is None or not isinstance(docker.value, dict) or AGENT_DOCKER.is_valid(docker, diagnostics)


def require_mapping(node: ConfigNode, diagnostics: Diagnostics, description: str = "a mapping of keys") -> bool:
    """Return whether the node is a mapping; report it otherwise."""
    if isinstance(node.value, dict):
        return True
    diagnostics.add(wrong_type_error(node, description), node)
    return False
