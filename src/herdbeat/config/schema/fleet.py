"""The keys of a fleet file, those of herdctl's fleet file among them, and the JSON Schema of our files for editors."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.agent import INHERITABLE_KEYS
from herdbeat.config.schema.executors import EXECUTORS
from herdbeat.config.schema.formats import (
    ADDRESS,
    BASE_PATH_TEXT,
    DURATION,
    HEADER_NAME,
    NAME,
    NETWORK,
    PATH,
    STORE,
    TEXT,
    URL,
    VARIABLE_NAME,
    ZONE,
)
from herdbeat.config.schema.hooks import CHANNEL
from herdbeat.config.schema.planner import PLANNER
from herdbeat.config.schema.policies import BUDGET_TABLE, FOREIGN_KEY_SUGGESTIONS, POLICIES
from herdbeat.config.schema.rules import RULE
from herdbeat.config.schema.runtimes import RUNTIMES
from herdbeat.config.schema.schedule import WORK_SOURCE
from herdbeat.config.schema.table import Field, ListOf, MapOf, Table, optional_field
from herdbeat.config.schema.targets import AGENT, CALLABLE, COMMAND, ENDPOINT, INSTANCES
from herdbeat.config.schema.types import AnyValue, Boolean, Choice, FieldType, Integer, JsonSchema, Number, Text

PORT = Field("port", Integer(1, 65_535), "Port to listen on.", "3232")
HOST = Field("host", TEXT, "Address to listen on; addresses other than loopback need a token.", "127.0.0.1")
BASE_PATH = Field("base_path", BASE_PATH_TEXT, "Path that a reverse proxy puts in front of ours.", unset="none")
PUBLIC_URL = Field("public_url", URL, "Address under which others reach the server.", unset="none")
TRUSTED_PROXIES = Field(
    "trusted_proxies", ListOf(ADDRESS), "Addresses of proxies whose X-Forwarded headers count.", unset="none"
)
PROXY_HEADER = Field("header", HEADER_NAME, "Header with the name of the user.", required=True)
PROXY_FROM = Field("from", ListOf(ADDRESS, at_least=1), "Addresses that are allowed to send the header.", required=True)
PROXY_SCOPE = Field("scope", Choice(("read", "operate", "admin")), "What these users are allowed to do.", "read")
PROXY_AUTH = Field(
    "proxy_auth",
    Table("A proxy_auth block", PROXY_HEADER, PROXY_FROM, PROXY_SCOPE),
    "Accept the user that a proxy has authenticated.",
    unset="off",
)
TLS_CERT = Field("tls_cert", PATH, "File with the certificate chain, for HTTPS without a proxy.", unset="none")
TLS_KEY = Field("tls_key", PATH, "File with the private key of tls_cert.", unset="none")
SERVER = Field(
    "server",
    Table("A server block", HOST, PORT, BASE_PATH, PUBLIC_URL, TRUSTED_PROXIES, PROXY_AUTH, TLS_CERT, TLS_KEY),
    "Address and access of the API and the dashboard.",
)

_DASHBOARD_REASON = "the dashboard handles this itself"
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
    "herdctl's settings for the dashboard; the same as `server`.",
)
_WEBHOOKS_TABLE = Table(
    "A webhooks block",
    Field("enabled", Boolean(), "With false, written out, every webhook call is refused.", "false"),
    Field("port", Integer(1, 65_535), "herdctl's key; calls arrive at server.port.", unset="server.port"),
    Field("secret_env", VARIABLE_NAME, "Environment variable with the signing secret of schedules without `auth`."),
    Field("max_body", Integer(1_024, 8 * 1024 * 1024), "Maximum size of a call, in bytes.", "1048576"),
)
_AGE = Field("age", DURATION, "How long to keep history.", "30d")
_BEATS = Field("beats", Integer(100, 100_000_000), "Number of beats to keep per schedule.", "10000")
_RETENTION_TABLE = Table("A retention block", _AGE, _BEATS)
_ALLOW = Field(
    "allow", ListOf(NETWORK), "Private addresses and hosts that endpoints are allowed to reach.", unset="none"
)
_EGRESS_TABLE = Table("An egress block", _ALLOW)

FLEET_NAME = Field("name", TEXT, "Name of the fleet.", unset="the name of the folder")
FLEET_DESCRIPTION = Field("description", Text(allows_empty=True), "Description for readers.")
IDENTITY = Field("fleet", Table("A fleet block", FLEET_NAME, FLEET_DESCRIPTION), "Name and description of the fleet.")
VERSION = Field("version", Integer(1, 1_000), "Version of the file format.", "1")
TIMEZONE = Field("timezone", ZONE, "Default time zone of all schedules.", unset="the system's time zone")
STORE_URL = Field("store", STORE, "Database of the ledger.", "sqlite:.herdbeat/herdbeat.db")
ENGINE_SETTINGS: tuple[Field[object], ...] = (
    Field("max_concurrent", Integer(1, 1_000_000), "Maximum concurrent runs of the whole fleet.", unset="no limit"),
    optional_field("budget", BUDGET_TABLE, "Daily budget of all schedules together."),
    Field("lease", DURATION, "Time without a heartbeat after which a node counts as dead.", "30s"),
    Field("check_interval", DURATION, "How often to check for changes made by other processes.", "1s"),
    Field(
        "catchup_rate",
        Integer(1, 10_000),
        "Maximum starts per second over all nodes, while catching up and for agents that are due at once.",
        "10",
    ),
    Field("stop_timeout", DURATION, "How long a stop waits for active runs.", "30s"),
    Field(
        "log_format", Choice(("text", "json")), "Log of `up` and `serve`: for people, or one object per line.", "text"
    ),
    Field("retention", _RETENTION_TABLE, "How much history to keep."),
    Field("egress", _EGRESS_TABLE, "Addresses that endpoints are allowed to reach.", domain_field="egress_"),
    Field("webhooks", _WEBHOOKS_TABLE, "Webhook calls: POST /hooks/{target}/{schedule}."),
)
"""Settings of the scheduler, in the order of `config show`."""

_DEFAULTS_TABLE = Table(
    "Defaults",
    *(*POLICIES, *INHERITABLE_KEYS, INSTANCES, WORK_SOURCE),
    ignores_unknown=True,
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)
_DEFAULTS_MEANING = "Default policies of all schedules and default settings of all agents."
DEFAULTS = Field("defaults", _DEFAULTS_TABLE, _DEFAULTS_MEANING, nullable=True)
_OVERRIDES = Field("overrides", MapOf(AnyValue(lenient=True)), "Values that override those in the file.")
_REFERENCED_FILE = Field("path", PATH, "Path of the agent file, relative to this file.", required=True)
AGENT_REFERENCE = Table("A reference", _REFERENCED_FILE, _OVERRIDES)
SUB_FLEET = Table(
    "A sub-fleet",
    Field("path", PATH, "Path of the fleet file or its folder, relative to this file.", required=True),
    Field("name", NAME, "Prefix for the names of its targets.", unset="its fleet.name, else its folder"),
    _OVERRIDES,
)
IMPORT_FOLDER = Field("agentd", PATH, "Path of an .agentd folder.", required=True)
IMPORT_ZONE = Field("timezone", ZONE, "Time zone of its cron schedules.", "UTC")
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
FLEETS = Field("fleets", ListOf(SUB_FLEET), "Other fleet files to include.", nullable=True)
IMPORTS = Field("imports", ListOf(IMPORT), "agentd folders to include.", nullable=True)
RULES = Field("rules", MapOf(ListOf(RULE), NAME), "Named rule sets for `adapt: [{use: …}]`.", nullable=True)
NOTIFY = Field(
    "notify",
    MapOf(CHANNEL, NAME),
    "Channels by name: receivers of notifications, to which hooks can send, too.",
    nullable=True,
)

DEAD_MAN_URL = Field("url", URL, "Address of the monitor.", required=True)
DEAD_MAN_EVERY = Field("every", DURATION, "How often to call it.", "1m")
DEAD_MAN = Field(
    "dead_man",
    Table("A dead_man block", DEAD_MAN_URL, DEAD_MAN_EVERY),
    "A monitor elsewhere that is called while the scheduler works, and alerts when the calls stop.",
)

_ANY_BLOCK = AnyValue(lenient=True)
_PER_AGENT_REASON = "it belongs to defaults and agents: write defaults."
_HERDCTL_ONLY_KEYS: tuple[Field[object], ...] = (
    Field("docker", _ANY_BLOCK, "", unsupported_reason=f"{_PER_AGENT_REASON}docker"),
    Field("working_directory", _ANY_BLOCK, "", unsupported_reason=f"{_PER_AGENT_REASON}working_directory"),
    Field("chat", _ANY_BLOCK, "", unsupported_reason="it is obsolete; each agent has its own"),
)

PRICE_INPUT = Field("input", Number(0, 1_000_000), "Dollars per million tokens of input.", required=True)
PRICE_OUTPUT = Field("output", Number(0, 1_000_000), "Dollars per million tokens of output.", required=True)
PRICE_CACHE_READ = Field(
    "cache_read", Number(0, 1_000_000), "Dollars per million tokens read from the cache.", unset="the price of input"
)
PRICE_CACHE_WRITE = Field(
    "cache_write", Number(0, 1_000_000), "Dollars per million tokens written to the cache.", unset="the price of input"
)
_PRICE_TABLE = Table("A price", PRICE_INPUT, PRICE_OUTPUT, PRICE_CACHE_READ, PRICE_CACHE_WRITE)
PRICES = Field(
    "prices",
    MapOf(_PRICE_TABLE),
    "Prices of models whose CLI reports no dollars, by the name of the model or its beginning.",
    nullable=True,
)

FLEET_SETTINGS = (
    VERSION,
    IDENTITY,
    TIMEZONE,
    STORE_URL,
    SERVER,
    *ENGINE_SETTINGS,
    WEB,
    DEFAULTS,
    RULES,
    NOTIFY,
    DEAD_MAN,
    PLANNER,
    RUNTIMES,
    EXECUTORS,
    PRICES,
)
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
