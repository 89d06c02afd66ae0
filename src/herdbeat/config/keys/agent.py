"""The keys that only agents have: herdctl's agent file, and what runs other programs."""

from herdbeat.config.forms import ARGV, LONG_DURATION, PATH, TEXT, TEXTS, URL, VARIABLE
from herdbeat.config.shapes import Choice, Flag, Free, Text, Whole
from herdbeat.config.tables import Either, Key, ListOf, MapOf, Table

PERMISSION_MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk")
RUNTIMES = ("sdk", "cli", "codex", "gemini", "opencode", "aider", "command")

_NO_CLONE = "nothing is cloned; the folder is used as it is"
WORKING_DIRECTORY = Key(
    "working_directory",
    Either(
        scalar=PATH,
        mapping=Table(
            "A working directory",
            (
                Key("root", PATH, "The folder.", required=True),
                Key("auto_clone", Flag(), "", not_served=_NO_CLONE),
                Key("clone_depth", Whole(), "", not_served=_NO_CLONE),
                Key("default_branch", TEXT, "", not_served=_NO_CLONE),
            ),
        ),
    ),
    "The folder a run works in, relative to the file.",
    "the file's folder",
)
ENV = Key(
    "env",
    Either(sequence=ListOf(VARIABLE), mapping=MapOf(Text(may_be_empty=True), VARIABLE)),
    "The environment variables a run gets: names to pass on, or names with values.",
    "a small base list",
)

_MCP_SERVER = Table(
    "An MCP server",
    (
        Key("type", Choice(("stdio", "sse", "http")), "How it is reached.", "http with url, else stdio"),
        Key("command", TEXT, "The program."),
        Key("args", ListOf(Text(may_be_empty=True)), "Its arguments."),
        Key("env", MapOf(Text(may_be_empty=True)), "Its environment."),
        Key("url", URL, "Its address."),
        Key("headers", MapOf(Text(may_be_empty=True)), "Headers of each request."),
        Key("timeout", Whole(1), "Milliseconds."),
        Key("alwaysLoad", Flag(), "Load its tools at once."),
    ),
)
_PLUGIN = Either(
    scalar=PATH,
    mapping=Table(
        "A plugin",
        (
            Key("type", Choice(("local",)), "Where it comes from.", required=True),
            Key("path", PATH, "Its folder.", required=True),
            Key("skipMcpDiscovery", Flag(), "Leave its MCP servers out."),
        ),
    ),
)
_SESSION = Table(
    "A session",
    (
        Key("max_turns", Whole(1, 100_000), "Turns of one session."),
        Key("timeout", LONG_DURATION, "How long a session may be resumed.", "24h"),
        Key("model", TEXT, "", not_served="the agent's model is used"),
    ),
)

_SAFE_DOCKER: tuple[Key[object], ...] = (
    Key("enabled", Flag(), "Run inside a container, or not at all.", "false"),
    Key("ephemeral", Flag(), "A new container for each run.", "true"),
    Key("memory", TEXT, "Memory limit.", "2g"),
    Key("cpu_shares", Whole(1), "Relative weight."),
    Key("cpu_period", Whole(1), "Microseconds."),
    Key("cpu_quota", Whole(1), "Microseconds per period."),
    Key("max_containers", Whole(1, 10_000), "Containers kept.", "5"),
    Key("workspace_mode", Choice(("rw", "ro")), "Whether the folder may be written.", "rw"),
    Key("tmpfs", TEXTS, "Folders in memory."),
    Key("pids_limit", Whole(1), "Processes."),
    Key("labels", MapOf(Text(may_be_empty=True)), "Labels of the container."),
)
AGENT_DOCKER = Table("An agent's docker block", _SAFE_DOCKER)
DOCKER = Table(
    "A docker block",
    (
        *_SAFE_DOCKER,
        Key("image", TEXT, "The image.", "herdctl/runtime:latest"),
        Key("base_image", TEXT, "Older name of image."),
        Key("network", Choice(("bridge", "none", "host")), "The network.", "bridge"),
        Key("user", TEXT, "uid:gid.", "this user"),
        Key("volumes", TEXTS, "host:container[:ro]."),
        Key("env", MapOf(Text(may_be_empty=True)), "Environment of the container."),
        Key("ports", TEXTS, "host:container."),
        Key("host_config", Free(), "Handed to Docker as it is."),
    ),
)

INHERITED_KEYS: tuple[Key[object], ...] = (
    WORKING_DIRECTORY,
    Key("model", TEXT, "The model.", "the runtime's"),
    Key("max_turns", Whole(1, 100_000), "Turns of one run.", "the runtime's"),
    Key("permission_mode", Choice(PERMISSION_MODES), "What it may do unasked.", "acceptEdits"),
    Key("tools", TEXTS, "The tools it has at all.", "all"),
    Key("allowed_tools", TEXTS, "Tools it may use unasked.", "none"),
    Key("denied_tools", TEXTS, "Tools it may not use.", "none"),
    Key("mcp_servers", MapOf(_MCP_SERVER), "MCP servers it may use, by name."),
    Key("plugins", ListOf(_PLUGIN), "Plugins of the runtime."),
    Key("session", _SESSION, "How long sessions go on.", "resumable for 24h"),
    Key("docker", DOCKER, "Isolation in a container.", "off"),
)
"""What `defaults:` of a fleet may give to its agents."""
INHERITED_NAMES = frozenset({"instances", "work_source", *(key.name for key in INHERITED_KEYS)})

AGENT_KEYS: tuple[Key[object], ...] = (
    Key("runtime", Choice(RUNTIMES, {"claude": "cli"}), "What runs it: Claude by SDK or CLI, or another.", "sdk"),
    Key("command", ARGV, "runtime command: the program; {prompt} or {prompt_file} place the prompt."),
    Key("default_prompt", Text(may_be_empty=True), "The prompt of schedules that have none.", may_be_null=True),
    Key("system_prompt", Text(may_be_empty=True), "Replaces the runtime's own."),
    Key("setting_sources", ListOf(Choice(("user", "project", "local"))), "Settings it reads.", "project"),
    Key("metadata_file", PATH, "Where a run leaves its numbers.", "metadata.json"),
    Key("chat", Free("chat connectors", is_mild=True), "Slack and Discord channels it answers in."),
    Key("repo", TEXT, "The repository of its work source, if that names none."),
    Key("identity", Free(is_mild=True), "", not_served="say it in system_prompt"),
    *INHERITED_KEYS,
)
