"""The commands for single beats and runs: skip, cancel, retry, backfill. A part of the one table in `commands`."""

from herdbeat.faces.cli.control_commands import SCHEDULES_ARGUMENT, SELECTION_FLAGS
from herdbeat.faces.cli.options import (
    CLEAR,
    CONFIG,
    COUNT,
    DRY_RUN,
    FORCE,
    FROM,
    JSON,
    MAX,
    REASON,
    UNTIL,
    UTC,
    WAIT,
    YES,
    ZONE,
    Argument,
    CliCommand,
)

_RUNS_ARGUMENT = Argument(
    name="WHICH", meaning="the id of a run, TARGET (all its schedules) or TARGET/SCHEDULE", many=True
)
_REQUIRED_RUNS_ARGUMENT = Argument(name="WHICH", meaning=_RUNS_ARGUMENT.meaning, required=True, many=True)
_SCHEDULE_ARGUMENT = Argument(name="WHICH", meaning="TARGET (its first schedule) or TARGET/SCHEDULE", required=True)

BEAT_COMMANDS = (
    CliCommand(
        path=("skip",),
        summary="let the next beat pass",
        run="herdbeat.faces.cli.skipping:run_skip",
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
        path=("cancel",),
        summary="stop a run; call off what waits",
        run="herdbeat.faces.cli.cancelling:run_cancel",
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
        path=("retry",),
        summary="run again what failed: one more attempt at the same beat",
        run="herdbeat.faces.cli.retrying:run_retry",
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
        path=("backfill",),
        summary="run the beats of a past window of a cron schedule",
        run="herdbeat.faces.cli.backfilling:run_backfill",
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
