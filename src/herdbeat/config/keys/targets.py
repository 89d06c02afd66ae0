"""The keys of the four kinds of target. A single schedule may be written right beside the name."""

from herdbeat.config.forms import ARGV, CALL, EXPRESSION, NAME, URL
from herdbeat.config.keys.agent import AGENT_KEYS, ENV, WORKING_DIRECTORY
from herdbeat.config.keys.hooks import AFTER_RUN, HOOKS, ON_ERROR
from herdbeat.config.keys.policies import OTHER_WORDS, POLICIES
from herdbeat.config.keys.schedule import OWN_KEYS, SCHEDULE, TRIGGER_KEYS
from herdbeat.config.shapes import Choice, Free, Text, Whole
from herdbeat.config.tables import Key, MapOf, Table
from herdbeat.domain.target import TargetKind

MAX_CONCURRENT = Key("max_concurrent", Whole(1, 100_000), "Runs of it at the same time.", "1")
INSTANCES = Key("instances", Table("An instances block", (MAX_CONCURRENT,)), "How many runs may go on at once.")
SCHEDULES = Key("schedules", MapOf(SCHEDULE, NAME), "Its schedules, by name.", "none", may_be_null=True)

_HEAD: tuple[Key[object], ...] = (
    Key("name", NAME, "Its name.", required=True),
    Key("description", Text(may_be_empty=True), "For people.", may_be_null=True),
)
_TAIL: tuple[Key[object], ...] = (INSTANCES, HOOKS, AFTER_RUN, ON_ERROR, SCHEDULES)
_AGENT_NAMES = {key.name for key in AGENT_KEYS}
BESIDE: tuple[Key[object], ...] = (*TRIGGER_KEYS, *OWN_KEYS, *POLICIES)
"""What may stand beside a target's name: its one schedule, or policies for all of its schedules."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

AGENT = Table(
    "An agent",
    (*_HEAD, *AGENT_KEYS, ENV, *_TAIL, *(key for key in BESIDE if key.name not in _AGENT_NAMES)),
    others=OTHER_WORDS,
)
ENDPOINT = Table(
    "An endpoint",
    (
        *_HEAD,
        Key("url", URL, "The address of the request.", required=True),
        Key("method", Choice(METHODS), "The method.", "GET"),
        Key("headers", MapOf(Text(may_be_empty=True)), "Headers; secrets come from ${NAME}."),
        Key("body", Free(), "The body, sent as JSON; `{prompt}` in its texts is the prompt."),
        Key("ok", EXPRESSION, "", not_served="this version judges by the status alone"),
        *_TAIL,
        *BESIDE,
    ),
    others=OTHER_WORDS,
)
COMMAND = Table(
    "A command",
    (
        *_HEAD,
        Key("command", ARGV, "Program and arguments; never a shell line.", required=True),
        WORKING_DIRECTORY,
        ENV,
        *_TAIL,
        *BESIDE,
    ),
    others=OTHER_WORDS,
)
CALLABLE = Table(
    "A callable",
    (*_HEAD, Key("call", CALL, "The function, as module:function.", required=True), *_TAIL, *BESIDE),
    others=OTHER_WORDS,
)

TABLES = {
    TargetKind.AGENT: AGENT,
    TargetKind.ENDPOINT: ENDPOINT,
    TargetKind.COMMAND: COMMAND,
    TargetKind.CALLABLE: CALLABLE,
}
