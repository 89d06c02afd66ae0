"""Every command with its arguments, options and examples: the one table.

The parser, the help, the completion scripts and `docs/reference/cli.md` all read it. It imports nothing of
what the commands do: `herdbeat --help` must not pay for YAML.
"""

from herdbeat.cli.spec import (
    ALL,
    APPLY,
    AT,
    BY,
    CHECK,
    CONFIG,
    COUNT,
    CRON,
    CURSOR,
    DEMO,
    FOLLOW,
    FORCE,
    FROM,
    GROUP,
    IN_STATE,
    JSON,
    JSONL,
    LABEL,
    MAX_CONCURRENT,
    NO_WORKERS,
    OUTCOME,
    PLAIN,
    QUEUE,
    RESULT,
    RUN_STATUS,
    SCHEDULE,
    SINCE,
    STATE_DIR,
    STRICT,
    TAG,
    TIMEOUT,
    UNTIL,
    UTC,
    WAIT,
    WATCH,
    WIDE,
    ZONE,
    Argument,
    CliCommand,
)
from herdbeat.cli.table_admin import ADMIN_COMMANDS, INIT_COMMANDS
from herdbeat.cli.table_control import CONTROL_COMMANDS

_SELECTOR_ARGUMENT = Argument("WHICH", "TARGET or TARGET/SCHEDULE; without it, the whole fleet")


_SELECTORS_ARGUMENT = Argument("WHICH", "TARGET, TARGET/SCHEDULE or TARGET/*; without it, the whole fleet", many=True)


_PATH_ARGUMENT = Argument("PATH", "the fleet file or folder; else found here or above", takes_file=True)


_FLEET_COMMANDS = (
    CliCommand(
        names=("up", "start"),
        summary="run the fleet in the foreground",
        options=(CONFIG, DEMO, STATE_DIR, MAX_CONCURRENT, LABEL, NO_WORKERS, APPLY, JSON),
        examples=(
            ("herdbeat up", "run the fleet here; Ctrl+C stops it, runs finish first"),
            ("herdbeat up --demo", "a fleet that is never quiet: no key, no account, no file"),
            ("herdbeat up --json > events.jsonl", "every event as one line of JSON"),
            ("herdbeat up -q", "only what a person should look at"),
        ),
        notes=(
            "Ctrl+C or SIGTERM: nothing new starts, and runs may finish (stop_timeout). A second Ctrl+C cuts them off.",
            "With --json every event is one line of JSON.",
            "On PostgreSQL any number of nodes may be up; --apply says which of them brings its files along.",
            "Exit status: 0 stopped, 1 runs were cut off or another herdbeat runs here, 130 cut off by Ctrl+C.",
        ),
    ),
    CliCommand(
        names=("down", "stop"),
        summary="stop the fleet that runs here",
        options=(CONFIG, TIMEOUT, FORCE, JSON),
        examples=(
            ("herdbeat down", "stop; runs finish first"),
            ("herdbeat down --timeout 5m", "give them five minutes"),
            ("herdbeat down --force", "cut them off now"),
        ),
        notes=("Exit status: 0 nothing runs (any more), 1 runs were cut off at the timeout, 124 it still runs.",),
    ),
    CliCommand(
        names=("run", "trigger"),
        summary="run a schedule now; its own times stay as they are",
        arguments=(Argument("WHICH", "TARGET (its first schedule) or TARGET/SCHEDULE", required=True),),
        options=(CONFIG, SCHEDULE, WAIT, QUEUE, JSON),
        examples=(
            ("herdbeat run triage/check-issues", "start it now"),
            ("herdbeat run triage -S check-issues --wait", "start it, show its output, exit 5 if it fails"),
            ("herdbeat run triage --queue", "if the target is busy, wait for room"),
        ),
        notes=(
            "While nothing runs, the beat is written down and starts with the next `herdbeat up`.",
            "A person may also run what is paused or disabled.",
        ),
    ),
    CliCommand(
        names=("status",),
        summary="one screen: running, late, failing, next",
        arguments=(Argument("TARGET", "only this target, or TARGET/SCHEDULE"),),
        options=(CHECK, WATCH, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat status", "how is the fleet?"),
            ("herdbeat status triage", "how is one target?"),
            ("herdbeat status -w", "stay, and draw it again every two seconds"),
            ("herdbeat status --check", "for a script: exit 6 if anything is late or failing"),
        ),
        notes=("Exit status: 0 all is well (or nobody asked), 3 unknown name, 6 with --check: something is not.",),
    ),
    CliCommand(
        names=("nodes",),
        summary="the processes that run this fleet: where, since when, with how many runs",
        options=(CHECK, ALL, COUNT, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat nodes", "who is alive, and who has gone in the last hour"),
            ("herdbeat nodes --all", "all that the history still speaks of"),
            ("herdbeat nodes --check", "for a container's health check: exit 6 unless the node here answers"),
        ),
        notes=(
            "A ledger in a file has one node at a time; one in PostgreSQL as many as you start.",
            "--check asks the process of this folder over its socket. It reads no ledger and no database.",
        ),
    ),
    CliCommand(
        names=("list", "ls"),
        summary="all schedules: when, state, last, next, and the last ten beats",
        arguments=(_SELECTORS_ARGUMENT,),
        options=(TAG, GROUP, IN_STATE, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat list", "the whole fleet"),
            ("herdbeat list 'triage/*' --state failing", "what of one target fails"),
            ("herdbeat list --tag vendor-x", "all with a tag"),
            ("herdbeat list --plain | cut -f1", "every name, for a script"),
        ),
        notes=(
            "Names, tags and groups add up; a state narrows what they give.",
            "200 schedules are shown, or as many as -n says; --plain shows all.",
        ),
    ),
    CliCommand(
        names=("show", "job"),
        summary="everything about one target, schedule, run or beat",
        arguments=(Argument("WHICH", "TARGET[/SCHEDULE], or the id of a run or a beat", required=True),),
        options=(CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat show triage/standup", "policies, the next three times, the last runs, hints"),
            ("herdbeat show triage", "what the target is, and its schedules"),
            ("herdbeat show 7f3k", "one run: attempts, usage, response, the end of its output"),
            ("herdbeat show beat:7f3k", "one beat: what became of it, and its runs"),
        ),
        notes=(
            "A name comes before an id, and a run before a beat.",
            "Both are numbered from 0001 on: write beat:7f3k or run:7f3k where it matters.",
        ),
    ),
    CliCommand(
        names=("logs",),
        summary="the output of runs, also while it is written",
        arguments=(Argument("WHICH", "TARGET, TARGET/SCHEDULE or the id of a run; else the fleet", many=True),),
        options=(FOLLOW, COUNT, SINCE, CONFIG, ZONE, UTC, JSONL),
        examples=(
            ("herdbeat logs triage", "the last lines of its last runs"),
            ("herdbeat logs 7f3k", "the whole output of one run"),
            ("herdbeat logs -f triage devops", "follow two targets, one run after the other"),
            ("herdbeat logs --since 1h --jsonl", "for a program"),
        ),
        notes=(
            "-n says how many lines, 100 if not said; of one run all are shown.",
            "Ctrl+C ends -f with status 130; the runs go on.",
        ),
    ),
    CliCommand(
        names=("timeline",),
        summary="the last hours as a picture: what ran when, what overlapped, where the gaps are",
        arguments=(_SELECTORS_ARGUMENT,),
        options=(SINCE, COUNT, CONFIG, ZONE, UTC, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat timeline", "the last two hours of the fleet"),
            ("herdbeat timeline triage --since 8h", "one target over a working day"),
            ('herdbeat timeline --since "yesterday 22:00"', "the night"),
        ),
    ),
)

