"""The keys that only agents have: those of herdctl's agent file, and those of other runtimes."""

from herdbeat.config.schema.formats import ARGV, LONG_DURATION, MEMORY, PATH, TEXT, TEXTS, URL, VARIABLE_NAME
from herdbeat.config.schema.table import AnyOf, Field, ListOf, MapOf, Table
from herdbeat.config.schema.types import AnyValue, Boolean, Choice, Integer, Text

PERMISSION_MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk")
RUNTIMES = ("sdk", "cli", "codex", "gemini", "opencode", "aider", "command")

_NO_CLONE_REASON = "nothing is cloned; the folder is used as it is"
WORKING_DIRECTORY = Field(
    "working_directory",
    AnyOf(
        scalar=PATH,
        mapping=Table(
            "A working directory",
            Field("root", PATH, "The folder.", required=True),
            Field("auto_clone", Boolean(), "", unsupported_reason=_NO_CLONE_REASON),
            Field("clone_depth", Integer(), "", unsupported_reason=_NO_CLONE_REASON),
            Field("default_branch", TEXT, "", unsupported_reason=_NO_CLONE_REASON),
        ),
    ),
    "The folder a run works in, relative to the file.",
    unset="the file's folder",
)
_VARIABLES = AnyOf(sequence=ListOf(VARIABLE_NAME), mapping=MapOf(Text(allows_empty=True), VARIABLE_NAME))
_ENV_MEANING = "The environment variables a run gets: names to pass on, or names with values."
ENV = Field("env", _VARIABLES, _ENV_MEANING, unset="a small base list")

_MCP_SERVER = Table(
    "An MCP server",
    Field("type", Choice(("stdio", "sse", "http")), "How it is reached.", unset="http with url, else stdio"),
    Field("command", TEXT, "The program."),
    Field("args", ListOf(Text(allows_empty=True)), "Its arguments."),
    Field("env", MapOf(Text(allows_empty=True)), "Its environment."),
    Field("url", URL, "Its address."),
    Field("headers", MapOf(Text(allows_empty=True)), "Headers of each request."),
    Field("timeout", Integer(1), "Milliseconds."),
    Field("alwaysLoad", Boolean(), "Load its tools at once."),
)
_PLUGIN_TABLE = Table(
    "A plugin",
    Field("type", Choice(("local",)), "Where it comes from.", "local"),
    Field("path", PATH, "Its folder.", required=True),
    Field("skipMcpDiscovery", Boolean(), "Leave its MCP servers out."),
)
_PLUGIN = AnyOf(scalar=PATH, mapping=_PLUGIN_TABLE)
_SESSION = Table(
    "A session",
    Field("max_turns", Integer(1, 100_000), "Turns of one session."),
    Field("timeout", LONG_DURATION, "How long a session may be resumed.", "24h"),
    Field("model", TEXT, "", unsupported_reason="the agent's model is used"),
)

_SAFE_DOCKER_KEYS: tuple[Field[object], ...] = (
    Field("enabled", Boolean(), "Run inside a container, or not at all.", "false"),
    Field("ephemeral", Boolean(), "A new container for each run.", "true"),
    Field("memory", MEMORY, "Memory limit.", "2g"),
    Field("cpu_shares", Integer(1), "Relative weight."),
    Field("cpu_period", Integer(1), "Microseconds."),
    Field("cpu_quota", Integer(1), "Microseconds per period."),
    Field("max_containers", Integer(1, 10_000), "Containers kept.", "5"),
    Field("workspace_mode", Choice(("rw", "ro")), "Whether the folder may be written.", "rw"),
    Field("tmpfs", TEXTS, "Folders in memory."),
    Field("pids_limit", Integer(1), "Processes."),
    Field("labels", MapOf(Text(allows_empty=True)), "Labels of the container."),
)
AGENT_DOCKER = Table("An agent's docker block", *_SAFE_DOCKER_KEYS)
DOCKER = Table(
    "A docker block",
    *_SAFE_DOCKER_KEYS,
    Field("image", TEXT, "The image.", "herdctl/runtime:latest"),
    Field("base_image", TEXT, "Older name of image."),
    Field("network", Choice(("bridge", "none", "host")), "The network.", "bridge"),
    Field("user", TEXT, "uid:gid.", unset="this user"),
    Field("volumes", TEXTS, "host:container[:ro]."),
    Field("env", MapOf(Text(allows_empty=True)), "Environment of the container."),
    Field("ports", TEXTS, "host:container."),
    Field("host_config", AnyValue(), "Handed to Docker as it is."),
)

INHERITABLE_KEYS: tuple[Field[object], ...] = (
    WORKING_DIRECTORY,
    Field("model", TEXT, "The model.", unset="the runtime's"),
    Field("max_turns", Integer(1, 100_000), "Turns of one run.", unset="the runtime's"),
    Field("permission_mode", Choice(PERMISSION_MODES), "What it may do unasked.", "acceptEdits"),
    Field("tools", TEXTS, "The tools it has at all.", unset="all"),
    Field("allowed_tools", TEXTS, "Tools it may use unasked.", unset="none"),
    Field("denied_tools", TEXTS, "Tools it may not use.", unset="none"),
    Field("mcp_servers", MapOf(_MCP_SERVER), "MCP servers it may use, by name."),
    Field("plugins", ListOf(_PLUGIN), "Plugins of the runtime."),
    Field("session", _SESSION, "How long sessions go on.", domain_field="session_"),
    Field("docker", DOCKER, "Isolation in a container.", unset="off"),
)
"""Keys that the `defaults:` of a fleet may set for its agents."""
INHERITABLE_KEY_NAMES = frozenset({"instances", "work_source", *(key.name for key in INHERITABLE_KEYS)})

AGENT_KEYS: tuple[Field[object], ...] = (
    Field("runtime", Choice(RUNTIMES, {"claude": "cli"}), "What runs it: Claude by SDK or CLI, or another.", "sdk"),
    Field("command", ARGV, "runtime command: the program; {prompt} or {prompt_file} place the prompt."),
    Field("default_prompt", Text(allows_empty=True), "The prompt of schedules that have none.", nullable=True),
    Field("system_prompt", Text(allows_empty=True), "Replaces the runtime's own."),
    Field("setting_sources", ListOf(Choice(("user", "project", "local"))), "Settings it reads.", "project"),
    Field("metadata_file", PATH, "Where a run leaves its numbers.", "metadata.json"),
    Field("chat", AnyValue("chat connectors", lenient=True), "Slack and Discord channels it answers in."),
    Field("repo", TEXT, "The repository of its work source, if that names none."),
    Field("identity", AnyValue(lenient=True), "", unsupported_reason="say it in system_prompt"),
    *INHERITABLE_KEYS,
)
