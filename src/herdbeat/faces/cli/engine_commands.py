"""The commands that start, stop and ask the engine. A part of the one table in `commands`."""

from herdbeat.faces.cli.options import (
    APPLY,
    AT,
    CONFIG,
    COUNT,
    CURSOR,
    DEMO,
    FORCE,
    JSON,
    LABEL,
    MAX_CONCURRENT,
    NO_WORKERS,
    OUTCOME,
    QUEUE,
    RUN_STATUS,
    SCHEDULE,
    SINCE,
    STATE_DIR,
    TIMEOUT,
    UTC,
    WAIT,
    WIDE,
    ZONE,
    Argument,
    CliCommand,
)

_SELECTOR_ARGUMENT = Argument(name="WHICH", meaning="TARGET or TARGET/SCHEDULE; without it, the whole fleet")

ENGINE_COMMANDS = (
    CliCommand(
        path=("up",),
        aliases=(("start",),),
        summary="run the fleet in the foreground",
        run="herdbeat.faces.cli.up:run_up",
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
        path=("down",),
        aliases=(("stop",),),
        summary="stop the fleet that runs here",
        run="herdbeat.faces.cli.down:run_down",
        options=(CONFIG, TIMEOUT, FORCE, JSON),
        examples=(
            ("herdbeat down", "stop; runs finish first"),
            ("herdbeat down --timeout 5m", "give them five minutes"),
            ("herdbeat down --force", "cut them off now"),
        ),
        notes=("Exit status: 0 nothing runs (any more), 124 it was still running when the time was over.",),
    ),
    CliCommand(
        path=("run",),
        aliases=(("trigger",),),
        summary="run a schedule now; its own times stay as they are",
        run="herdbeat.faces.cli.run_now:run_now",
        arguments=(Argument(name="WHICH", meaning="TARGET (its first schedule) or TARGET/SCHEDULE", required=True),),
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
)

HISTORY_COMMANDS = (
    CliCommand(
        path=("explain",),
        aliases=(("why",),),
        summary="why is the next run then; why did it, or did it not, run",
        run="herdbeat.faces.cli.explain:run_explain",
        arguments=(Argument(name="WHICH", meaning="TARGET[/SCHEDULE], or the id of a run", required=True),),
        options=(AT, CONFIG, ZONE, UTC, JSON),
        examples=(
            ("herdbeat explain triage/standup", "why is its next run then?"),
            ('herdbeat explain triage/standup --at "today 09:00"', "what became of 09:00?"),
            ("herdbeat explain 7f3k", "why did this run happen?"),
        ),
        notes=("Answers come from what was stored when it happened, not from the files as they are now.",),
    ),
    CliCommand(
        path=("beats",),
        summary="every due instant and what became of it",
        run="herdbeat.faces.cli.beats:run_beats",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, OUTCOME, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat beats --since 8h", "the last eight hours"),
            ("herdbeat beats triage/standup --outcome missed", "what one schedule has missed"),
            ("herdbeat beats triage --since 5m --json", "for a program"),
        ),
    ),
    CliCommand(
        path=("runs",),
        aliases=(("jobs",),),
        summary="what was run, how long it took and how it ended",
        run="herdbeat.faces.cli.runs:run_runs",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, RUN_STATUS, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat runs --since 2h", "the last two hours"),
            ("herdbeat runs triage --status failed", "what went wrong with one target"),
        ),
    ),
)
