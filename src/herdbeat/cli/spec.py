"""What a command consists of, and the options that commands share: each has one meaning everywhere."""

from dataclasses import dataclass

_NAME_ARGUMENTS = frozenset({"WHICH", "TARGET", "WHAT", "SELECTOR"})


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


CONFIG = Option(("-c", "--config"), "the fleet file or folder; else found here or above", value="PATH")
JSON = Option(("--json",), "print JSON")
PLAIN = Option(("--plain",), "print lines of tab-separated fields, for scripts")
WIDE = Option(("--wide",), "do not shorten anything to fit the screen")
ZONE = Option(("--tz",), "show times in this zone; cron expressions are read in it", value="ZONE")
UTC = Option(("--utc",), "the same as --tz UTC")
COUNT = Option(("-n", "--count"), "how many: to show in all, or beats to skip", value="N")
FROM = Option(("--from",), "start there: 2026-03-28, 2026-03-28T09:00:00Z or 2h", value="TIME")
UNTIL = Option(("--until",), "end there: a time, or a duration after the start", value="TIME")
BY = Option(("--by",), "count the instants of each hour", value="hour", choices=("hour",))
CRON = Option(("--cron",), "take this cron expression", value="EXPR")
STRICT = Option(("--strict",), "take warnings for errors")

HELP = Option(("-h", "--help"), "show this help")
VERSION = Option(("--version",), "show the version")
NO_COLOR = Option(("--no-color",), "no colours; NO_COLOR and TERM=dumb say the same")
QUIET = Option(("-q", "--quiet"), "only the data, no remarks")
VERBOSE = Option(("-v", "--verbose"), "more of the story")
COMMON_FLAGS = (QUIET, VERBOSE, NO_COLOR, HELP)
"""Options of every command."""

TOP_LEVEL_FLAGS = (VERSION, NO_COLOR, HELP)
"""Options of `herdbeat` without a command."""

LABEL = Option(("--label",), "run schedules that say runs_on: LABEL; may be repeated", value="LABEL", repeats=True)
APPLY = Option(("--apply",), "bring what the files say into a store that nodes share; a file of our own always is")
NO_WORKERS = Option(("--no-workers",), "answer and watch, but run nothing here; other nodes do")
MAX_CONCURRENT = Option(("--max-concurrent",), "runs at once on this node, in all", value="N")
TIMEOUT = Option(("--timeout",), "how long runs may still go on, such as 30s", value="DURATION")
FORCE = Option(("--force",), "insist: cut off (down), kill (cancel), repeat (retry), write over (backup)")
MAX = Option(("--max",), "how many beats may be written; 100 if not said", value="N")
DRY_RUN = Option(("--dry-run",), "only say what would happen")
SCHEDULE = Option(("-S", "--schedule"), "which schedule of the target", value="NAME")
WAIT = Option(("--wait",), "show its output until it ends; exit 5 if it failed")
QUEUE = Option(("--queue",), "wait for room instead of being refused")
CHECK = Option(("--check",), "exit 6 if anything is late or failing (status), unless the node here answers (nodes)")
SINCE = Option(("--since",), "from then on: 2h (ago), 09:00, yesterday, 2026-03-28", value="TIME")
OUTCOME = Option(("--outcome",), "ran, skipped, missed, merged, pending or running", value="WORD")
RESULT = Option(("--result",), "how the last run ended: succeeded, failed, timed_out, cancelled, …", value="WORD")
RUN_STATUS = Option(("--status",), "succeeded, failed, timed_out, running, …", value="WORD")
CURSOR = Option(("--cursor",), "go on where the last page ended (its next_cursor)", value="CURSOR")
AT = Option(("--at",), "a moment: 09:00, yesterday 09:00, tomorrow 09:00 or RFC 3339", value="TIME")
TAG = Option(("--tag",), "every schedule with this tag; may be repeated", value="TAG", repeats=True)
GROUP = Option(("--group",), "every schedule of this group; may be repeated", value="GROUP", repeats=True)
ALL = Option(("--all",), "every schedule of the fleet")
REASON = Option(("--reason",), "why: shown wherever the change is", value="TEXT")
YES = Option(("-y", "--yes"), "do not ask first")
FOR = Option(("--for",), "how long it holds: 20m, 2h, 3d", value="DURATION")
EVERY = Option(("--every",), "the pace that is wanted: 20s, 5m", value="DURATION")
CANCEL_RUNNING = Option(("--cancel-running",), "also stop the runs that are going")
CLEAR = Option(("--clear",), "take back what was wished: the hints, or the skips")
_TEMPLATES = ("agents", "endpoints", "commands", "github", "demo")
TEMPLATE = Option(("--template",), "agents, endpoints, commands, github or demo", value="NAME", choices=_TEMPLATES)
PROMPT = Option(("--prompt",), "what the target is told; {{names}} are filled in", value="TEXT")
COMMAND = Option(("--command",), "program and arguments, never a shell line", value="WORDS")
URL = Option(("--url",), "the address of the request", value="URL")
CALL = Option(("--call",), "a Python function, as module:function", value="NAME")
RUNTIME = Option(("--runtime",), "makes an agent: command, cli, sdk, codex, gemini, …", value="NAME")
ENABLED = Option(("--enabled",), "true or false: whether it runs by itself", value="true", choices=("true", "false"))
IMPORT = Option(("--import",), "take over the state in this state.yaml", value="FILE")
PRINT = Option(("--print",), "only show it, and write nothing")
EXIT_CODE = Option(("--exit-code",), "exit 6 if there is anything to change")
DEMO = Option(("--demo",), "run a fleet of its own that shows what there is; needs nothing")
STATE_DIR = Option(("--state-dir",), "where the demo keeps its fleet and its ledger", value="DIR")
LIST = Option(("--list",), "show the hints: active, shadowed, expired, consumed")
_STATES = ("running", "ok", "late", "failing", "paused", "disabled", "waiting", "new", "done")
_STATE_MEANING = f"only those that are {', '.join(_STATES[:-1])} or {_STATES[-1]}"
IN_STATE = Option(("--state",), _STATE_MEANING, value="STATE", choices=_STATES)
FOLLOW = Option(("-f", "--follow"), "go on with what is written from now on, until Ctrl+C")
JSONL = Option(("--jsonl",), "print every line as one JSON object")
WATCH = Option(("-w", "--watch"), "draw it again and again, until Ctrl+C")
