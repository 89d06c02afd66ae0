"""Every command with its arguments, options and examples: the one table.

The parser, the help, the completion scripts and `docs/reference/cli.md` all read it. It imports nothing of
what the commands do: `herdbeat --help` must not pay for YAML.
"""

from herdbeat.faces.cli.beat_commands import BEAT_COMMANDS
from herdbeat.faces.cli.control_commands import CHANGE_LOG_COMMANDS, CONTROL_COMMANDS
from herdbeat.faces.cli.db_commands import DB_COMMANDS
from herdbeat.faces.cli.engine_commands import ENGINE_COMMANDS, HISTORY_COMMANDS
from herdbeat.faces.cli.look_commands import VIEW_COMMANDS
from herdbeat.faces.cli.make_commands import ADMIN_COMMANDS, APPLY_COMMANDS, INIT_COMMANDS
from herdbeat.faces.cli.options import (
    BY,
    CONFIG,
    COUNT,
    CRON,
    FROM,
    JSON,
    PLAIN,
    STRICT,
    UNTIL,
    UTC,
    WIDE,
    ZONE,
    Argument,
    CliCommand,
)

_PATH_ARGUMENT = Argument(name="PATH", meaning="the fleet file or folder; else found here or above", takes_file=True)

_CONFIG_COMMANDS = (
    CliCommand(
        path=("validate",),
        aliases=(("config", "validate"),),
        summary="check the configuration: every problem, its place, its mend",
        run="herdbeat.faces.cli.validate:run_validate",
        arguments=(_PATH_ARGUMENT,),
        options=(CONFIG, STRICT, JSON, PLAIN),
        examples=(
            ("herdbeat validate", "check the fleet here, or in a folder above"),
            ("herdbeat validate fleets/ops.yaml", "check this one"),
            ("herdbeat validate --strict --json", "for a pipeline: warnings count, problems as JSON"),
        ),
        notes=("Exit status: 0 all is well or only warned about, 2 errors.",),
    ),
    CliCommand(
        path=("config", "show"),
        summary="the resolved configuration, with the origin of each value",
        run="herdbeat.faces.cli.config_show:run_config_show",
        arguments=(
            _PATH_ARGUMENT,
            Argument(name="SELECTOR", meaning="a target, target/schedule or target/*"),
        ),
        options=(CONFIG, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat config show", "the whole fleet"),
            ("herdbeat config show triage/standup", "one schedule, and where each value comes from"),
            ("herdbeat config show herdctl.yaml triage --json", "one target of that file, as JSON"),
        ),
    ),
    CliCommand(
        path=("schema",),
        summary="print the JSON Schema of a file, for editors",
        run="herdbeat.faces.cli.schema:run_schema",
        arguments=(Argument(name="WHICH", meaning="fleet (the default) or agent", choices=("fleet", "agent")),),
        options=(JSON,),
        examples=(
            ("herdbeat schema > herdbeat.schema.json", "of herdbeat.yaml"),
            ("herdbeat schema agent", "of an agent's own file"),
        ),
    ),
    CliCommand(
        path=("next",),
        summary="upcoming times of an expression, a schedule or the whole fleet",
        run="herdbeat.faces.cli.next_times:run_next",
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
    CliCommand(
        path=("completion",),
        summary="print a completion script for your shell",
        run="herdbeat.faces.cli.completion:run_completion",
        arguments=(
            Argument(
                name="SHELL",
                meaning="bash, zsh or fish; names prints what the scripts ask for",
                choices=("bash", "zsh", "fish", "names"),
                required=True,
            ),
            Argument(name="BEGINNING", meaning="of names, only those that begin so"),
        ),
        options=(CONFIG,),
        examples=(
            ('eval "$(herdbeat completion bash)"', "in ~/.bashrc"),
            ('eval "$(herdbeat completion zsh)"', "in ~/.zshrc, after compinit"),
            ("herdbeat completion fish | source", "in config.fish"),
            ("herdbeat completion names tri", "targets and schedules that begin so, with their state"),
        ),
    ),
)

_MEASURING = (
    CliCommand(
        path=("bench",),
        summary="measure this machine: beats a second, and how late they start",
        run="herdbeat.faces.cli.bench:run",
        options=(JSON, WIDE),
        examples=(
            ("herdbeat bench", "about a minute, on the disk of this folder"),
            ("herdbeat bench --json > bench.json", "for a program"),
        ),
        notes=(
            "It works in a new folder here, which it removes. No fleet is touched, and one that runs makes it slower.",
            "What the goals mean, and how the peers do: docs/reference/benchmarks.md.",
        ),
    ),
)

COMMANDS: tuple[CliCommand, ...] = (
    *INIT_COMMANDS,
    *ENGINE_COMMANDS,
    *VIEW_COMMANDS,
    *CONTROL_COMMANDS,
    *BEAT_COMMANDS,
    *HISTORY_COMMANDS,
    *CHANGE_LOG_COMMANDS,
    *_CONFIG_COMMANDS,
    *APPLY_COMMANDS,
    *ADMIN_COMMANDS,
    *DB_COMMANDS,
    *_MEASURING,
)

COMMAND_GROUPS: dict[str, str] = {
    "config": "look at the configuration",
    "db": "look after the ledger",
    "service": "run the fleet without a terminal",
}
"""First words that are no command by themselves."""

PLANNED_COMMANDS: dict[str, str] = {
    "sessions": "Sessions come with the agent runtimes. What a run has said of its own: herdbeat show RUN",
}
"""Verbs of herdctl that have nothing to show yet, and what to do meanwhile."""


def find_command(path: tuple[str, ...]) -> CliCommand | None:
    """The command of these words, by its own name or by an alias."""
    return next((each for each in COMMANDS if path == each.path or path in each.aliases), None)
