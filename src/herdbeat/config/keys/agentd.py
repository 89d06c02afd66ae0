"""The keys of agentd's files. They are translated into ours, so only what is passed over is said here."""

from herdbeat.config.forms import PATH, TEXT, TEXTS, VARIABLE_NAME
from herdbeat.config.keys.schedule import MODE, TOOLS
from herdbeat.config.shapes import AnyValue, Boolean, Choice, Integer, Text
from herdbeat.config.tables import Field, MapOf, Table

_ANY_VALUE = AnyValue(lenient=True)
TOOL_POLICY = Field("tool_policy", Table("A tool policy", (MODE, TOOLS), ignores_unknown=True), "")

AGENTD_WORKFLOW = Table(
    "A workflow",
    (
        Field("name", TEXT, "", required=True),
        Field("agent", TEXT, "", required=True),
        Field("source", _ANY_VALUE, "", required=True),
        Field("prompt_template", Text(allows_empty=True), ""),
        Field("prompt_template_file", PATH, ""),
        Field("poll_interval", Integer(0, 31_536_000), ""),
        Field("enabled", Boolean(), ""),
        TOOL_POLICY,
    ),
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
    "cron": Table("A cron source", (_TYPE_KEY, Field("expression", TEXT, "", required=True)), ignores_unknown=True),
    "delay": Table("A delay source", (_TYPE_KEY, Field("run_at", TEXT, "", required=True)), ignores_unknown=True),
    "github_issues": Table("A github_issues source", _REPOSITORY_KEYS, ignores_unknown=True),
    "github_pull_requests": Table("A github_pull_requests source", _REPOSITORY_KEYS, ignores_unknown=True),
    "webhook": Table(
        "A webhook source",
        (
            _TYPE_KEY,
            Field("secret", TEXT, ""),
            Field("source", TEXT, "", unsupported_reason="the signature tells who calls"),
        ),
        ignores_unknown=True,
    ),
    "manual": Table("A manual source", (_TYPE_KEY,), ignores_unknown=True),
}
UNSUPPORTED_SOURCES = (
    "agent_lifecycle",
    "dispatch_result",
    "agent_idle",
    "linear_issues",
    "gitlab_issues",
    "gitlab_merge_requests",
    "queue",
    "composite",
    "ask_response",
)

_NO_PERSISTENT_AGENT_REASON = "agents here start anew with each run"
AGENTD_AGENT = Table(
    "An agentd agent",
    (
        Field("name", TEXT, "", required=True),
        Field("working_dir", PATH, ""),
        Field("shell", _ANY_VALUE, ""),
        Field("interactive", _ANY_VALUE, "", unsupported_reason=_NO_PERSISTENT_AGENT_REASON),
        Field("worktree", _ANY_VALUE, "", unsupported_reason="the folder is used as it is"),
        Field("prompt", _ANY_VALUE, "", unsupported_reason="each schedule has its own prompt"),
        Field("system_prompt", Text(allows_empty=True), ""),
        Field("system_prompt_file", PATH, ""),
        Field("append_system_prompt", _ANY_VALUE, "", unsupported_reason="write system_prompt"),
        Field("user", _ANY_VALUE, "", unsupported_reason="runs belong to the user of herdbeat"),
        TOOL_POLICY,
        Field("model", TEXT, ""),
        Field("env", MapOf(Text(allows_empty=True), VARIABLE_NAME), ""),
        Field("auto_clear_threshold", _ANY_VALUE, "", unsupported_reason=_NO_PERSISTENT_AGENT_REASON),
        Field("additional_dirs", _ANY_VALUE, "", unsupported_reason="the agent sees its working directory"),
        Field("rooms", _ANY_VALUE, "", unsupported_reason="there are no rooms"),
        Field("docker_image", TEXT, ""),
        Field("network_policy", Choice(("internet", "bridge", "isolated", "none", "host", "host_network")), ""),
        Field("extra_mounts", TEXTS, ""),
        Field("resource_limits", _ANY_VALUE, "", unsupported_reason="write docker limits in the fleet's defaults"),
    ),
    ignores_unknown=True,
)
DOCKER_NETWORKS = {"internet": "bridge", "isolated": "none", "host_network": "host"}
"""agentd's words for Docker's networks, where they differ."""
