"""The keys that only agents have: those of herdctl's agent file, and those of other runtimes."""

from herdbeat.config.schema.executors import EXECUTOR_KEYS
from herdbeat.config.schema.formats import ARGV, LONG_DURATION, MEMORY, PATH, TEXT, TEXTS, URL, VARIABLE_NAME
from herdbeat.config.schema.isolation import ISOLATION, WORKSPACE
from herdbeat.config.schema.runtimes import RUNTIME_NAME
from herdbeat.config.schema.table import AnyOf, Field, ListOf, MapOf, Table
from herdbeat.config.schema.types import AnyValue, Boolean, Choice, EnumValue, Integer, Text
from herdbeat.domain.target import OnDenied

PERMISSION_MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk")

_NO_CLONE_REASON = "nothing is cloned; the folder is used as is"
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
    "The working directory of runs, relative to the file.",
    unset="the file's folder",
)
_VARIABLES = AnyOf(sequence=ListOf(VARIABLE_NAME), mapping=MapOf(Text(allows_empty=True), VARIABLE_NAME))
_ENV_MEANING = "Environment variables for runs: names to pass through, or names with values."
ENV = Field("env", _VARIABLES, _ENV_MEANING, unset="a small set of basic variables")

_MCP_SERVER = Table(
    "An MCP server",
    Field("type", Choice(("stdio", "sse", "http")), "Transport of the server.", unset="http if url is set, else stdio"),
    Field("command", TEXT, "The program to start."),
    Field("args", ListOf(Text(allows_empty=True)), "Arguments of the program."),
    Field("env", MapOf(Text(allows_empty=True)), "Environment variables of the program."),
    Field("url", URL, "URL of the server."),
    Field("headers", MapOf(Text(allows_empty=True)), "Headers sent with each request."),
    Field("timeout", Integer(1), "Milliseconds."),
    Field("alwaysLoad", Boolean(), "Load its tools at the start."),
)
_PLUGIN_TABLE = Table(
    "A plugin",
    Field("type", Choice(("local",)), "Kind of plugin source.", "local"),
    Field("path", PATH, "Folder of the plugin.", required=True),
    Field("skipMcpDiscovery", Boolean(), "Do not load its MCP servers."),
)
_PLUGIN = AnyOf(scalar=PATH, mapping=_PLUGIN_TABLE)
SESSION_MODE = Field("mode", Choice(("fresh", "resume")), "Whether a run resumes the session of the last one.", "fresh")
SESSION_TABLE = Table(
    "A session",
    SESSION_MODE,
    Field("max_turns", Integer(1, 100_000), "Maximum turns per session."),
    Field("timeout", LONG_DURATION, "How long a session can be resumed.", "24h"),
    Field("model", TEXT, "", unsupported_reason="the agent's model is used"),
)

SESSION = Field(
    "session",
    AnyOf(scalar=Choice(("fresh", "resume")), mapping=SESSION_TABLE),
    "Whether runs resume the last session, and how long that is possible.",
    unset="fresh",
)
ACCOUNT = Field("account", TEXT, "Name of the login whose usage limit is shared.", unset="by runtime and login")
ON_DENIED = Field(
    "on_denied", EnumValue(OnDenied), "What happens to a run whose agent was denied a tool: marked, or failed.", "mark"
)

