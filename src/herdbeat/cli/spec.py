"""What a command consists of, and the options that commands share.

The texts are shown to users: options and summaries are imperative sentences without a full stop.
"""

from dataclasses import dataclass, field, replace

_PATH_VALUES = frozenset({"PATH", "FILE", "DIR"})


@dataclass(frozen=True, slots=True)
class Option:
    """A flag. With a `value` (its name in the help) it takes one, without it is a switch.

    One that `repeats` may be given several times; any other only once. Commands share options but not always their
    `meaning`, which is therefore not compared.
    """

    names: tuple[str, ...]
    meaning: str = field(compare=False)
    value: str = ""
    choices: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def key(self) -> str:
        return self.names[-1].lstrip("-")

    @property
    def takes_file(self) -> bool:
        return self.value in _PATH_VALUES

    @property
    def takes_zone(self) -> bool:
        return self.value == "ZONE"

    def described(self, meaning: str) -> "Option":
        """Return the same option with the text for one command."""
        return replace(self, meaning=meaning)


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument. `choices` are its only values, if there are any. The last one may be `many` words.

    `takes_name`, `takes_run` and `takes_file` say what a shell can complete: names of targets and schedules, ids of
    runs, paths.
    """

    name: str
    meaning: str
    choices: tuple[str, ...] = ()
    required: bool = False
    takes_file: bool = False
    takes_name: bool = False
    takes_run: bool = False
    many: bool = False


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
    is_remote: bool = False
    """Whether it also works on another machine: `--url` and `--token-file`."""

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


CONFIG = Option(("-c", "--config"), "Fleet file or folder (default: search this folder and its parents)", value="PATH")
JSON = Option(("--json",), "Print JSON")
PLAIN = Option(("--plain",), "Print tab-separated fields, for scripts")
WIDE = Option(("--wide",), "Do not shorten lines to fit the screen")
ZONE = Option(("--tz",), "Show times in this time zone", value="ZONE")
UTC = Option(("--utc",), "Show times in UTC")
DAYS = Option(("--days",), "Simulate this many days (default: 30, at most 366)", value="N")
SEED = Option(("--seed",), "Seed for random durations and failures (default: 0)", value="N")
RUN_DURATION = Option(
    ("--duration",), "Duration of each run: 10m, or NAME=10m (repeatable)", value="[NAME=]DURATION", repeats=True
)
FAILURES = Option(
    ("--failures",), "Share of runs that fail: 5%, or NAME=5% (repeatable)", value="[NAME=]RATE", repeats=True
)
RUN_COST = Option(
    ("--cost",), "Cost of each run in dollars: 0.25, or NAME=0.25 (repeatable)", value="[NAME=]USD", repeats=True
)
USAGE_LIMIT = Option(
    ("--usage-limit",), "Usage limit of each agent account, as runs per period: 40/5h", value="RUNS/DURATION"
)
NO_HISTORY = Option(("--no-history",), "Ignore the recorded runs, and assume typical values")
HTML = Option(("--html",), "Write a page with charts to this file", value="FILE")
COUNT = Option(("-n", "--count"), "Show at most N rows (default: 50)", value="N")
FROM = Option(("--from",), "Start at this time: 2026-03-28, 2026-03-28T09:00:00Z or 2h (from now)", value="TIME")
UNTIL = Option(("--until",), "End at this time: a time, or a duration after the start", value="TIME")
BY = Option(("--by",), "Count the runs in each hour", value="hour", choices=("hour",))
COST_BY = Option(("--per",), "Sum up per schedule, target or day", value="WHAT", choices=("schedule", "target", "day"))
ACCOUNT = Option(("--account",), "Release this account before its usage limit ends", value="NAME")
CRON = Option(("--cron",), "Cron expression", value="EXPR")
STRICT = Option(("--strict",), "Treat warnings as errors")

HELP = Option(("-h", "--help"), "Show this help")
VERSION = Option(("--version",), "Show the version")
NO_COLOR = Option(("--no-color",), "Disable colors (also: NO_COLOR=1, TERM=dumb)")
QUIET = Option(("-q", "--quiet"), "Print only data and errors")
VERBOSE = Option(("-v", "--verbose"), "Print verbose output")
COMMON_FLAGS = (QUIET, VERBOSE, NO_COLOR, HELP)
"""Options of every command."""

TOP_LEVEL_FLAGS = (VERSION, NO_COLOR, HELP)
"""Options of `herdbeat` without a command."""

LABEL = Option(("--label",), "Run schedules with runs_on: LABEL (repeatable)", value="LABEL", repeats=True)
APPLY = Option(("--apply",), "Apply the files to a shared (PostgreSQL) ledger; with SQLite this is always done")
NO_WORKERS = Option(("--no-workers",), "Do not run anything on this node; other nodes do")
PORT = Option(("--port",), "Port of the server (default: server.port, 3232)", value="N")
AS = Option(("--as",), "Offer the tools of this agent: AGENT or AGENT/SCHEDULE", "AGENT")
READ_ONLY = Option(("--read-only",), "Offer only tools that read, for the whole fleet")
NO_SERVER = Option(("--no-server",), "Do not start the server (also: HERDBEAT_NO_SERVER=1)")
SCOPE = Option(
    ("--scope",), "Allow: read (default), operate, admin, agent:TARGET, hook:TARGET/SCHEDULE or exec:ray", value="SCOPE"
)
EXPIRES = Option(("--expires",), "Duration until the token expires, or never (default: 90d)", value="DURATION")
TOKEN_FILE = Option(("--token-file",), "File with the server's token (default: HERDBEAT_TOKEN)", value="FILE")
CA_FILE = Option(("--ca-file",), "PEM file with the certificates to trust", value="FILE")
SERVER = Option(("--server",), "Use the server at this address instead of the fleet here", value="URL")
MAX_CONCURRENT = Option(("--max-concurrent",), "Limit concurrent runs on this node (default: 100)", value="N")
TIMEOUT = Option(("--timeout",), "Time for active runs to finish (default: stop_timeout)", value="DURATION")
FORCE = Option(("--force",), "Overwrite existing files")
MAX = Option(("--max",), "Refuse to create more than N beats (default: 100)", value="N")
DATA = Option(("-d", "--data"), "Body of the call (default: a small test with an id)", value="TEXT")
DRY_RUN = Option(("--dry-run",), "Show what would change, and change nothing")
SCHEDULE = Option(("-S", "--schedule"), "Name of the schedule", value="NAME")
WAIT = Option(("--wait",), "Show the output until the run ends; exit 5 if it fails")
QUEUE = Option(("--queue",), "If the target is at capacity, wait instead of being refused")
PROMPT_FILE = Option(("--prompt-file",), "The same from a file, or from standard input (-)", value="FILE")
INPUT_FILE = Option(
    ("--input-file",), "JSON to use as the body of a webhook call, from a file or standard input (-)", value="FILE"
)
RESET = Option(("--reset",), "Count the next run of an interval from now")
CHECK = Option(("--check",), "Exit 6 if no node runs, or anything is late or failing")
SINCE = Option(("--since",), "Start at this time: 2h (ago), 09:00, yesterday or 2026-03-28", value="TIME")
_OUTCOMES = ("pending", "running", "ran", "skipped", "missed", "merged")
OUTCOME = Option(("--outcome",), f"Show only this outcome: {', '.join(_OUTCOMES)}", value="OUTCOME", choices=_OUTCOMES)
_RESULTS = ("running", "succeeded", "failed", "timed_out", "cancelled", "interrupted", "skipped")
RESULT = Option(
    ("--result",), f"Show only beats whose last run ended as: {', '.join(_RESULTS)}", value="RESULT", choices=_RESULTS
)
RUN_STATUS = Option(("--status",), f"Show only this status: {', '.join(_RESULTS)}", value="STATUS", choices=_RESULTS)
CURSOR = Option(("--cursor",), "Continue after the previous page (its next_cursor)", value="CURSOR")
AT = Option(("--at",), "Time: 18:00, tomorrow 09:00 or RFC 3339", value="TIME")
TAG = Option(("--tag",), "Select schedules with this tag (repeatable)", value="TAG", repeats=True)
GROUP = Option(("--group",), "Select schedules of this group (repeatable)", value="GROUP", repeats=True)
ALL = Option(("--all",), "Select every schedule of the fleet")
REASON = Option(("--reason",), "Record a reason with the change", value="TEXT")
YES = Option(("-y", "--yes"), "Do not ask for confirmation")
FOR = Option(("--for",), "Duration, such as 20m, 2h or 3d", value="DURATION")
EVERY = Option(("--every",), "Interval, such as 20s or 5m", value="DURATION")
CANCEL_RUNNING = Option(("--cancel-running",), "Cancel active runs")
CLEAR = Option(("--clear",), "Remove hints")
HINT_ID = Option(("--id",), "With --clear: only the hint with this id, which --list shows", value="N")
_TEMPLATES = ("agents", "endpoints", "commands", "github", "demo")
TEMPLATE = Option(("--template",), f"Template: {', '.join(_TEMPLATES)}", value="NAME", choices=_TEMPLATES)
PROMPT = Option(("--prompt",), "Prompt template, with variables such as {{date}}", value="TEXT")
COMMAND = Option(("--command",), "Create a command: program and arguments, run without a shell", value="COMMAND")
URL = Option(("--url",), "Create an endpoint: the URL to request", value="URL")
EXEC_URL = Option(("--url",), "Address of the server that the run belongs to", value="URL")
CALL = Option(("--call",), "Create a callable: a Python function as module:function", value="NAME")
RUNTIME = Option(("--runtime",), "Create an agent with this runtime: claude, codex, gemini, command, …", value="NAME")
ENABLED = Option(
    ("--enabled",), "Enable or disable the schedule: true or false", value="BOOL", choices=("true", "false")
)
IMPORT = Option(("--import",), "Import the state from this state.yaml", value="FILE")
LOG_FORMAT = Option(
    ("--log-format",),
    "Log format: text or json (also: HERDBEAT_LOG_FORMAT)",
    value="FORMAT",
    choices=("text", "json"),
)
OUTPUT = Option(("-o", "--output"), "Write to this file (default: herdbeat.yaml in this folder)", value="FILE")
SYSTEM = Option(("--system",), "With crontab: the lines have a user, as in /etc/crontab")
TABLE = Option(("--table",), "With apscheduler: table of the jobs (default: apscheduler_jobs)", value="NAME")
PRINT = Option(("--print",), "Print the unit; write nothing")
EXIT_CODE = Option(("--exit-code",), "With --dry-run, exit 6 if there are changes to apply")
DEMO = Option(("--demo",), "Run the built-in demo fleet; no setup needed")
STATE_DIR = Option(("--state-dir",), "Folder for the fleet file and ledger of the demo", value="DIR")
LIST = Option(("--list",), "List hints: active, shadowed, expired and consumed")
_STATES = ("running", "ok", "late", "failing", "paused", "disabled", "waiting", "new", "done")
IN_STATE = Option(("--state",), f"Show only this state: {', '.join(_STATES)}", value="STATE", choices=_STATES)
OFFERED = Option(("--offered",), "Ask the sources what else they offer")
FOLLOW = Option(("-f", "--follow"), "Print new output until Ctrl+C")
JSONL = Option(("--jsonl",), "Print one JSON object per line")
WATCH = Option(("-w", "--watch"), "Refresh the screen every second until Ctrl+C")
