"""The part of the command table that changes what runs."""

from herdbeat.cli.spec import (
    ALL,
    AT,
    CANCEL_RUNNING,
    CLEAR,
    CONFIG,
    COUNT,
    DRY_RUN,
    EVERY,
    FOR,
    FORCE,
    FROM,
    GROUP,
    JSON,
    LIST,
    MAX,
    REASON,
    TAG,
    UNTIL,
    UTC,
    WAIT,
    WIDE,
    YES,
    ZONE,
    Argument,
    CliCommand,
)

SCHEDULES_ARGUMENT = Argument("WHICH", "TARGET (all its schedules), TARGET/SCHEDULE or TARGET/*", many=True)
SELECTION_FLAGS = (TAG, GROUP, ALL)
_CONTROL_FLAGS = (REASON, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, ZONE, UTC, JSON)
_STATUS_NOTE = "Exit status: 0 done, or nothing to do; 1 refused for one of them, or not consented; 3 unknown name."
OFFLINE_NOTE = "While nothing runs, it is written into the ledger and counts from the next `herdbeat up`."


_RUNS_ARGUMENT = Argument("WHICH", "the id of a run, TARGET (all its schedules) or TARGET/SCHEDULE", many=True)
_REQUIRED_RUNS_ARGUMENT = Argument("WHICH", _RUNS_ARGUMENT.meaning, required=True, many=True)
_SCHEDULE_ARGUMENT = Argument("WHICH", "TARGET (its first schedule) or TARGET/SCHEDULE", required=True)

CONTROL_COMMANDS = (
    CliCommand(
        names=("pause",),
        summary="hold schedules for a while, or until they are resumed",
        module="control",
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
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("resume",),
        summary="let paused schedules go on",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(
            ("herdbeat resume queue-depth", "go on now"),
            ("herdbeat resume --tag nightly", "all that have the tag"),
        ),
        notes=(
            "An interval that is overdue by then runs once; a cron waits for its next instant.",
            OFFLINE_NOTE,
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("disable",),
        summary="switch schedules off until they are enabled; survives restarts",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(CANCEL_RUNNING, *_CONTROL_FLAGS),
        examples=(
            ("herdbeat disable marketing/old-promo", "off"),
            ("herdbeat disable --group reports --dry-run", "which would it be?"),
        ),
        notes=(OFFLINE_NOTE, _STATUS_NOTE),
    ),
    CliCommand(
        names=("enable",),
        summary="switch schedules on again; arms a one-shot that has fired",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(
            ("herdbeat enable marketing/old-promo", "on"),
            ("herdbeat enable launch", "let a one-shot fire once more: at once, if its time has passed"),
        ),
        notes=(
            "What its file switches off (enabled: false) can only be switched on there.",
            OFFLINE_NOTE,
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("hint",),
        summary="another pace or moment for a while: set, clear, list",
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
        names=("reset",),
        summary="forget failures, and try what is in quarantine again",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(("herdbeat reset api-health", "no backoff any more: the next run is decided anew"),),
        notes=(OFFLINE_NOTE, _STATUS_NOTE),
    ),
    CliCommand(
        names=("skip",),
        summary="let the next beat pass",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(COUNT, CLEAR, REASON, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, ZONE, UTC, JSON),
        examples=(
            ("herdbeat skip triage/standup --reason holiday", "tomorrow's standup does not run"),
            ("herdbeat skip backup --count 3", "nor do the next three backups"),
            ("herdbeat skip triage/standup --clear", "it runs after all"),
        ),
        notes=(
            "The beat comes, and is settled as `skipped: by_request`; an interval counts on from there.",
            "The wish is kept in the ledger, also while nothing runs. Asking twice is asking once.",
        ),
    ),
    CliCommand(
        names=("cancel",),
        summary="stop a run; call off what waits",
        arguments=(_RUNS_ARGUMENT,),
        options=(FORCE, REASON, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, JSON),
        examples=(
            ("herdbeat cancel 7f3k", "stop this run: asked to end, killed after 5s"),
            ("herdbeat cancel 7f3k --force", "kill it now"),
            ("herdbeat cancel triage", "all its runs, and all its beats that wait"),
        ),
        notes=(
            "A cancelled run is neither a failure nor a step of the backoff. What waited is `skipped: by_request`.",
            "While nothing runs, there are only beats that wait.",
        ),
    ),
    CliCommand(
        names=("retry",),
        summary="run again what failed: one more attempt at the same beat",
        arguments=(_REQUIRED_RUNS_ARGUMENT,),
        options=(WAIT, FORCE, REASON, DRY_RUN, CONFIG, JSON),
        examples=(
            ("herdbeat retry 7f3k", "this run"),
            ("herdbeat retry api-health --wait", "the last run of a schedule; shows its output"),
            ("herdbeat retry 7f3k --force", "although it succeeded"),
        ),
        notes=(
            "Its success resets the failure count; the schedule's own next run stays where it is.",
            "The instant is the same as before, and so is the beat's key; words come from the file as it is now.",
            "Exit status: 0 written, 1 refused for one of them, 5 it failed (--wait).",
        ),
    ),
    CliCommand(
        names=("backfill",),
        summary="run the beats of a past window of a cron schedule",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(FROM, UNTIL, MAX, YES, DRY_RUN, REASON, CONFIG, ZONE, UTC, JSON),
        examples=(
            ("herdbeat backfill report --from 2026-03-01 --until 2026-03-08 --dry-run", "which would it be?"),
            ("herdbeat backfill report --from 2026-03-01 --until 2026-03-08", "run those seven days now"),
            ("herdbeat backfill report --from 6h", "the last six hours"),
        ),
        notes=(
            "--from belongs to the window, --until does not. Prompts see the past instant as fire_time.",
            "They start at the pace of catchup_rate and behind what is due by itself. Their failures do not count.",
            "More than 20 beats ask first.",
        ),
    ),
)