_SAFE_DOCKER_KEYS: tuple[Field[object], ...] = (
    Field("enabled", Boolean(), "Run the agent in a container.", "false"),
    Field("ephemeral", Boolean(), "Use a new container for each run.", "true"),
    Field("memory", MEMORY, "Memory limit.", "2g"),
    Field("cpu_shares", Integer(1), "Relative CPU weight."),
    Field("cpu_period", Integer(1), "Microseconds."),
    Field("cpu_quota", Integer(1), "CPU time per period, in microseconds."),
    Field("max_containers", Integer(1, 10_000), "Maximum number of containers to keep.", "5"),
    Field("workspace_mode", Choice(("rw", "ro")), "Access of the container to the working directory.", "rw"),
    Field("tmpfs", TEXTS, "In-memory file systems (tmpfs)."),
    Field("pids_limit", Integer(1), "Processes."),
    Field("labels", MapOf(Text(allows_empty=True)), "Labels of the container."),
)
AGENT_DOCKER = Table("An agent's docker block", *_SAFE_DOCKER_KEYS)
DOCKER = Table(
    "A docker block",
    *_SAFE_DOCKER_KEYS,
    Field("image", TEXT, "Container image.", "herdctl/runtime:latest"),
    Field("base_image", TEXT, "Deprecated name of `image`."),
    Field("network", Choice(("bridge", "none", "host")), "Network mode of the container.", "bridge"),
    Field("user", TEXT, "uid:gid.", unset="this user"),
    Field("volumes", TEXTS, "host:container[:ro]."),
    Field("env", MapOf(Text(allows_empty=True)), "Environment variables of the container."),
    Field("ports", TEXTS, "host:container."),
    Field("host_config", AnyValue(), "Options passed to Docker unchanged."),
)

INHERITABLE_KEYS: tuple[Field[object], ...] = (
    WORKING_DIRECTORY,
    Field("model", TEXT, "Model to use.", unset="the runtime's"),
    Field("max_turns", Integer(1, 100_000), "Maximum turns per run.", unset="the runtime's"),
    Field("permission_mode", Choice(PERMISSION_MODES), "Which actions need permission.", "acceptEdits"),
    Field("tools", TEXTS, "Tools that are available.", unset="all"),
    Field("allowed_tools", TEXTS, "Tools allowed without asking for permission.", unset="none"),
    Field("denied_tools", TEXTS, "Tools that are never allowed.", unset="none"),
    Field("mcp_servers", MapOf(_MCP_SERVER), "MCP servers, by name."),
    Field("plugins", ListOf(_PLUGIN), "Plugins of the runtime."),
    SESSION,
    Field("docker", DOCKER, "Container isolation.", unset="off"),
    *EXECUTOR_KEYS,
)
"""Keys that the `defaults:` of a fleet may set for its agents."""
INHERITABLE_KEY_NAMES = frozenset({"instances", "work_source", *(key.name for key in INHERITABLE_KEYS)})

AGENT_KEYS: tuple[Field[object], ...] = (
    Field(
        "runtime",
        RUNTIME_NAME,
        "CLI of the agent, `command` for any program, or a name under `runtimes:`. `sdk` and `cli` mean `claude`.",
        "claude",
    ),
    Field("program", TEXT, "File of that CLI.", unset="found on the PATH"),
    Field(
        "command",
        ARGV,
        "With `runtime: command`: program and arguments; `{prompt}` or `{prompt_file}` marks where the prompt goes.",
    ),
    Field("default_prompt", Text(allows_empty=True), "Default prompt of its schedules.", nullable=True),
    Field("system_prompt", Text(allows_empty=True), "System prompt; replaces the runtime's own."),
    Field("append_system_prompt", Text(allows_empty=True), "Text that is added to the runtime's system prompt."),
    Field("extra_dirs", ListOf(PATH), "Further folders that the agent may use.", aliases=("additional_dirs",)),
    ACCOUNT,
    ON_DENIED,
    Field("allow_create", Boolean(), "Let the agent add schedules of its own, each with an end.", "false"),
    WORKSPACE,
    ISOLATION,
    Field(
        "setting_sources",
        ListOf(Choice(("user", "project", "local"))),
        "Settings files that the runtime reads.",
        "project",
    ),
    Field("metadata_file", PATH, "File to which a run writes its metrics.", "metadata.json"),
    Field("chat", AnyValue("chat connectors", lenient=True), "Slack and Discord channels in which the agent answers."),
    Field("repo", TEXT, "Default repository of its work source."),
    Field("identity", AnyValue(lenient=True), "", unsupported_reason="use system_prompt"),
    *INHERITABLE_KEYS,
)
