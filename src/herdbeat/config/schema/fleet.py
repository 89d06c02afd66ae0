"""The keys of a fleet file, those of herdctl's fleet file among them, and the JSON Schema of our files for editors."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.agent import INHERITABLE_KEYS
from herdbeat.config.schema.formats import DURATION, NAME, NETWORK, PATH, STORE, TEXT, VARIABLE_NAME, ZONE
from herdbeat.config.schema.hooks import CHANNEL
from herdbeat.config.schema.policies import BUDGET_TABLE, FOREIGN_KEY_SUGGESTIONS, POLICIES
from herdbeat.config.schema.rules import RULE
from herdbeat.config.schema.schedule import WORK_SOURCE
from herdbeat.config.schema.table import Field, ListOf, MapOf, Table, optional_field
from herdbeat.config.schema.targets import AGENT, CALLABLE, COMMAND, ENDPOINT, INSTANCES
from herdbeat.config.schema.types import AnyValue, Boolean, FieldType, Integer, JsonSchema, Text

PORT = Field("port", Integer(1, 65_535), "The port.", "3232")
HOST = Field("host", TEXT, "The address to listen on; others than loopback need a token.", "127.0.0.1")
SERVER = Field("server", Table("A server block", HOST, PORT), "Where API and dashboard are served.")

_DASHBOARD_REASON = "the dashboard has its own way"
WEB = Field(
    "web",
    Table(
        "A web block",
        Field("enabled", Boolean(), "Serve the dashboard.", "false"),
        HOST,
        PORT,
        Field("session_expiry_hours", Integer(), "", unsupported_reason=_DASHBOARD_REASON),
        Field("open_browser", Boolean(), "", unsupported_reason=_DASHBOARD_REASON),
        Field("tool_results", Boolean(), "", unsupported_reason=_DASHBOARD_REASON),
        Field("message_grouping", TEXT, "", unsupported_reason=_DASHBOARD_REASON),
    ),
    "herdctl's block for the dashboard; `server` says the same.",
)
_WEBHOOKS_TABLE = Table(
    "A webhooks block",
    Field("enabled", Boolean(), "Accept webhook calls.", "false"),
    Field("port", Integer(1, 65_535), "The port that answers.", unset="8081"),
    Field("secret_env", VARIABLE_NAME, "The variable with the secret of their signatures."),
)
_AGE = Field("age", DURATION, "How long history is kept.", "30d")
_BEATS = Field("beats", Integer(100, 100_000_000), "Beats kept per schedule.", "10000")
_RETENTION_TABLE = Table("A retention block", _AGE, _BEATS)
_ALLOW = Field("allow", ListOf(NETWORK), "Private addresses and hosts that endpoints may reach.", unset="none")
_EGRESS_TABLE = Table("An egress block", _ALLOW)

FLEET_NAME = Field("name", TEXT, "The fleet's name.", unset="the folder's")
FLEET_DESCRIPTION = Field("description", Text(allows_empty=True), "For people.")
IDENTITY = Field("fleet", Table("A fleet block", FLEET_NAME, FLEET_DESCRIPTION), "Name and description.")
VERSION = Field("version", Integer(1, 1_000), "The version of this format.", "1")
TIMEZONE = Field("timezone", ZONE, "The zone of all schedules without their own.", unset="the system's")
STORE_URL = Field("store", STORE, "Where beats and runs are kept.", "sqlite:.herdbeat/herdbeat.db")
ENGINE_SETTINGS: tuple[Field[object], ...] = (
    Field("max_concurrent", Integer(1, 1_000_000), "Runs of the whole fleet at once.", unset="no limit"),
    optional_field("budget", BUDGET_TABLE, "What a day of all schedules together may cost."),
    Field("lease", DURATION, "A node that is silent for this long is dead.", "30s"),
    Field("check_interval", DURATION, "How often changes from outside are looked for.", "1s"),
    Field(
        "catchup_rate",
        Integer(1, 10_000),
        "Starts per second of all nodes, while catching up and of agents that are due at once.",
        "10",
    ),
    Field("stop_timeout", DURATION, "How long a stop waits for runs.", "30s"),
    Field("retention", _RETENTION_TABLE, "How much history is kept."),
    Field("egress", _EGRESS_TABLE, "Where endpoints may connect to.", domain_field="egress_"),
    Field("webhooks", _WEBHOOKS_TABLE, "Webhook calls: POST /hooks/{target}/{schedule}."),
)
"""Settings of the scheduler, in the order of `config show`."""

_DEFAULTS_TABLE = Table(
    "Defaults",
    *(*POLICIES, *INHERITABLE_KEYS, INSTANCES, WORK_SOURCE),
    ignores_unknown=True,
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)
_DEFAULTS_MEANING = "Policies for all schedules, and settings for all agents."
DEFAULTS = Field("defaults", _DEFAULTS_TABLE, _DEFAULTS_MEANING, nullable=True)
_OVERRIDES = Field("overrides", MapOf(AnyValue(lenient=True)), "Laid over what the file says.")
_REFERENCED_FILE = Field("path", PATH, "The file, relative to this one.", required=True)
AGENT_REFERENCE = Table("A reference", _REFERENCED_FILE, _OVERRIDES)
SUB_FLEET = Table(
    "A sub-fleet",
    Field("path", PATH, "Its fleet file, or the folder of that, relative to this file.", required=True),
    Field("name", NAME, "Put before the names of its targets.", unset="its fleet.name, else its folder"),
    _OVERRIDES,
)
IMPORT_FOLDER = Field("agentd", PATH, "An .agentd folder.", required=True)
IMPORT_ZONE = Field("timezone", ZONE, "The zone of its cron schedules.", "UTC")
IMPORT = Table("An import", IMPORT_FOLDER, IMPORT_ZONE)


@dataclass(frozen=True, slots=True)
class AgentEntry(FieldType[object]):
    """An agent, inline or in a file of its own that `path` names."""

    description = "an agent, or a path to one"

    def inner_types(self) -> Iterable[FieldType[object]]:
        return (AGENT_REFERENCE, AGENT)

    def read(self, node: ConfigNode) -> object:
        return (AGENT if node.child("path") is None else AGENT_REFERENCE).read(node)

    def to_json_schema(self) -> JsonSchema:
        return {"if": {"required": ["path"]}, "then": AGENT_REFERENCE.to_json_schema(), "else": AGENT.to_json_schema()}


AGENTS = Field("agents", ListOf(AgentEntry()), "Agents, inline or by `path`.", nullable=True)
ENDPOINTS = Field("endpoints", ListOf(ENDPOINT), "HTTP endpoints.", nullable=True)
COMMANDS = Field("commands", ListOf(COMMAND), "Programs.", nullable=True)
CALLABLES = Field("callables", ListOf(CALLABLE), "Python functions.", nullable=True)
FLEETS = Field("fleets", ListOf(SUB_FLEET), "Other fleet files, read as parts of this one.", nullable=True)
IMPORTS = Field("imports", ListOf(IMPORT), "Folders of agentd, read as they are.", nullable=True)
RULES = Field("rules", MapOf(ListOf(RULE), NAME), "Named sets of rules for `adapt: [{use: …}]`.", nullable=True)
NOTIFY = Field("notify", MapOf(CHANNEL, NAME), "Named channels for hooks.", nullable=True)

_ANY_BLOCK = AnyValue(lenient=True)
_PER_AGENT_REASON = "only defaults and agents have it: write defaults."
_HERDCTL_ONLY_KEYS: tuple[Field[object], ...] = (
    Field("docker", _ANY_BLOCK, "", unsupported_reason=f"{_PER_AGENT_REASON}docker"),
    Field("working_directory", _ANY_BLOCK, "", unsupported_reason=f"{_PER_AGENT_REASON}working_directory"),
    Field("chat", _ANY_BLOCK, "", unsupported_reason="an old block; each agent has its own"),
)

FLEET_SETTINGS = (VERSION, IDENTITY, TIMEZONE, STORE_URL, SERVER, *ENGINE_SETTINGS, WEB, DEFAULTS, RULES, NOTIFY)
FLEET = Table(
    "A fleet file",
    *FLEET_SETTINGS,
    *(AGENTS, ENDPOINTS, COMMANDS, CALLABLES, FLEETS, IMPORTS),
    *_HERDCTL_ONLY_KEYS,
    suggestions={"tz": "timezone", "schedules": "commands", "jobs": "commands", "targets": "agents"},
)

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOT_TABLES = {"fleet": FLEET, "agent": AGENT}


def build_json_schema(schema_name: str) -> JsonSchema:
    """Return the schema of a `fleet` file or of an `agent` file. Each table is defined once and referred to."""
    definitions: dict[str, object] = {}
    root = _hoist_definitions(_ROOT_TABLES[schema_name].to_json_schema(), definitions)
    assert isinstance(root, dict)
    return {"$schema": JSON_SCHEMA_DIALECT, "title": f"herdbeat {schema_name} file", **root, "$defs": definitions}


def list_tables() -> list[Table]:
    """Return every table of our own files, in the order of the fleet file. Tables of one title are one."""
    tables: dict[str, Table] = {}
    for table in _iter_tables(FLEET):
        tables.setdefault(table.title, table)
    return list(tables.values())


def _iter_tables(field_type: FieldType[object]) -> Iterator[Table]:
    """Yield the type, if it is a table, and every table below it."""
    if isinstance(field_type, Table):
        yield field_type
    for inner in field_type.inner_types():
        yield from _iter_tables(inner)


def _hoist_definitions(schema: object, definitions: dict[str, object]) -> object:
    """Return the schema with its tables as references to definitions: the schedule alone is used in five places."""
    if isinstance(schema, list):
        return [_hoist_definitions(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _hoist_definitions(item, definitions) for name, item in schema.items()}
    if "properties" not in inner or not isinstance(inner.get("title"), str):
        return inner
    name = re.sub(r"^(an?) ", "", str(inner["title"]).lower()).replace(" ", "-").replace("'", "")
    description = {"description": inner.pop("description")} if isinstance(inner.get("description"), str) else {}
    definitions.setdefault(name, inner)
    return {"$ref": f"#/$defs/{name}", **description}
