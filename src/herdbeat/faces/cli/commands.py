"""Every command with its arguments, options and examples: the one table.

The parser, the help, the completion scripts and `docs/reference/cli.md` all read it. It imports nothing of
what the commands do: `herdbeat --help` must not pay for YAML.
"""

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
COUNT = Option(names=("-n", "--count"), value="N", meaning="how many instants to show, in all")
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

_PATH = Argument(name="PATH", meaning="the fleet file or folder; else found here or above", takes_file=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        path=("validate",),
        aliases=(("config", "validate"),),
        summary="check the configuration: every problem, its place, its mend",
        run="herdbeat.faces.cli.validate:run",
        arguments=(_PATH,),
        options=(CONFIG, STRICT, JSON, PLAIN),
        examples=(
            ("herdbeat validate", "check the fleet here, or in a folder above"),
            ("herdbeat validate fleets/ops.yaml", "check this one"),
            ("herdbeat validate --strict --json", "for a pipeline: warnings count, problems as JSON"),
        ),
        notes=("Exit status: 0 all is well or only warned about, 2 errors.",),
    ),
    Command(
        path=("config", "show"),
        summary="the resolved configuration, with the origin of each value",
        run="herdbeat.faces.cli.config_show:run",
        arguments=(
            _PATH,
            Argument(name="SELECTOR", meaning="a target, target/schedule or target/*"),
        ),
        options=(CONFIG, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat config show", "the whole fleet"),
            ("herdbeat config show triage/standup", "one schedule, and where each value comes from"),
            ("herdbeat config show herdctl.yaml triage --json", "one target of that file, as JSON"),
        ),
    ),
    Command(
        path=("schema",),
        summary="print the JSON Schema of a file, for editors",
        run="herdbeat.faces.cli.schema:run",
        arguments=(Argument(name="WHICH", meaning="fleet (the default) or agent", choices=("fleet", "agent")),),
        options=(JSON,),
        examples=(
            ("herdbeat schema > herdbeat.schema.json", "of herdbeat.yaml"),
            ("herdbeat schema agent", "of an agent's own file"),
        ),
    ),
    Command(
        path=("next",),
        summary="upcoming times of an expression, a schedule or the whole fleet",
        run="herdbeat.faces.cli.next_times:run",
        arguments=(
            Argument(
                name="WHAT",
                meaning="a cron expression, a duration, a time, or TARGET[/SCHEDULE]; without it, the whole fleet",
            ),
        ),
        options=(COUNT, FROM, UNTIL, ZONE, UTC, BY, CRON, CONFIG, JSON, PLAIN, WIDE),
        examples=(
            ('herdbeat next "0 9 * * 1-5"', "when does this expression fire?"),
            ("herdbeat next triage/standup -n 3", "the next three times of one schedule"),
            ("herdbeat next", "what the whole fleet does next"),
            ('herdbeat next "30 2 * * *" --tz Europe/Berlin --from 2026-03-28', "the night the clocks change"),
            ("herdbeat next --until 24h --by hour", "is there a thundering herd?"),
        ),
        notes=(
            "Times of a fleet are what the governor will decide: jitter, limits, active hours and bounds are in them.",
            "An interval counts from the end of a run; the preview supposes that runs take no time and succeed.",
        ),
    ),
    Command(
        path=("completion",),
        summary="print a completion script for your shell",
        run="herdbeat.faces.cli.completion:run",
        arguments=(
            Argument(name="SHELL", meaning="bash, zsh or fish", choices=("bash", "zsh", "fish"), required=True),
        ),
        examples=(
            ('eval "$(herdbeat completion bash)"', "in ~/.bashrc"),
            ('eval "$(herdbeat completion zsh)"', "in ~/.zshrc, after compinit"),
            ("herdbeat completion fish | source", "in config.fish"),
        ),
    ),
)

GROUPS: dict[str, str] = {"config": "look at the configuration"}
"""First words that are no command by themselves."""


def find(path: tuple[str, ...]) -> Command | None:
    """The command of these words, by its own name or by an alias."""
    return next((each for each in COMMANDS if path == each.path or path in each.aliases), None)
