"""The keys of the four kinds of target. A single schedule may be written right beside the name."""

from collections.abc import Mapping

from herdbeat.config.schema.agent import AGENT_KEYS, ENV, WORKING_DIRECTORY
from herdbeat.config.schema.executors import EXECUTOR_KEYS, NO_EXECUTOR_KEYS
from herdbeat.config.schema.formats import ARGV, CALL, NAME, RESULT_EXPRESSION, URL
from herdbeat.config.schema.hooks import AFTER_RUN, HOOKS, ON_CHANGE, ON_ERROR
from herdbeat.config.schema.policies import FOREIGN_KEY_SUGGESTIONS, POLICIES
from herdbeat.config.schema.schedule import SCHEDULE, SCHEDULE_KEYS, TRIGGER_KEYS
from herdbeat.config.schema.table import Field, MapOf, Table, optional_field
from herdbeat.config.schema.types import AnyValue, Choice, Integer, Text
from herdbeat.domain.target import TargetKind

_MAX_CONCURRENT = Field("max_concurrent", Integer(1, 100_000), "Maximum concurrent runs.", "1")
_INSTANCES_TABLE = Table("An instances block", _MAX_CONCURRENT)
INSTANCES = Field("instances", _INSTANCES_TABLE, "Limits on concurrent runs.", domain_field="")
DESCRIPTION = Field("description", Text(allows_empty=True), "Description for readers.", nullable=True)
SCHEDULES = optional_field("schedules", MapOf(SCHEDULE, NAME), "Its schedules, by name.")

_LEADING_KEYS: tuple[Field[object], ...] = (Field("name", NAME, "Name of the target.", required=True), DESCRIPTION)
_TRAILING_KEYS: tuple[Field[object], ...] = (INSTANCES, HOOKS, AFTER_RUN, ON_ERROR, ON_CHANGE, SCHEDULES)
TARGET_LEVEL_KEYS: tuple[Field[object], ...] = (*TRIGGER_KEYS, *SCHEDULE_KEYS, *POLICIES)
"""Keys that may stand beside a target's name: its one schedule, or policies for all of its schedules."""

HTTP_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_BUILT_KEYS = frozenset({"working_directory", "docker", "chat", "session", "workspace", "isolation"})
SPEC_KEYS: Mapping[TargetKind, tuple[Field[object], ...]] = {
    TargetKind.AGENT: tuple(key for key in AGENT_KEYS if key.name not in _BUILT_KEYS),
    TargetKind.ENDPOINT: (
        Field("url", URL, "URL of the request.", required=True),
        Field("method", Choice(HTTP_METHODS), "HTTP method.", "GET"),
        Field("headers", MapOf(Text(allows_empty=True)), "Headers; use ${NAME} for secrets."),
        Field("body", AnyValue(), "Body, sent as JSON; `{prompt}` in its strings is replaced by the prompt."),
        Field("ok", RESULT_EXPRESSION, "Condition that a 2xx response must fulfil to be a success."),
    ),
    TargetKind.COMMAND: (
        Field("command", ARGV, "Program and arguments as a list; no shell is involved.", required=True),
        *EXECUTOR_KEYS,
    ),
    TargetKind.CALLABLE: (Field("call", CALL, "The function, as module:function.", required=True),),
}
"""Keys whose value is a field of the target's spec. Folder, environment and isolation take more than their value."""


def _build_target_table(title: str, *own_keys: Field[object]) -> Table:
    """Return the table of a kind of target. A key of its own replaces the schedules' one of that name."""
    own_names = {key.name for key in own_keys}
    shared_keys = (key for key in TARGET_LEVEL_KEYS if key.name not in own_names)
    all_keys = (*_LEADING_KEYS, *own_keys, *_TRAILING_KEYS, *shared_keys)
    return Table(title, *all_keys, suggestions=FOREIGN_KEY_SUGGESTIONS)


AGENT = _build_target_table("An agent", *AGENT_KEYS, ENV)
ENDPOINT = _build_target_table("An endpoint", *SPEC_KEYS[TargetKind.ENDPOINT], *NO_EXECUTOR_KEYS)
COMMAND = _build_target_table("A command", *SPEC_KEYS[TargetKind.COMMAND], WORKING_DIRECTORY, ENV)
CALLABLE = _build_target_table("A callable", *SPEC_KEYS[TargetKind.CALLABLE], *NO_EXECUTOR_KEYS)

TARGET_TABLES = {
    TargetKind.AGENT: AGENT,
    TargetKind.ENDPOINT: ENDPOINT,
    TargetKind.COMMAND: COMMAND,
    TargetKind.CALLABLE: CALLABLE,
}
