"""The commands with which people change things, and look up who did. A part of the one table in `commands`."""

from herdbeat.faces.cli.options import (
    ALL,
    AT,
    CANCEL_RUNNING,
    CLEAR,
    CONFIG,
    COUNT,
    CURSOR,
    DRY_RUN,
    EVERY,
    FOR,
    GROUP,
    JSON,
    LIST,
    REASON,
    SINCE,
    TAG,
    UNTIL,
    UTC,
    WIDE,
    YES,
    ZONE,
    Argument,
    CliCommand,
)

SCHEDULES_ARGUMENT = Argument(
    name="WHICH", meaning="TARGET (all its schedules), TARGET/SCHEDULE or TARGET/*", many=True
)
SELECTION_FLAGS = (TAG, GROUP, ALL)
_CONTROL_FLAGS = (REASON, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, ZONE, UTC, JSON)
_EXIT_STATUS_NOTE = (
    "Exit status: 0 done, or nothing to do; 1 refused for one of them, or not consented; 3 unknown name."
)
OFFLINE_NOTE = "While nothing runs, it is written into the ledger and counts from the next `herdbeat up`."

CONTROL_COMMANDS = (
    CliCommand(
        path=("pause",),
        summary="hold schedules for a while, or until they are resumed",
        run="herdbeat.faces.cli.control:run_pause",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(FOR, UNTIL, CANCEL_RUNNING, *_CONTROL_FLAGS),
        examples=(
            ('herdbeat pause queue-depth --for 2h --reason "db maintenance"', "two hours"),
            ("herdbeat pause 'triage/*' --until 18:00", "all schedules of a target"),
            ("herdbeat pause --all --reason incident-42", "everything; asks first"),
        ),
        notes=(
            "What is due or waits is skipped as `paused`; a run in progress finishes. Nothing bursts afterwards.",
            OFFLINE_NOTE,
            _EXIT_STATUS_NOTE,
        ),
    ),
    CliCommand(
        path=("resume",),
        summary="let paused schedules go on",
        run="herdbeat.faces.cli.control:run_resume",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(
            ("herdbeat resume queue-depth", "go on now"),
            ("herdbeat resume --tag nightly", "all that have the tag"),
        ),
        notes=(
            "An interval that is overdue by then runs once; a cron waits for its next instant.",
            OFFLINE_NOTE,
            _EXIT_STATUS_NOTE,
        ),
    ),
    CliCommand(
        path=("disable",),
        summary="switch schedules off until they are enabled; survives restarts",
        run="herdbeat.faces.cli.control:run_disable",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(CANCEL_RUNNING, *_CONTROL_FLAGS),
        examples=(
            ("herdbeat disable marketing/old-promo", "off"),
            ("herdbeat disable --group reports --dry-run", "which would it be?"),
        ),
        notes=(OFFLINE_NOTE, _EXIT_STATUS_NOTE),
    ),
    CliCommand(
        path=("enable",),
        summary="switch schedules on again; arms a one-shot that has fired",
        run="herdbeat.faces.cli.control:run_enable",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(
            ("herdbeat enable marketing/old-promo", "on"),
            ("herdbeat enable launch", "let a one-shot fire once more: at once, if its time has passed"),
        ),
        notes=(
            "What its file switches off (enabled: false) can only be switched on there.",
            OFFLINE_NOTE,
            _EXIT_STATUS_NOTE,
        ),
    ),
    CliCommand(
        path=("hint",),
        summary="another pace or moment for a while: set, clear, list",
        run="herdbeat.faces.cli.hint:run_hint",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(EVERY, AT, FOR, REASON, CLEAR, LIST, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ('herdbeat hint queue-depth --every 20s --for 1h --reason "watching the deploy"', "faster for an hour"),
            ("herdbeat hint report --at 18:00", "one run more, then"),
            ("herdbeat hint queue-depth --clear", "back to the baseline"),
            ("herdbeat hint --list", "all hints, and how those of the last day ended"),
        ),
        notes=(
            "A hint lasts 1h unless --for says otherwise, 30d at most; one for a moment, until an hour after it.",
            "min_interval, max_interval and a pause are stronger than any hint.",
            OFFLINE_NOTE,
        ),
    ),
    CliCommand(
        path=("reset",),
        summary="forget failures, and try what is in quarantine again",
        run="herdbeat.faces.cli.control:run_reset",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(("herdbeat reset api-health", "no backoff any more: the next run is decided anew"),),
        notes=(OFFLINE_NOTE, _EXIT_STATUS_NOTE),
    ),
)

CHANGE_LOG_COMMANDS = (
    CliCommand(
        path=("changes",),
        summary="who changed what: files, pauses, hints",
        run="herdbeat.faces.cli.changes:run_changes",
        arguments=(Argument(name="WHICH", meaning="TARGET or TARGET/SCHEDULE; without it, the whole fleet"),),
        options=(SINCE, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat changes --since 8h", "what was changed today?"),
            ("herdbeat changes queue-depth", "of one target"),
        ),
    ),
)
