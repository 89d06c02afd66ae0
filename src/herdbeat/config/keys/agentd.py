"""The keys of agentd's files. They are translated into ours, so only what is passed over is said here."""

from herdbeat.config.forms import PATH, TEXT, TEXTS, VARIABLE
from herdbeat.config.keys.schedule import MODE, TOOLS
from herdbeat.config.shapes import Choice, Flag, Free, Text, Whole
from herdbeat.config.tables import Key, MapOf, Table

_ANY = Free(is_mild=True)
TOOL_POLICY = Key("tool_policy", Table("A tool policy", (MODE, TOOLS), drops_unknown=True), "")

WORKFLOW = Table(
    "A workflow",
    (
        Key("name", TEXT, "", required=True),
        Key("agent", TEXT, "", required=True),
        Key("source", _ANY, "", required=True),
        Key("prompt_template", Text(may_be_empty=True), ""),
        Key("prompt_template_file", PATH, ""),
        Key("poll_interval", Whole(0, 31_536_000), ""),
        Key("enabled", Flag(), ""),
        TOOL_POLICY,
    ),
    drops_unknown=True,
)

_TYPE = Key("type", TEXT, "", required=True)
_REPOSITORY: tuple[Key[object], ...] = (
    _TYPE,
    Key("owner", TEXT, "", required=True),
    Key("repo", TEXT, "", required=True),
    Key("labels", TEXTS, ""),
    Key("state", Choice(("open", "closed", "all")), ""),
    Key("assignee", TEXT, ""),
)
SOURCES = {
    "cron": Table("A cron source", (_TYPE, Key("expression", TEXT, "", required=True)), drops_unknown=True),
    "delay": Table("A delay source", (_TYPE, Key("run_at", TEXT, "", required=True)), drops_unknown=True),
    "github_issues": Table("A github_issues source", _REPOSITORY, drops_unknown=True),
    "github_pull_requests": Table("A github_pull_requests source", _REPOSITORY, drops_unknown=True),
    "webhook": Table(
        "A webhook source",
        (_TYPE, Key("secret", TEXT, ""), Key("source", TEXT, "", not_served="the signature tells who calls")),
        drops_unknown=True,
    ),
    "manual": Table("A manual source", (_TYPE,), drops_unknown=True),
}
NOT_SERVED = (
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

_LONG_LIVED = "agents here start anew with each run"
AGENT = Table(
    "An agentd agent",
    (
        Key("name", TEXT, "", required=True),
        Key("working_dir", PATH, ""),
        Key("shell", _ANY, ""),
        Key("interactive", _ANY, "", not_served=_LONG_LIVED),
        Key("worktree", _ANY, "", not_served="the folder is used as it is"),
        Key("prompt", _ANY, "", not_served="each schedule has its own prompt"),
        Key("system_prompt", Text(may_be_empty=True), ""),
        Key("system_prompt_file", PATH, ""),
        Key("append_system_prompt", _ANY, "", not_served="write system_prompt"),
        Key("user", _ANY, "", not_served="runs belong to the user of herdbeat"),
        TOOL_POLICY,
        Key("model", TEXT, ""),
        Key("env", MapOf(Text(may_be_empty=True), VARIABLE), ""),
        Key("auto_clear_threshold", _ANY, "", not_served=_LONG_LIVED),
        Key("additional_dirs", _ANY, "", not_served="the agent sees its working directory"),
        Key("rooms", _ANY, "", not_served="there are no rooms"),
        Key("docker_image", TEXT, ""),
        Key("network_policy", Choice(("internet", "bridge", "isolated", "none", "host", "host_network")), ""),
        Key("extra_mounts", TEXTS, ""),
        Key("resource_limits", _ANY, "", not_served="write docker limits in the fleet's defaults"),
    ),
    drops_unknown=True,
)
NETWORKS = {"internet": "bridge", "isolated": "none", "host_network": "host"}
"""agentd's words for Docker's networks, where they differ."""
