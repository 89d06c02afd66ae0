"""The part of the command table that changes what runs."""

from dataclasses import replace

from herdbeat.cli.spec import (
    ACCOUNT,
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
    HINT_ID,
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

SCHEDULES_ARGUMENT = Argument("SELECTOR", "TARGET, TARGET/SCHEDULE or TARGET/*", takes_name=True, many=True)
SELECTION_FLAGS = (TAG, GROUP, ALL)
_CONTROL_FLAGS = (REASON, *SELECTION_FLAGS, YES, DRY_RUN, CONFIG, ZONE, UTC, JSON)
_STATUS_NOTE = "Exit status: 0 done or no change; 1 refused or not confirmed; 3 unknown name."
OFFLINE_NOTE = "If the fleet is not running, the change is saved and takes effect at the next `herdbeat up`."


_RUNS_ARGUMENT = Argument("SELECTOR", "Run id, TARGET or TARGET/SCHEDULE", takes_name=True, takes_run=True, many=True)
_SCHEDULE_ARGUMENT = Argument(
    "SCHEDULE", "TARGET/SCHEDULE, or TARGET if it has only one schedule", required=True, takes_name=True
)

CONTROL_COMMANDS = (
    CliCommand(
        names=("pause",),
        summary="Pause schedules for a while, or until they are resumed",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(
            FROM.described("Plan it: begin at this time, with an end by --until or --for"),
            FOR.described("Resume after this duration, such as 20m, 2h or 3d"),
            UNTIL.described("Resume at this time: 18:00, tomorrow 09:00 or RFC 3339"),
            CANCEL_RUNNING,
            *_CONTROL_FLAGS,
        ),
        examples=(
            ('herdbeat pause queue-depth --for 2h --reason "db maintenance"', "Pause for two hours"),
            ("herdbeat pause 'triage/*' --until 18:00", "Pause all schedules of a target"),
            ("herdbeat pause --all --reason incident-42", "Pause the whole fleet; asks for confirmation"),
            ("herdbeat pause --tag db --from 22:00 --until 02:00", "Plan a maintenance window"),
        ),
        notes=(
            "Beats that are due or queued are skipped as `paused`. Active runs finish.",
            "Beats that were skipped do not run after the pause.",
            "Before a planned pause nothing changes. It also holds schedules that are created until it ends.",
            OFFLINE_NOTE,
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("pauses",),
        summary="List planned pauses",
        options=(
            ALL.described("Include those that are over"),
            COUNT.described("Show at most N (default: 50)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(("herdbeat pauses", "What is paused now and later"),),
        notes=("Plan one: herdbeat pause NAME --from TIME --until TIME",),
    ),
    CliCommand(
        names=("pauses cancel",),
        summary="Cancel a planned pause, or end it now",
        arguments=(Argument("ID", "Its number in herdbeat pauses", required=True),),
        options=(REASON, CONFIG, JSON),
        examples=(("herdbeat pauses cancel 3", "The schedules run as if it had not been planned"),),
        notes=("Exit status: 0 cancelled; 3 no such pause, or it has ended.",),
    ),
    CliCommand(
        names=("resume",),
        summary="Resume paused schedules, or release a held account",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(ACCOUNT, *_CONTROL_FLAGS),
        examples=(
            ("herdbeat resume queue-depth", "Resume now"),
            ("herdbeat resume --tag nightly", "Resume all schedules with a tag"),
            ("herdbeat resume --account team", "Start what waits for the usage limit of an account"),
        ),
        notes=(
            "An overdue interval runs once, immediately; a cron schedule waits for its next time.",
            "Resuming a schedule does not release its account.",
            OFFLINE_NOTE,
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("disable",),
        summary="Disable schedules until they are enabled again",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(CANCEL_RUNNING, *_CONTROL_FLAGS),
        examples=(
            ("herdbeat disable marketing/old-promo", "Disable a schedule"),
            ("herdbeat disable --group reports --dry-run", "Show which schedules would be disabled"),
        ),
        notes=("Disabled schedules stay disabled after a restart.", OFFLINE_NOTE, _STATUS_NOTE),
    ),
    CliCommand(
        names=("enable",),
        summary="Enable schedules; re-arm one-shots that have fired",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(
            ("herdbeat enable marketing/old-promo", "Enable a schedule"),
            ("herdbeat enable launch", "Re-arm a one-shot; it fires now if its time has passed"),
        ),
        notes=(
            "A schedule with enabled: false in its file can be enabled only in that file.",
            OFFLINE_NOTE,
            _STATUS_NOTE,
        ),
    ),
    CliCommand(
        names=("hint",),
        summary="Set, list or remove hints (a temporary interval or time)",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(
            EVERY.described("Run at this interval, such as 20s or 5m"),
            AT.described("Run once more at this time: 18:00, tomorrow 09:00 or RFC 3339"),
            FOR.described("Lifetime of the hint (default: 1h, maximum: 30d)"),
            REASON,
            CLEAR.described("Remove the hints of the selected schedules"),
            HINT_ID,
            LIST,
            *SELECTION_FLAGS,
            YES,
            DRY_RUN,
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ('herdbeat hint queue-depth --every 20s --for 1h --reason "watching the deploy"', "Run faster for an hour"),
            ("herdbeat hint report --at 18:00", "Run once more at 18:00"),
            ("herdbeat hint queue-depth --clear", "Return to the baseline"),
            ("herdbeat hint deploy-watch --clear --id 12", "Cancel one hint, such as the wake of an agent"),
            ("herdbeat hint --list", "List hints, including those that ended within a day"),
        ),
        notes=(
            "A hint with --at expires one hour after that time.",
            "min_interval, max_interval and pauses take precedence over hints.",
            OFFLINE_NOTE,
        ),
    ),
    CliCommand(
        names=("reset",),
        summary="Clear the failure count and backoff; leave quarantine",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=_CONTROL_FLAGS,
        examples=(("herdbeat reset api-health", "End the backoff and plan the next run again"),),
        notes=(OFFLINE_NOTE, _STATUS_NOTE),
    ),
    CliCommand(
        names=("skip",),
        summary="Skip the next beats of schedules",
        module="control",
        arguments=(SCHEDULES_ARGUMENT,),
        options=(
            COUNT.described("Skip the next N beats (default: 1)"),
            CLEAR.described("Cancel pending skips"),
            REASON,
            *SELECTION_FLAGS,
            YES,
            DRY_RUN,
            CONFIG,
            ZONE,
            UTC,
            JSON,
        ),
        examples=(
            ("herdbeat skip triage/standup --reason holiday", "Skip the next standup"),
            ("herdbeat skip backup --count 3", "Skip the next three backups"),
            ("herdbeat skip triage/standup --clear", "Cancel the skip"),
        ),
        notes=(
            "Skipped beats are recorded as `skipped: by_request`. Intervals continue from the skipped beat.",
            "Repeating the command has no effect.",
            OFFLINE_NOTE,
        ),
    ),
    CliCommand(
        names=("cancel",),
        summary="Cancel active runs and queued beats",
        arguments=(_RUNS_ARGUMENT,),
        options=(
            FORCE.described("Kill the run immediately"),
            REASON,
            *SELECTION_FLAGS,
            YES,
            DRY_RUN,
            CONFIG,
            JSON,
        ),
        examples=(
            ("herdbeat cancel 7f3k", "Stop a run; it is killed if it has not ended after 5s"),
            ("herdbeat cancel 7f3k --force", "Kill a run immediately"),
            ("herdbeat cancel triage", "Cancel all active runs and queued beats of a target"),
        ),
        notes=(
            "A cancelled run does not count as a failure. Queued beats are recorded as `skipped: by_request`.",
            "If the fleet is not running, only queued beats are cancelled.",
        ),
    ),
    CliCommand(
        names=("retry",),
        summary="Retry failed runs, as another attempt at the same beat",
        arguments=(replace(_RUNS_ARGUMENT, required=True),),
        options=(WAIT, FORCE.described("Retry even if the run succeeded"), REASON, DRY_RUN, CONFIG, JSON),
        examples=(
            ("herdbeat retry 7f3k", "Retry a run"),
            ("herdbeat retry api-health --wait", "Retry the last run of a schedule and show its output"),
            ("herdbeat retry 7f3k --force", "Repeat a run that succeeded"),
        ),
        notes=(
            "If the retry succeeds, the failure count is reset. The next regular run does not change.",
            "The due time and dedup id stay the same; the prompt comes from the current files.",
            "Exit status: 0 started or saved; 1 refused; 5 the run failed (--wait).",
        ),
    ),
    CliCommand(
        names=("ack",),
        summary="List or acknowledge runs of agents that need you",
        module="agents",
        arguments=(_RUNS_ARGUMENT,),
        options=(ALL.described("Acknowledge all of them"), REASON, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat ack", "List what needs you"),
            ("herdbeat ack 7f3k", "Acknowledge a run"),
            ("herdbeat ack triage", "Acknowledge all runs of a target"),
        ),
        notes=("A later run of the schedule that does not need you acknowledges earlier ones automatically.",),
    ),
    CliCommand(
        names=("backfill",),
        summary="Run the past times of a cron schedule now",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(
            FROM.described("Start of the period: 2026-03-01, 2026-03-01T09:00:00Z or 6h (ago)"),
            UNTIL.described('End of the period, exclusive (default: now): 2026-03-08 or "2h ago"'),
            MAX,
            YES,
            DRY_RUN,
            REASON,
            CONFIG,
            ZONE,
            UTC,
            JSON,
        ),
        examples=(
            ("herdbeat backfill report --from 2026-03-01 --until 2026-03-08 --dry-run", "List the times"),
            ("herdbeat backfill report --from 2026-03-01 --until 2026-03-08", "Run seven days now"),
            ("herdbeat backfill report --from 6h", "Run the last six hours"),
        ),
        notes=(
            "Prompts receive the past time as fire_time.",
            "Backfill runs start at catchup_rate, after regular runs. Their failures do not cause backoff.",
            "More than 20 beats require confirmation.",
        ),
    ),
)
