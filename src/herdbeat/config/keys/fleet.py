"""The keys of a fleet file: ours, and herdctl's, which is a part of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from herdbeat.config.forms import DURATION, NAME, NETWORK, PATH, STORE, TEXT, VARIABLE, ZONE
from herdbeat.config.keys.agent import INHERITED_KEYS
from herdbeat.config.keys.hooks import CHANNEL
from herdbeat.config.keys.policies import BUDGET_TABLE, OTHER_WORDS, POLICIES
from herdbeat.config.keys.rules import RULE
from herdbeat.config.keys.schedule import WORK_SOURCE
from herdbeat.config.keys.targets import AGENT, CALLABLE, COMMAND, ENDPOINT, INSTANCES
from herdbeat.config.shapes import Flag, Free, JsonSchema, Shape, Text, Whole
from herdbeat.config.tables import Key, ListOf, MapOf, Table
from herdbeat.located import Located

PORT = Key("port", Whole(1, 65_535), "The port.", "3232")
HOST = Key("host", TEXT, "The address to listen on; others than loopback need a token.", "127.0.0.1")
SERVER = Key("server", Table("A server block", (HOST, PORT)), "Where API and dashboard are served.")

_WEB_PAGE = "the dashboard has its own way"
WEB = Key(
    "web",
    Table(
        "A web block",
        (
            Key("enabled", Flag(), "Serve the dashboard.", "false"),
            HOST,
            PORT,
            Key("session_expiry_hours", Whole(), "", not_served=_WEB_PAGE),
            Key("open_browser", Flag(), "", not_served=_WEB_PAGE),
            Key("tool_results", Flag(), "", not_served=_WEB_PAGE),
            Key("message_grouping", TEXT, "", not_served=_WEB_PAGE),
        ),
    ),
    "herdctl's block for the dashboard; `server` says the same.",
)
WEBHOOK_PORT = Key("port", Whole(1, 65_535), "The port that answers.", "8081")
SECRET_ENV = Key("secret_env", VARIABLE, "The variable with the secret of their signatures.")
WEBHOOKS_ENABLED = Key("enabled", Flag(), "Accept webhook calls.", "false")
WEBHOOKS = Key(
    "webhooks",
    Table(
        "A webhooks block",
        (WEBHOOKS_ENABLED, WEBHOOK_PORT, SECRET_ENV),
    ),
    "Webhook calls: POST /hooks/{target}/{schedule}.",
)
AGE = Key("age", DURATION, "How long history is kept.", "30d")
BEATS = Key("beats", Whole(100, 100_000_000), "Beats kept per schedule.", "10000")
RETENTION = Key("retention", Table("A retention block", (AGE, BEATS)), "How much history is kept.")
ALLOW = Key("allow", ListOf(NETWORK), "Private addresses and hosts that endpoints may reach.", "none")
EGRESS = Key("egress", Table("An egress block", (ALLOW,)), "Where endpoints may connect to.")

FLEET_NAME = Key("name", TEXT, "The fleet's name.", "the folder's")
FLEET_DESCRIPTION = Key("description", Text(may_be_empty=True), "For people.")
IDENTITY = Key("fleet", Table("A fleet block", (FLEET_NAME, FLEET_DESCRIPTION)), "Name and description.")
VERSION = Key("version", Whole(1, 1_000), "The version of this format.", "1")
TIMEZONE = Key("timezone", ZONE, "The zone of all schedules without their own.", "the system's")
STORE_URL = Key("store", STORE, "Where beats and runs are kept.", "sqlite:.herdbeat/herdbeat.db")
MAX_CONCURRENT = Key("max_concurrent", Whole(1, 1_000_000), "Runs of the whole fleet at once.", "no limit")
BUDGET = Key("budget", BUDGET_TABLE, "What a day of all schedules together may cost.", "none", may_be_null=True)
LEASE = Key("lease", DURATION, "A node that is silent for this long is dead.", "30s")
CHECK_INTERVAL = Key("check_interval", DURATION, "How often changes from outside are looked for.", "1s")
CATCHUP_RATE = Key("catchup_rate", Whole(1, 10_000), "Starts per second while catching up, of all nodes.", "10")
STOP_TIMEOUT = Key("stop_timeout", DURATION, "How long a stop waits for runs.", "30s")

DEFAULTS = Key(
    "defaults",
    Table("Defaults", (*POLICIES, *INHERITED_KEYS, INSTANCES, WORK_SOURCE), drops_unknown=True, others=OTHER_WORDS),
    "Policies for all schedules, and settings for all agents.",
    may_be_null=True,
)
REFERENCE = Table(
    "A reference",
    (
        Key("path", PATH, "The file, relative to this one.", required=True),
        Key("overrides", MapOf(Free(is_mild=True)), "Laid over what the file says."),
    ),
)
SUB_FLEET = Table(
    "A sub-fleet",
    (
        Key("path", PATH, "Its fleet file, or the folder of that, relative to this file.", required=True),
        Key("name", NAME, "Put before the names of its targets.", "its fleet.name, else its folder"),
        Key("overrides", MapOf(Free(is_mild=True)), "Laid over what the file says."),
    ),
)
IMPORT_FOLDER = Key("agentd", PATH, "An .agentd folder.", required=True)
IMPORT_ZONE = Key("timezone", ZONE, "The zone of its cron schedules.", "UTC")
IMPORT = Table("An import", (IMPORT_FOLDER, IMPORT_ZONE))


@dataclass(frozen=True, slots=True)
class AgentEntry(Shape[object]):
    """An agent, written here or in a file of its own. Which of the two, `path` tells."""

    def expected(self) -> str:
        return "an agent, or a path to one"

    def inner(self) -> Iterable[Shape[object]]:
        return (REFERENCE, AGENT)

    def read(self, node: Located) -> object:
        return (AGENT if node.child("path") is None else REFERENCE).read(node)

    def schema(self) -> JsonSchema:
        return {"if": {"required": ["path"]}, "then": REFERENCE.schema(), "else": AGENT.schema()}


AGENTS = Key("agents", ListOf(AgentEntry()), "Agents, inline or by `path`.", may_be_null=True)
ENDPOINTS = Key("endpoints", ListOf(ENDPOINT), "HTTP endpoints.", may_be_null=True)
COMMANDS = Key("commands", ListOf(COMMAND), "Programs.", may_be_null=True)
CALLABLES = Key("callables", ListOf(CALLABLE), "Python functions.", may_be_null=True)
FLEETS = Key("fleets", ListOf(SUB_FLEET), "Other fleet files, read as parts of this one.", may_be_null=True)
IMPORTS = Key("imports", ListOf(IMPORT), "Folders of agentd, read as they are.", may_be_null=True)
RULES = Key("rules", MapOf(ListOf(RULE), NAME), "Named sets of rules for `adapt: [{use: …}]`.", may_be_null=True)
NOTIFY = Key("notify", MapOf(CHANNEL, NAME), "Named channels for hooks.", may_be_null=True)

_PER_AGENT = "only defaults and agents have it"
_HERDCTL_ONLY: tuple[Key[object], ...] = (
    Key("docker", Free(is_mild=True), "", not_served=f"{_PER_AGENT}: write defaults.docker"),
    Key("working_directory", Free(is_mild=True), "", not_served=f"{_PER_AGENT}: write defaults.working_directory"),
    Key("chat", Free(is_mild=True), "", not_served="an old block; each agent has its own"),
)

SETTINGS: tuple[Key[object], ...] = (
    VERSION,
    IDENTITY,
    TIMEZONE,
    STORE_URL,
    SERVER,
    MAX_CONCURRENT,
    BUDGET,
    LEASE,
    CHECK_INTERVAL,
    CATCHUP_RATE,
    STOP_TIMEOUT,
    RETENTION,
    EGRESS,
    WEBHOOKS,
    WEB,
    DEFAULTS,
    RULES,
    NOTIFY,
)
FLEET = Table(
    "A fleet file",
    (*SETTINGS, AGENTS, ENDPOINTS, COMMANDS, CALLABLES, FLEETS, IMPORTS, *_HERDCTL_ONLY),
    others={"tz": "timezone", "schedules": "commands", "jobs": "commands", "targets": "agents"},
)