_HISTORY_COMMANDS = (
    CliCommand(
        names=("explain", "why"),
        summary="why is the next run then; why did it, or did it not, run",
        arguments=(Argument("WHICH", "TARGET[/SCHEDULE], or the id of a run", required=True),),
        options=(AT, CONFIG, ZONE, UTC, JSON),
        examples=(
            ("herdbeat explain triage/standup", "why is its next run then?"),
            ('herdbeat explain triage/standup --at "today 09:00"', "what became of 09:00?"),
            ("herdbeat explain 7f3k", "why did this run happen?"),
        ),
        notes=("Answers come from what was stored when it happened, not from the files as they are now.",),
    ),
    CliCommand(
        names=("beats",),
        summary="every due instant and what became of it",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, OUTCOME, RESULT, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat beats --since 8h", "the last eight hours"),
            ("herdbeat beats triage/standup --outcome missed", "what one schedule has missed"),
            ("herdbeat beats triage --since 5m --json", "for a program"),
        ),
    ),
    CliCommand(
        names=("runs", "jobs"),
        summary="what was run, how long it took and how it ended",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, RUN_STATUS, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat runs --since 2h", "the last two hours"),
            ("herdbeat runs triage --status failed", "what went wrong with one target"),
        ),
    ),
    CliCommand(
        names=("changes",),
        summary="who changed what: files, pauses, hints",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat changes --since 8h", "what was changed today?"),
            ("herdbeat changes queue-depth", "of one target"),
        ),
    ),
    CliCommand(
        names=("validate", "config validate"),
        summary="check the configuration: every problem, its place, its mend",
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
        names=("config show",),
        summary="the resolved configuration, with the origin of each value",
        arguments=(_PATH_ARGUMENT, Argument("SELECTOR", "a target, target/schedule or target/*")),
        options=(CONFIG, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat config show", "the whole fleet"),
            ("herdbeat config show triage/standup", "one schedule, and where each value comes from"),
            ("herdbeat config show herdctl.yaml triage --json", "one target of that file, as JSON"),
        ),
    ),
    CliCommand(
        names=("schema",),
        summary="print the JSON Schema of a file, for editors",
        module="config",
        arguments=(Argument("WHICH", "fleet (the default) or agent", choices=("fleet", "agent")),),
        options=(JSON,),
        examples=(
            ("herdbeat schema > herdbeat.schema.json", "of herdbeat.yaml"),
            ("herdbeat schema agent", "of an agent's own file"),
        ),
    ),
    CliCommand(
        names=("next",),
        summary="upcoming times of an expression, a schedule or the whole fleet",
        arguments=(
            Argument(
                "WHAT", "a cron expression, a duration, a time, or TARGET[/SCHEDULE]; without it, the whole fleet"
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
        names=("completion",),
        summary="print a completion script for your shell",
        arguments=(
            Argument(
                "SHELL",
                "bash, zsh or fish; names prints what the scripts ask for",
                choices=("bash", "zsh", "fish", "names"),
                required=True,
            ),
            Argument("BEGINNING", "of names, only those that begin so"),
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

COMMANDS = (*INIT_COMMANDS, *_FLEET_COMMANDS, *CONTROL_COMMANDS, *_HISTORY_COMMANDS, *ADMIN_COMMANDS)

COMMAND_GROUPS: dict[str, str] = {
    "config": "look at the configuration",
    "db": "look after the ledger",
    "service": "run the fleet without a terminal",
}
"""First words of two-word commands."""

PLANNED_COMMANDS: dict[str, str] = {
    "sessions": "Sessions come with the agent runtimes. What a run has said of its own: herdbeat show RUN"
}
"""Commands of herdctl that do not exist here yet, and what to do meanwhile."""
