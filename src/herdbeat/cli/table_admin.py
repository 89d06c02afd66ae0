"""The part of the command table that creates and administers: fleet file, schedules, service, ledger, doctor."""

from herdbeat.cli.spec import (
    AT,
    CALL,
    COMMAND,
    CONFIG,
    CRON,
    DRY_RUN,
    ENABLED,
    EVERY,
    EXIT_CODE,
    FORCE,
    IMPORT,
    JSON,
    PRINT,
    PROMPT,
    REASON,
    RUNTIME,
    TEMPLATE,
    URL,
    UTC,
    WIDE,
    YES,
    ZONE,
    Argument,
    CliCommand,
)
from herdbeat.cli.table_control import OFFLINE_NOTE

_SCHEDULE_ARGUMENT = Argument("WHICH", "TARGET or TARGET/SCHEDULE", required=True)
_TRIGGER_FLAGS = (EVERY, CRON, AT)
_FILE_OWNED_NOTE = "What stands in a file is changed there: the refusal names the file and the line."

INIT_COMMANDS = (
    CliCommand(
        names=("init",),
        summary="write a herdbeat.yaml to begin with",
        arguments=(Argument("FOLDER", "where; else here", takes_file=True),),
        options=(TEMPLATE, FORCE, JSON),
        examples=(
            ("herdbeat init", "asks what you want to schedule; at a terminal only"),
            ("herdbeat init --template endpoints", "without asking"),
            ("herdbeat init my-fleet --template demo", "in a folder of its own"),
        ),
        notes=("Nothing is written over without --force. The schema for editors and .gitignore are seen to.",),
    ),
)

