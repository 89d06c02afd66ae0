"""What a command consists of, and the options that commands share: each has one meaning everywhere."""

from dataclasses import dataclass

_NAME_ARGUMENTS = frozenset({"WHICH", "TARGET", "WHAT", "SELECTOR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A flag. With a `value` (its name in the help) it takes one, without it is a switch.

    One that `repeats` may be given several times; any other only once.
    """

    names: tuple[str, ...]
    meaning: str
    value: str = ""
    choices: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def key(self) -> str:
        return self.names[-1].lstrip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A positional argument. `choices` are its only values, if there are any. The last one may be `many` words."""

    name: str
    meaning: str
    choices: tuple[str, ...] = ()
    required: bool = False
    takes_file: bool = False
    many: bool = False

    @property
    def takes_name(self) -> bool:
        """Whether it is a target or a schedule, whose names a shell can complete."""
        return self.name in _NAME_ARGUMENTS and not self.choices


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """One command. `names` are its name, of one word or two, and its aliases.

    Its function is `run_` and its last word, in the module of `herdbeat.cli.commands` that is called as its first word;
    `module` names another one. Both are imported when the command runs.
    """

    names: tuple[str, ...]
    summary: str
    examples: tuple[tuple[str, str], ...]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    notes: tuple[str, ...] = ()
    module: str = ""

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def function(self) -> str:
        """`module:function`."""
        words = self.name.split()
        return f"herdbeat.cli.commands.{self.module or words[0]}:run_{words[-1]}"

    @property
    def all_options(self) -> tuple[Option, ...]:
        return self.options + COMMON_FLAGS


CONFIG = Option(names=("-c", "--config"), value="PATH", meaning="the fleet file or folder; else found here or above")
JSON = Option(names=("--json",), meaning="print JSON")
PLAIN = Option(names=("--plain",), meaning="print lines of tab-separated fields, for scripts")
WIDE = Option(names=("--wide",), meaning="do not shorten anything to fit the screen")
ZONE = Option(names=("--tz",), value="ZONE", meaning="show times in this zone; cron expressions are read in it")
UTC = Option(names=("--utc",), meaning="the same as --tz UTC")
COUNT = Option(names=("-n", "--count"), value="N", meaning="how many: to show in all, or beats to skip")
FROM = Option(names=("--from",), value="TIME", meaning="start there: 2026-03-28, 2026-03-28T09:00:00Z or 2h")
UNTIL = Option(names=("--until",), value="TIME", meaning="end there: a time, or a duration after the start")
BY = Option(names=("--by",), value="hour", choices=("hour",), meaning="count the instants of each hour")
CRON = Option(names=("--cron",), value="EXPR", meaning="take this cron expression")
STRICT = Option(names=("--strict",), meaning="take warnings for errors")

HELP = Option(names=("-h", "--help"), meaning="show this help")
VERSION = Option(names=("--version",), meaning="show the version")
NO_COLOR = Option(names=("--no-color",), meaning="no colours; NO_COLOR and TERM=dumb say the same")
QUIET = Option(names=("-q", "--quiet"), meaning="only the data, no remarks")
VERBOSE = Option(names=("-v", "--verbose"), meaning="more of the story")
COMMON_FLAGS = (QUIET, VERBOSE, NO_COLOR, HELP)
"""Options of every command."""

TOP_LEVEL_FLAGS = (VERSION, NO_COLOR, HELP)
"""Options of `herdbeat` without a command."""

LABEL = Option(
    names=("--label",), value="LABEL", meaning="run schedules that say runs_on: LABEL; may be repeated", repeats=True
)
APPLY = Option(
    names=("--apply",), meaning="bring what the files say into a store that nodes share; a file of our own always is"
)
NO_WORKERS = Option(names=("--no-workers",), meaning="answer and watch, but run nothing here; other nodes do")
MAX_CONCURRENT = Option(names=("--max-concurrent",), value="N", meaning="runs at once on this node, in all")
TIMEOUT = Option(names=("--timeout",), value="DURATION", meaning="how long runs may still go on, such as 30s")
FORCE = Option(names=("--force",), meaning="insist: cut off (down), kill (cancel), repeat (retry), write over (backup)")
MAX = Option(names=("--max",), value="N", meaning="how many beats may be written; 100 if not said")
DRY_RUN = Option(names=("--dry-run",), meaning="only say what would happen")
SCHEDULE = Option(names=("-S", "--schedule"), value="NAME", meaning="which schedule of the target")
WAIT = Option(names=("--wait",), meaning="show its output until it ends; exit 5 if it failed")
QUEUE = Option(names=("--queue",), meaning="wait for room instead of being refused")
CHECK = Option(names=("--check",), meaning="exit 6 if anything is late or failing")
SINCE = Option(names=("--since",), value="TIME", meaning="from then on: 2h (ago), 09:00, yesterday, 2026-03-28")
OUTCOME = Option(names=("--outcome",), value="WORD", meaning="ran, skipped, missed, merged, pending or running")
RUN_STATUS = Option(names=("--status",), value="WORD", meaning="succeeded, failed, timed_out, running, …")
CURSOR = Option(names=("--cursor",), value="CURSOR", meaning="go on where the last page ended (its next_cursor)")
AT = Option(names=("--at",), value="TIME", meaning="a moment: 09:00, yesterday 09:00, tomorrow 09:00 or RFC 3339")
TAG = Option(names=("--tag",), value="TAG", meaning="every schedule with this tag; may be repeated", repeats=True)
GROUP = Option(names=("--group",), value="GROUP", meaning="every schedule of this group; may be repeated", repeats=True)
ALL = Option(names=("--all",), meaning="every schedule of the fleet")
REASON = Option(names=("--reason",), value="TEXT", meaning="why: shown wherever the change is")
YES = Option(names=("-y", "--yes"), meaning="do not ask first")
FOR = Option(names=("--for",), value="DURATION", meaning="how long it holds: 20m, 2h, 3d")
EVERY = Option(names=("--every",), value="DURATION", meaning="the pace that is wanted: 20s, 5m")
CANCEL_RUNNING = Option(names=("--cancel-running",), meaning="also stop the runs that are going")
CLEAR = Option(names=("--clear",), meaning="take back what was wished: the hints, or the skips")
TEMPLATE = Option(
    names=("--template",),
    value="NAME",
    choices=("agents", "endpoints", "commands", "github", "demo"),
    meaning="agents, endpoints, commands, github or demo",
)
PROMPT = Option(names=("--prompt",), value="TEXT", meaning="what the target is told; {{names}} are filled in")
COMMAND = Option(names=("--command",), value="WORDS", meaning="program and arguments, never a shell line")
URL = Option(names=("--url",), value="URL", meaning="the address of the request")
CALL = Option(names=("--call",), value="NAME", meaning="a Python function, as module:function")
RUNTIME = Option(names=("--runtime",), value="NAME", meaning="makes an agent: command, cli, sdk, codex, gemini, …")
ENABLED = Option(
    names=("--enabled",), value="true", choices=("true", "false"), meaning="true or false: whether it runs by itself"
)
IMPORT = Option(names=("--import",), value="FILE", meaning="take over the state in this state.yaml")
PRINT = Option(names=("--print",), meaning="only show it, and write nothing")
EXIT_CODE = Option(names=("--exit-code",), meaning="exit 6 if there is anything to change")
DEMO = Option(names=("--demo",), meaning="run a fleet of its own that shows what there is; needs nothing")
STATE_DIR = Option(names=("--state-dir",), value="DIR", meaning="where the demo keeps its fleet and its ledger")
LIST = Option(names=("--list",), meaning="show the hints: active, shadowed, expired, consumed")
IN_STATE = Option(
    names=("--state",),
    value="STATE",
    choices=("running", "ok", "late", "failing", "paused", "disabled", "waiting", "new", "done"),
    meaning="only those that are running, ok, late, failing, paused, disabled, waiting, new or done",
)
FOLLOW = Option(names=("-f", "--follow"), meaning="go on with what is written from now on, until Ctrl+C")
JSONL = Option(names=("--jsonl",), meaning="print every line as one JSON object")
WATCH = Option(names=("-w", "--watch"), meaning="draw it again and again, until Ctrl+C")
