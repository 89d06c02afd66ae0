"""What a command consists of, and the options that commands share: one meaning each, wherever they stand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A flag. With a `value` (its name in the help) it takes one, without it is a switch."""

    names: tuple[str, ...]
    meaning: str
    value: str = ""
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.names[-1].lstrip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word that needs no flag. `choices` are all it may be, if there are any."""

    name: str
    meaning: str
    choices: tuple[str, ...] = ()
    required: bool = False
    takes_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. `run` names the function as `module:function`, imported only when it is called."""

    path: tuple[str, ...]
    summary: str
    run: str
    examples: tuple[tuple[str, str], ...]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.path)

    @property
    def all_options(self) -> tuple[Option, ...]:
        return self.options + SHARED


CONFIG = Option(names=("-c", "--config"), value="PATH", meaning="the fleet file or folder; else found here or above")
JSON = Option(names=("--json",), meaning="print JSON")
PLAIN = Option(names=("--plain",), meaning="print lines of tab-separated fields, for scripts")
WIDE = Option(names=("--wide",), meaning="do not shorten anything to fit the screen")
ZONE = Option(names=("--tz",), value="ZONE", meaning="show times in this zone; cron expressions are read in it")
UTC = Option(names=("--utc",), meaning="the same as --tz UTC")
COUNT = Option(names=("-n", "--count"), value="N", meaning="how many to show, in all")
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
SHARED = (QUIET, VERBOSE, NO_COLOR, HELP)
"""What every command takes."""

BARE = (VERSION, NO_COLOR, HELP)
"""What `herdbeat` takes without a command."""

MAX_CONCURRENT = Option(names=("--max-concurrent",), value="N", meaning="runs at once on this node, in all")
TIMEOUT = Option(names=("--timeout",), value="DURATION", meaning="how long runs may still go on, such as 30s")
FORCE = Option(names=("--force",), meaning="insist: cut off what runs (down), write over a file (db backup)")
DRY_RUN = Option(names=("--dry-run",), meaning="only say what would happen")
SCHEDULE = Option(names=("-S", "--schedule"), value="NAME", meaning="which schedule of the target")
WAIT = Option(names=("--wait",), meaning="show its output until it ends; exit 5 if it failed")
QUEUE = Option(names=("--queue",), meaning="wait for room instead of being refused")
CHECK = Option(names=("--check",), meaning="exit 6 if anything is late or failing")
SINCE = Option(names=("--since",), value="TIME", meaning="from then on: 2h (ago), 09:00, yesterday, 2026-03-28")
OUTCOME = Option(names=("--outcome",), value="WORD", meaning="ran, skipped, missed, merged, pending or running")
RUN_STATUS = Option(names=("--status",), value="WORD", meaning="succeeded, failed, timed_out, running, …")
CURSOR = Option(names=("--cursor",), value="CURSOR", meaning="go on where the last page ended (its next_cursor)")
AT = Option(names=("--at",), value="TIME", meaning="a moment in the past: 09:00, yesterday 09:00, 2h (ago)")