ADMIN_COMMANDS = (
    CliCommand(
        names=("apply",),
        summary="make the fleet match its files; --dry-run shows the plan",
        arguments=(Argument("PATH", "the fleet file or folder, or one agent or workflow file", takes_file=True),),
        options=(DRY_RUN, EXIT_CODE, YES, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat apply --dry-run", "what would change, and when things would run then"),
            ("herdbeat apply", "do it; while the fleet runs, it acts at once"),
            ("herdbeat apply .agentd/workflows/report.yml", "one file by itself; nothing else is touched"),
            ("herdbeat apply --dry-run --exit-code", "for a pipeline: exit 6 if anything would change"),
        ),
        notes=(
            "A running fleet watches its files and applies them by itself. A file with a mistake changes nothing.",
            "Schedules that were made by hand stay. What is removed keeps its history.",
            "Exit status: 0 done, 2 a file has a mistake, 6 with --dry-run --exit-code if there is something to do.",
        ),
    ),
    CliCommand(
        names=("create",),
        summary="make a schedule (and its target) without a file",
        arguments=(Argument("WHICH", "TARGET or TARGET/SCHEDULE; the target may be new", required=True),),
        options=(*_TRIGGER_FLAGS, PROMPT, COMMAND, URL, CALL, RUNTIME, ZONE, REASON, CONFIG, DRY_RUN, JSON),
        examples=(
            ('herdbeat create disk --command "df -h ." --every 1h', "a new command with one schedule"),
            ("herdbeat create health --url https://example.com/health --every 5m", "a new endpoint"),
            ('herdbeat create triage/evening --cron "0 18 * * 1-5" --prompt "Sum up."', "one more for an agent"),
            ('herdbeat create scribe --runtime command --command "./scribe.sh"', "an agent, without a schedule"),
        ),
        notes=("It stays when the files are applied. " + OFFLINE_NOTE,),
    ),
    CliCommand(
        names=("update",),
        summary="change a schedule that was made without a file",
        module="create",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(*_TRIGGER_FLAGS, PROMPT, ENABLED, ZONE, REASON, CONFIG, JSON),
        examples=(
            ("herdbeat update disk --every 2h", "another pace"),
            ("herdbeat update disk --enabled false", "off until it is switched on again"),
        ),
        notes=(_FILE_OWNED_NOTE, OFFLINE_NOTE),
    ),
    CliCommand(
        names=("delete",),
        summary="remove what was made without a file; its history stays",
        module="create",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(REASON, CONFIG, JSON),
        examples=(
            ("herdbeat delete triage/evening", "one schedule"),
            ("herdbeat delete disk", "the target, with the schedules that were made for it"),
        ),
        notes=(_FILE_OWNED_NOTE, OFFLINE_NOTE),
    ),
    CliCommand(
        names=("doctor",),
        summary="check this installation: files, ledger, clock, programs",
        options=(CONFIG, JSON, WIDE),
        examples=(
            ("herdbeat doctor", "what is well, what is not, and what to do about it"),
            ("herdbeat doctor --json", "for a program"),
        ),
        notes=("Nothing is changed. Exit status: 0 all is well or only warned about, 6 problems.",),
    ),
    CliCommand(
        names=("state",),
        summary="print the state of all schedules as state.yaml, or import one",
        options=(IMPORT, DRY_RUN, CONFIG, JSON),
        examples=(
            ("herdbeat state", "in the shape of herdctl's state.yaml"),
            ("herdbeat state --import .herdctl/state.yaml", "go on where herdctl stopped"),
        ),
        notes=(
            "An import takes when each schedule last ran, its last error, and whether it is disabled.",
            "What it does not name stays as it is, and so does a schedule that has a past here.",
        ),
    ),
    CliCommand(
        names=("service install",),
        summary="run the fleet as a service of this user (systemd)",
        options=(PRINT, FORCE, CONFIG),
        examples=(
            ("herdbeat service install", "write the unit, start it, and keep it started"),
            ("herdbeat service install --print", "only show the unit"),
        ),
        notes=("Where there is no systemd for users, it writes the unit and says what to do.",),
    ),
    CliCommand(
        names=("service remove",),
        summary="stop that service and remove its unit",
        options=(CONFIG,),
        examples=(("herdbeat service remove", "the ledger and the files stay"),),
    ),
    CliCommand(
        names=("service status",),
        summary="is there a service for this fleet, and does it run?",
        options=(CONFIG, JSON),
        examples=(("herdbeat service status", "its unit, and what systemd says of it"),),
    ),
    CliCommand(
        names=("db backup",),
        summary="copy the ledger into one file, also while the fleet runs",
        arguments=(Argument("FILE", "where to; else backups/ in the state directory, by time", takes_file=True),),
        options=(CONFIG, FORCE, JSON),
        examples=(
            ("herdbeat db backup", "into the state directory, named after this moment"),
            ("herdbeat db backup /mnt/safe/ledger.db", "into this file, which must not exist"),
            ("herdbeat db backup ledger.db --force", "write over it"),
        ),
        notes=("The copy is of the moment it began, and is checked before it gets its name.",),
    ),
    CliCommand(
        names=("db restore",),
        summary="put a backup in the place of the ledger, while nothing runs",
        arguments=(Argument("FILE", "a file that `db backup` has written", required=True, takes_file=True),),
        options=(CONFIG, JSON),
        examples=(("herdbeat db restore /mnt/safe/ledger.db", "the ledger from before is kept beside it"),),
        notes=(
            "What was waiting or running in the backup does not start again: it is settled as missed or interrupted.",
            "What came due between the backup and now is missed too: nobody knows whether it ran.",
        ),
    ),
    CliCommand(
        names=("db copy",),
        summary="copy the ledger of a file into PostgreSQL, while nothing runs",
        arguments=(Argument("URL", "postgresql://USER@HOST/DATABASE, empty; else HERDBEAT_STORE"),),
        options=(CONFIG, JSON),
        examples=(("herdbeat db copy postgresql://herd@db/fleet", "then say so in store:, and start the nodes"),),
        notes=(
            "All rows or none, counted on both sides. The file stays as it is.",
            "A password is better given in HERDBEAT_STORE or PGPASSWORD: others can read a command line.",
        ),
    ),
    CliCommand(
        names=("db prune",),
        summary="remove history beyond `retention`; a running fleet does so every hour",
        options=(CONFIG, DRY_RUN, JSON),
        examples=(("herdbeat db prune --dry-run", "what would go?"), ("herdbeat db prune", "remove it now")),
        notes=("What is pending or running stays, and the beats of events and delays for at least seven days.",),
    ),
    CliCommand(
        names=("db check",),
        summary="is the ledger well? exit 6 if not",
        options=(CONFIG, JSON),
        examples=(
            ("herdbeat db check", "read it through; nothing is changed"),
            ("herdbeat db check --json", "for a script"),
        ),
        notes=("Exit status: 0 all is well, 6 something is wrong. A running fleet mends what the scan finds.",),
    ),
)
