"""agentd's files as agents and schedules in our own keys. Each value keeps the location it has in those files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.files import FileReader
from herdbeat.config.locate import resolve_relative_path
from herdbeat.config.nodes import ConfigNode, Scalar
from herdbeat.config.schema.formats import PATH, TEXT, TEXTS, VARIABLE_NAME
from herdbeat.config.schema.schedule import MODE, TOOLS, ToolPolicyTable
from herdbeat.config.schema.table import Field, MapOf, Table
from herdbeat.config.schema.types import AnyValue, Boolean, Choice, Integer, Text
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation, did_you_mean_suffix

# The keys of agentd's files. They are translated into ours, so they need no meaning for a reference.

_ANY_VALUE = AnyValue(lenient=True)
TOOL_POLICY = Field("tool_policy", ToolPolicyTable("A tool policy", MODE, TOOLS, ignores_unknown=True), "")

AGENTD_WORKFLOW = Table(
    "A workflow",
    Field("name", TEXT, "", required=True),
    Field("agent", TEXT, "", required=True),
    Field("source", _ANY_VALUE, "", required=True),
    Field("prompt_template", TEXT, ""),
    Field("prompt_template_file", PATH, ""),
    Field("poll_interval", Integer(0, 31_536_000), ""),
    Field("enabled", Boolean(), ""),
    TOOL_POLICY,
    ignores_unknown=True,
)

_TYPE_KEY = Field("type", TEXT, "", required=True)
_REPOSITORY_KEYS: tuple[Field[object], ...] = (
    _TYPE_KEY,
    Field("owner", TEXT, "", required=True),
    Field("repo", TEXT, "", required=True),
    Field("labels", TEXTS, ""),
    Field("state", Choice(("open", "closed", "all")), ""),
    Field("assignee", TEXT, ""),
)
SOURCE_TABLES = {
    "cron": Table("A cron source", _TYPE_KEY, Field("expression", TEXT, "", required=True), ignores_unknown=True),
    "delay": Table("A delay source", _TYPE_KEY, Field("run_at", TEXT, "", required=True), ignores_unknown=True),
    "github_issues": Table("A github_issues source", *_REPOSITORY_KEYS, ignores_unknown=True),
    "github_pull_requests": Table("A github_pull_requests source", *_REPOSITORY_KEYS, ignores_unknown=True),
    "webhook": Table(
        "A webhook source",
        _TYPE_KEY,
        Field("secret", TEXT, ""),
        Field("source", TEXT, "", unsupported_reason="callers are authenticated by signature"),
        ignores_unknown=True,
    ),
    "manual": Table("A manual source", _TYPE_KEY, ignores_unknown=True),
}
UNSUPPORTED_SOURCES = (
    *("agent_lifecycle", "dispatch_result", "agent_idle", "linear_issues", "gitlab_issues"),
    *("gitlab_merge_requests", "queue", "composite", "ask_response"),
)

_NO_PERSISTENT_AGENT_REASON = "agents start fresh for each run"
AGENTD_AGENT = Table(
    "An agentd agent",
    Field("name", TEXT, "", required=True),
    Field("working_dir", PATH, ""),
    Field("shell", _ANY_VALUE, ""),
    Field("interactive", _ANY_VALUE, "", unsupported_reason=_NO_PERSISTENT_AGENT_REASON),
    Field("worktree", _ANY_VALUE, "", unsupported_reason="the folder is used as is"),
    Field("prompt", _ANY_VALUE, "", unsupported_reason="each schedule has its own prompt"),
    Field("system_prompt", Text(allows_empty=True), ""),
    Field("system_prompt_file", PATH, ""),
    Field("append_system_prompt", Text(allows_empty=True), ""),
    Field("user", _ANY_VALUE, "", unsupported_reason="runs use the account that runs herdbeat"),
    TOOL_POLICY,
    Field("model", TEXT, ""),
    Field("env", MapOf(Text(allows_empty=True), VARIABLE_NAME), ""),
    Field("auto_clear_threshold", _ANY_VALUE, "", unsupported_reason=_NO_PERSISTENT_AGENT_REASON),
    Field("additional_dirs", TEXTS, ""),
    Field("rooms", _ANY_VALUE, "", unsupported_reason="rooms are not supported"),
    Field("docker_image", TEXT, ""),
    Field("network_policy", Choice(("internet", "bridge", "isolated", "none", "host", "host_network")), ""),
    Field("extra_mounts", TEXTS, ""),
    Field("resource_limits", _ANY_VALUE, "", unsupported_reason="set docker limits in the fleet's defaults"),
    ignores_unknown=True,
)
DOCKER_NETWORKS = {"internet": "bridge", "isolated": "none", "host_network": "host"}
"""agentd's names of Docker's networks, where they differ."""


_POLLED_ITEMS = {"github_issues": "issues", "github_pull_requests": "pull_requests"}
_DEFAULT_POLL_INTERVAL_S = 60


def translate_source(workflow: ConfigNode, diagnostics: Diagnostics) -> dict[str, ConfigNode] | None:
    """Return the trigger of a workflow in our keys; None after the reason was reported."""
    source = workflow.find(("source",))
    kind = source.child("type")
    if kind is None or not isinstance(kind.value, str):
        hint = "Add type: cron, delay, webhook, manual or github_issues."
        diagnostics.error(Code.MISSING_KEY, 'The source needs "type".', source.report_location, hint)
        return None
    if kind.value not in SOURCE_TABLES:
        _report_unsupported_source(kind, diagnostics)
        return None
    if not SOURCE_TABLES[kind.value].is_valid(source, diagnostics):
        return None
    if kind.value in _POLLED_ITEMS:
        return _translate_polling(workflow, source, kind.value)
    _warn_unused_poll_interval(workflow, kind, diagnostics)
    if kind.value == "cron":
        _warn_cron_day_semantics(source.find(("expression",)), diagnostics)
    renamed = {"expression": "cron", "run_at": "at", "secret": "secret"}
    return {"type": kind} | {renamed[name]: child for name, child in source.items() if name in renamed}


def _translate_polling(workflow: ConfigNode, source: ConfigNode, kind: str) -> dict[str, ConfigNode]:
    """Polling is an interval with a work source. agentd marks nothing on GitHub; it remembers which items it took."""
    here = source.find(("type",))
    poll = workflow.child("poll_interval")
    # agentd accepts 0 and then polls GitHub without a pause; once a second is our limit.
    # A value that is no number is reported by the check of the workflow, whose other errors are shown all the same.
    written = poll.value if poll is not None else None
    seconds = max(1, written) if isinstance(written, int) else _DEFAULT_POLL_INTERVAL_S
    owner, repo = source.find(("owner",)), source.find(("repo",))
    work: dict[str, ConfigNode] = {
        "type": _with_value(here, "github"),
        "repo": _with_value(repo, f"{owner.value}/{repo.value}"),
        "item": _with_value(here, _POLLED_ITEMS[kind]),
        "claim": _with_value(here, "store"),
        "exclude_labels": ConfigNode([], here.location),
    }
    renamed = {"labels": "filter_labels", "state": "state", "assignee": "assignee"}
    work |= {renamed[name]: child for name, child in source.items() if name in renamed}
    return {
        "type": _with_value(here, "interval"),
        "interval": _with_value(poll or here, f"{seconds}s"),
        "work_source": ConfigNode(work, source.location, source.key),
    }


def _with_value(node: ConfigNode, value: Scalar) -> ConfigNode:
    """Return another value at the same location."""
    return ConfigNode(value, node.location, node.key, raw=str(value))


def _report_unsupported_source(kind: ConfigNode, diagnostics: Diagnostics) -> None:
    if kind.value in UNSUPPORTED_SOURCES:
        message = f'Workflows of type "{kind.value}" are not supported; this workflow is ignored.'
        diagnostics.warning(Code.NOT_SERVED, message, kind.location, f"Supported types: {', '.join(SOURCE_TABLES)}.")
        return
    guess = find_closest_match(str(kind.value), SOURCE_TABLES)
    message = f'"{kind.value}" is not a source type{did_you_mean_suffix(guess)}'
    diagnostics.error(Code.INVALID_VALUE, message, kind.location, f"Use one of {', '.join(SOURCE_TABLES)}.")


def _warn_unused_poll_interval(workflow: ConfigNode, kind: ConfigNode, diagnostics: Diagnostics) -> None:
    poll = workflow.child("poll_interval")
    if poll is not None:
        message = f'"poll_interval" has no effect on a {kind.value} source.'
        diagnostics.warning(Code.NOT_SERVED, message, poll.report_location, "Remove it.")


def _warn_cron_day_semantics(expression: ConfigNode, diagnostics: Diagnostics) -> None:
    """With both day fields set, agentd fires on a day of either; cron takes `*/2` for a star and needs both."""
    fields = str(expression.value).split()
    if len(fields) == 7:
        fields.pop()  # the year
    if len(fields) not in (5, 6):
        return
    day, _, weekday = fields[-3:]
    has_star = day.startswith("*") or weekday.startswith("*")
    if not has_star or {day, weekday} & {"*", "?"} or weekday.startswith("+"):
        return
    either = f"{day.replace('*', '1-31')} with {weekday.replace('*', '0-6')}"
    message = f"agentd fires on days that match {day} or {weekday}; herdbeat, like cron, needs both to match."
    hint = f"Write {either} to match either, or +{weekday} to match both; both tools read these the same way."
    diagnostics.warning(Code.CHANGED_MEANING, message, expression.location, hint)


_UNCHANGED_KEYS = ("name", "system_prompt", "append_system_prompt", "model", "env", "tool_policy")


_ESSENTIAL_KEYS = frozenset({"", "name", "agent", "source"})
"""Without these, nothing else of a workflow can be checked."""

_SCHEDULE_KEYS = frozenset({"enabled", "tool_policy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentdWorkflow:
    """One workflow, translated: the agent it is for, and its schedule in our keys.

    An invalid one has no prompt; it is still checked for more.
    """

    name: ConfigNode
    agent: ConfigNode
    schedule: ConfigNode
    is_invalid: bool = False


@dataclass(slots=True)
class AgentdReader:
    """Reads one .agentd folder, or one file of it."""

    files: FileReader
    invalid_agents: set[str] = field(default_factory=set)
    """Names of agents whose files have errors. Their workflows name an agent that exists."""

    @property
    def diagnostics(self) -> Diagnostics:
        return self.files.diagnostics

    def read_agents(self, folder: Path) -> Iterator[tuple[Path, ConfigNode]]:
        """Yield every valid agent of the folder with its file."""
        for file in self._list_yaml_files(folder / "agents"):
            node = self.read_agent(file, folder.parent)
            if node is not None:
                yield file, node
            else:
                self.invalid_agents.add(self._guess_agent_name(file))
        for file in self._list_yaml_files(folder / "rooms")[:1]:
            location = SourceLocation(file=self.files.display_name(file), line=1, column=1)
            self.diagnostics.warning(Code.NOT_SERVED, "Rooms have no effect: herdbeat does not support them.", location)

    def read_workflows(self, folder: Path) -> Iterator[AgentdWorkflow]:
        """Yield every usable workflow of the folder."""
        workflows = (self.read_workflow(file) for file in self._list_yaml_files(folder / "workflows"))
        yield from (workflow for workflow in workflows if workflow is not None)

    def read_agent(self, file: Path, root: Path) -> ConfigNode | None:
        """Return one agent file in our keys. `root` is what its working_dir "." means: the folder around .agentd."""
        tree = self._load_valid(file, AGENTD_AGENT)
        if tree is None:
            return None
        keys = {name: child for name, child in tree.items() if name in _UNCHANGED_KEYS}
        if (folders := tree.child("additional_dirs")) is not None:
            keys["extra_dirs"] = folders
        keys["working_directory"] = _translate_working_directory(tree, root, file)
        prompt_file = tree.child("system_prompt_file")
        if prompt_file is not None and "system_prompt" not in keys:
            text = self._load_text(prompt_file, file)
            if text is None:
                return None
            keys["system_prompt"] = text
        return replace(tree, value=keys | _translate_docker(tree))

    def read_workflow(self, file: Path) -> AgentdWorkflow | None:
        """Return one workflow file in our keys; None after the reason was reported."""
        tree = self.files.read_tree(file, is_foreign=True)
        if tree is None or self.files.is_broken(file):
            return None
        AGENTD_WORKFLOW.validate(tree, self.diagnostics)
        invalid = self.diagnostics.invalid_keys(self.files.display_name(file))  # a wrong prompt hides no wrong time
        if not invalid.isdisjoint(_ESSENTIAL_KEYS):
            return None
        keys = translate_source(tree, self.diagnostics)
        prompt = None if "prompt_template" in invalid else self._load_prompt(tree, file)
        if keys is None:
            return None
        keys |= {"prompt": prompt} if prompt is not None else {}
        keys |= {each: child for each, child in tree.items() if each in _SCHEDULE_KEYS - invalid}
        name, agent = tree.find(("name",)), tree.find(("agent",))
        schedule = ConfigNode(keys, tree.location, key=name.location)
        return AgentdWorkflow(name=name, agent=agent, schedule=schedule, is_invalid=prompt is None or bool(invalid))

    def _list_yaml_files(self, folder: Path) -> list[Path]:
        self.diagnostics.folders.add(self.files.display_name(folder))
        try:
            return sorted(file for file in folder.iterdir() if file.suffix in (".yml", ".yaml") and file.is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            # Going on as if the folder were empty would drop its schedules silently.
            display_name = self.files.display_name(folder)
            message = f'"{display_name}" cannot be read: {error.strerror}.'
            location = SourceLocation(file=display_name, line=1, column=1)
            self.diagnostics.error(Code.UNREADABLE_FILE, message, location, "Fix its permissions.")
            return []

    def _guess_agent_name(self, file: Path) -> str:
        """Return the name in an invalid file; that of the file itself if it has none, or cannot be read."""
        tree = self.files.read_tree(file, is_foreign=True)
        name = None if tree is None else tree.child("name")
        return file.stem if name is None else str(name.value)

    def _load_valid(self, file: Path, table: Table) -> ConfigNode | None:
        tree = self.files.read_tree(file, is_foreign=True)
        errors_before = self.diagnostics.error_count
        if tree is not None:
            table.validate(tree, self.diagnostics)
        return None if self.diagnostics.error_count > errors_before or self.files.is_broken(file) else tree

    def _load_prompt(self, tree: ConfigNode, file: Path) -> ConfigNode | None:
        inline = tree.child("prompt_template")
        if inline is not None:
            return inline
        named = tree.child("prompt_template_file")
        if named is not None:
            return self._load_text(named, file)
        hint = "Add prompt_template, or prompt_template_file."
        self.diagnostics.error(Code.MISSING_KEY, "The workflow has no prompt.", tree.location, hint)
        return None

    def _load_text(self, named: ConfigNode, file: Path) -> ConfigNode | None:
        path = resolve_relative_path(file, str(named.value))
        text = self.files.read_text(path, named.location)
        if text is None:
            return None
        location = SourceLocation(file=self.files.display_name(path), line=1, column=1, path=named.location.path)
        self.diagnostics.foreign_files.add(location.file)
        return ConfigNode(text, location, named.key, style="file")


def _translate_working_directory(tree: ConfigNode, root: Path, file: Path) -> ConfigNode:
    # "." is where agentd was started, which is the folder around .agentd; any other path counts from the file.
    written = tree.child("working_dir")
    if written is not None and written.value != ".":
        return written
    return ConfigNode(os.path.relpath(root, file.parent), written.location if written is not None else tree.location)


def _translate_docker(tree: ConfigNode) -> dict[str, ConfigNode]:
    """Return the docker block. An agent with an image, a network or mounts gets a container or no run, never less."""
    renamed = {"docker_image": "image", "network_policy": "network", "extra_mounts": "volumes"}
    block = {ours: child for theirs, ours in renamed.items() if (child := tree.child(theirs)) is not None}
    if not block:
        return {}
    isolation = next(iter(block.values()))
    if network := block.get("network"):
        block["network"] = replace(network, value=DOCKER_NETWORKS.get(str(network.value), network.value), written="")
    enabled = ConfigNode(value=True, location=isolation.location, raw="true")
    return {"docker": ConfigNode({"enabled": enabled, **block}, isolation.location, isolation.key)}
