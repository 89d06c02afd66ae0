"""The keys of the four kinds of target. A single schedule may be written right beside the name."""

from herdbeat.config.schema.agent import AGENT_KEYS, ENV, WORKING_DIRECTORY
from herdbeat.config.schema.formats import ARGV, CALL, EXPRESSION, NAME, URL
from herdbeat.config.schema.hooks import AFTER_RUN, HOOKS, ON_ERROR
from herdbeat.config.schema.policies import FOREIGN_KEY_SUGGESTIONS, POLICIES
from herdbeat.config.schema.schedule import SCHEDULE, SCHEDULE_KEYS, TRIGGER_KEYS
from herdbeat.config.schema.table import Field, MapOf, Table
from herdbeat.config.schema.types import AnyValue, Choice, Integer, Text
from herdbeat.domain.target import TargetKind

MAX_CONCURRENT = Field("max_concurrent", Integer(1, 100_000), "Runs of it at the same time.", "1")
INSTANCES = Field("instances", Table("An instances block", (MAX_CONCURRENT,)), "How many runs may go on at once.")
SCHEDULES = Field("schedules", MapOf(SCHEDULE, NAME), "Its schedules, by name.", "none", nullable=True)

_LEADING_KEYS: tuple[Field[object], ...] = (
    Field("name", NAME, "Its name.", required=True),
    Field("description", Text(allows_empty=True), "For people.", nullable=True),
)
_TRAILING_KEYS: tuple[Field[object], ...] = (INSTANCES, HOOKS, AFTER_RUN, ON_ERROR, SCHEDULES)
_AGENT_KEY_NAMES = {key.name for key in AGENT_KEYS}
TARGET_LEVEL_KEYS: tuple[Field[object], ...] = (*TRIGGER_KEYS, *SCHEDULE_KEYS, *POLICIES)
"""What may stand beside a target's name: its one schedule, or policies for all of its schedules."""

HTTP_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

AGENT = Table(
    "An agent",
    (
        *_LEADING_KEYS,
        *AGENT_KEYS,
        ENV,
        *_TRAILING_KEYS,
        *(key for key in TARGET_LEVEL_KEYS if key.name not in _AGENT_KEY_NAMES),
    ),
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)
ENDPOINT = Table(
    "An endpoint",
    (
        *_LEADING_KEYS,
        Field("url", URL, "The address of the request.", required=True),
        Field("method", Choice(HTTP_METHODS), "The method.", "GET"),
        Field("headers", MapOf(Text(allows_empty=True)), "Headers; secrets come from ${NAME}."),
        Field("body", AnyValue(), "The body, sent as JSON; `{prompt}` in its texts is the prompt."),
        Field("ok", EXPRESSION, "", unsupported_reason="this version judges by the status alone"),
        *_TRAILING_KEYS,
        *TARGET_LEVEL_KEYS,
    ),
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)
COMMAND = Table(
    "A command",
    (
        *_LEADING_KEYS,
        Field("command", ARGV, "Program and arguments; never a shell line.", required=True),
        WORKING_DIRECTORY,
        ENV,
        *_TRAILING_KEYS,
        *TARGET_LEVEL_KEYS,
    ),
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)
CALLABLE = Table(
    "A callable",
    (
        *_LEADING_KEYS,
        Field("call", CALL, "The function, as module:function.", required=True),
        *_TRAILING_KEYS,
        *TARGET_LEVEL_KEYS,
    ),
    suggestions=FOREIGN_KEY_SUGGESTIONS,
)

TARGET_TABLES = {
    TargetKind.AGENT: AGENT,
    TargetKind.ENDPOINT: ENDPOINT,
    TargetKind.COMMAND: COMMAND,
    TargetKind.CALLABLE: CALLABLE,
}
