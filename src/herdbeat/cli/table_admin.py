"""The part of the command table that creates and administers: fleet file, schedules, service, ledger, doctor."""

from herdbeat.cli.spec import (
    ALL,
    AT,
    CALL,
    COMMAND,
    CONFIG,
    CRON,
    DATA,
    DRY_RUN,
    ENABLED,
    EVERY,
    EXIT_CODE,
    EXPIRES,
    FORCE,
    IMPORT,
    JSON,
    OUTPUT,
    PORT,
    PRINT,
    PROMPT,
    REASON,
    RUNTIME,
    SCOPE,
    SYSTEM,
    TABLE,
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

_SCHEDULE_ARGUMENT = Argument("SCHEDULE", "TARGET or TARGET/SCHEDULE", required=True, takes_name=True)
_TRIGGER_FLAGS = (
    EVERY.described("Run at this interval, such as 20s or 5m"),
    CRON.described("Run at the times of this cron expression"),
    AT.described("Run once at this time: 18:00, tomorrow 09:00 or RFC 3339"),
)
_SCHEDULE_ZONE = ZONE.described("Time zone of the schedule")
_FILE_OWNED_NOTE = "A schedule that is defined in a file can be changed only there; the error names file and line."

INIT_COMMANDS = (
    CliCommand(
        names=("init",),
        summary="Create a herdbeat.yaml from a template",
        arguments=(Argument("FOLDER", "Folder for the file (default: this folder)", takes_file=True),),
        options=(TEMPLATE, FORCE.described("Overwrite an existing fleet file"), JSON),
        examples=(
            ("herdbeat init", "Choose a template interactively"),
            ("herdbeat init --template endpoints", "Use this template"),
            ("herdbeat init my-fleet --template demo", "Create the fleet in a new folder"),
        ),
        notes=("Also writes .herdbeat/schema.json for editors, and adds .herdbeat/ to .gitignore.",),
    ),
)

_MIGRATION_COMMANDS = (
    CliCommand(
        names=("import",),
        module="migrate",
        summary="Write a fleet file from the schedules of another tool",
        arguments=(
            Argument(
                "TOOL",
                "Tool to import from: crontab, systemd, apscheduler, herdctl or agentd",
                choices=("crontab", "systemd", "apscheduler", "herdctl", "agentd"),
                required=True,
            ),
            Argument("PATH", "Its files or folders (default: where the tool keeps them)", takes_file=True, many=True),
        ),
        options=(
            OUTPUT,
            DRY_RUN.described("Print the file, and write nothing"),
            FORCE.described("Overwrite an existing file without asking"),
            SYSTEM,
            TABLE,
            JSON,
        ),
        examples=(
            ("herdbeat import crontab --dry-run", "Show what the crontab of this user becomes"),
            ("herdbeat import crontab /etc/crontab /etc/cron.d", "Import the crontabs of the system"),
            ("herdbeat import systemd backup.timer -o backup.yaml", "Import one timer with its service"),
            ("herdbeat import apscheduler jobs.sqlite", "Import the jobs of APScheduler 3; nothing is executed"),
        ),
        notes=(
            "Nothing is started, and the other tool is not changed: switch it off before herdbeat up.",
            "What cannot be imported, or changes its meaning, is listed with its line and in comments.",
            "Secrets are not copied: the file refers to variables. Set them in .env.",
        ),
    ),
    CliCommand(
        names=("export",),
        module="migrate",
        summary="Print the whole fleet as one fleet file",
        options=(
            OUTPUT.described("Write to this file (default: print it)"),
            DRY_RUN.described("Print the file, and write nothing"),
            FORCE.described("Overwrite an existing file without asking"),
            CONFIG,
            JSON,
        ),
        examples=(
            ("herdbeat export", "Print files, sub-fleets and what was created without a file"),
            ("herdbeat export -o all.yaml", "Write it to a file"),
        ),
        notes=(
            "Relative paths in it are relative to the folder of the fleet file.",
            "Secrets stay references such as ${TOKEN}; their values are never written.",
        ),
    ),
)

_TOKEN_ARGUMENT = Argument("NAME", "Name of the token", required=True)
_TOKEN_COMMANDS = (
    CliCommand(
        names=("token create",),
        summary="Create a token and print it once",
        arguments=(_TOKEN_ARGUMENT,),
        options=(SCOPE, EXPIRES, REASON, CONFIG, JSON),
        examples=(
            ("herdbeat token create ci --scope operate", "A token that can run, pause and hint"),
            ("herdbeat token create grafana --expires never", "A token that only reads"),
            ("herdbeat token create triage-bot --scope agent:triage", "A token for the schedules of one agent"),
        ),
        notes=(
            "Only the hash of a token is stored. Send it as Authorization: Bearer TOKEN.",
            "No token can define a command, an agent or a callable; a prompt needs the scope admin.",
        ),
    ),
    CliCommand(
        names=("token list",),
        summary="List tokens; their text is never shown again",
        options=(CONFIG, JSON, WIDE),
        examples=(("herdbeat token list", "Names, scopes and when they expire"),),
    ),
    CliCommand(
        names=("token revoke",),
        summary="Revoke a token",
        arguments=(_TOKEN_ARGUMENT,),
        options=(REASON, CONFIG, JSON),
        examples=(("herdbeat token revoke ci", "It is refused from now on; its sessions end"),),
    ),
)

_WEBHOOK_COMMANDS = (
    CliCommand(
        names=("webhook test",),
        summary="Call a webhook schedule as its sender would",
        arguments=(Argument("SCHEDULE", "TARGET/SCHEDULE of type webhook", required=True, takes_name=True),),
        options=(
            DATA,
            PORT,
            DRY_RUN.described("Print the signed call and do not send it"),
            CONFIG,
            JSON,
        ),
        examples=(
            ("herdbeat webhook test devops/deploy", "Sign a small body, show the call, and send it"),
            ('herdbeat webhook test devops/deploy -d \'{"action": "published"}\'', "Send this body"),
        ),
        notes=("The secret is read from the environment or from .env. It is not shown.",),
    ),
    CliCommand(
        names=("webhook refused",),
        summary="List webhook calls that were refused, and why",
        arguments=(Argument("SCHEDULE", "Only calls of this schedule", takes_name=True),),
        options=(CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(("herdbeat webhook refused", "The newest 500, at most 50 of each schedule"),),
        notes=("Callers are not told the reason. The body of a call is never stored.",),
    ),
)

_WORKSPACE_COMMANDS = (
    CliCommand(
        names=("workspaces",),
        summary="List the worktrees that runs have left on this host",
        arguments=(Argument("ACTION", "Remove those older than workspace.prune_after", choices=("prune",)),),
        options=(ALL.described("With prune: all in which no run is active"), CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat workspaces", "Branches with changes, and how old they are"),
            ("herdbeat workspaces prune", "What the running fleet does every hour"),
            ("herdbeat workspaces prune --all", "Also remove recent ones"),
        ),
        notes=(
            "A worktree without changes is removed after its run, unless workspace.keep is always.",
            "Changes that are not committed are lost with their worktree.",
            "A branch with commits that no remote has is never deleted.",
        ),
    ),
)

ADMIN_COMMANDS = (
    *_MIGRATION_COMMANDS,
    *_TOKEN_COMMANDS,
    *_WEBHOOK_COMMANDS,
    *_WORKSPACE_COMMANDS,
    CliCommand(
        names=("apply",),
        summary="Apply the files to the fleet; --dry-run shows the plan",
        arguments=(Argument("PATH", "Fleet file or folder, or a single agent or workflow file", takes_file=True),),
        options=(DRY_RUN, EXIT_CODE, YES, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat apply --dry-run", "Show what would change, with the new run times"),
            ("herdbeat apply", "Apply the changes; a running fleet uses them immediately"),
            ("herdbeat apply .agentd/workflows/report.yml", "Apply one file only"),
            ("herdbeat apply --dry-run --exit-code", "For CI: exit 6 if there are changes to apply"),
        ),
        notes=(
            "A running fleet applies changed files automatically. Files with errors are not applied.",
            "Schedules made with `herdbeat create` are kept. Removed schedules keep their history.",
            "Exit status: 0 done; 1 not confirmed; 2 a file has errors; 6 changes to apply (--dry-run --exit-code).",
        ),
    ),
    CliCommand(
        names=("create",),
        summary="Create a schedule, and its target if needed, without a file",
        arguments=(Argument("SCHEDULE", "TARGET or TARGET/SCHEDULE; the target can be new", required=True),),
        options=(*_TRIGGER_FLAGS, PROMPT, COMMAND, URL, CALL, RUNTIME, _SCHEDULE_ZONE, REASON, CONFIG, DRY_RUN, JSON),
        examples=(
            ('herdbeat create disk --command "df -h ." --every 1h', "Create a command with a schedule"),
            ("herdbeat create health --url https://example.com/health --every 5m", "Create an endpoint"),
            ('herdbeat create triage/evening --cron "0 18 * * 1-5" --prompt "Summarize."', "Add a schedule"),
            ('herdbeat create scribe --runtime command --command "./scribe.sh"', "Create an agent without a schedule"),
        ),
        notes=("`herdbeat apply` does not remove schedules made this way.", OFFLINE_NOTE),
    ),
    CliCommand(
        names=("update",),
        summary="Change a schedule made with `herdbeat create`",
        module="create",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(*_TRIGGER_FLAGS, PROMPT, ENABLED, _SCHEDULE_ZONE, REASON, CONFIG, JSON),
        examples=(
            ("herdbeat update disk --every 2h", "Change the interval"),
            ("herdbeat update disk --enabled false", "Disable the schedule"),
        ),
        notes=(
            "Of a schedule that is defined in a file, only --enabled can be changed here, as with enable and disable.",
            OFFLINE_NOTE,
        ),
    ),
    CliCommand(
        names=("delete",),
        summary="Delete a schedule or target made with `herdbeat create`",
        module="create",
        arguments=(_SCHEDULE_ARGUMENT,),
        options=(REASON, CONFIG, JSON),
        examples=(
            ("herdbeat delete triage/evening", "Delete a schedule"),
            ("herdbeat delete disk", "Delete a target and its schedules"),
        ),
        notes=("The history is kept.", _FILE_OWNED_NOTE, OFFLINE_NOTE),
    ),
    CliCommand(
        names=("doctor",),
        summary="Check the installation: files, ledger, clock and programs",
        options=(CONFIG, JSON, WIDE),
        examples=(
            ("herdbeat doctor", "List problems and how to fix them"),
            ("herdbeat doctor --json", "Print the result as JSON"),
        ),
        notes=("Nothing is changed. Exit status: 0 no problems, possibly warnings; 6 problems.",),
    ),
    CliCommand(
        names=("state",),
        summary="Print the state of all schedules as state.yaml, or import one",
        options=(IMPORT, DRY_RUN, CONFIG, JSON),
        examples=(
            ("herdbeat state", "Print the state in the format of herdctl's state.yaml"),
            ("herdbeat state --import .herdctl/state.yaml", "Continue where herdctl stopped"),
        ),
        notes=(
            "An import sets the last run, the last error and whether a schedule is disabled.",
            "Schedules that are not in the file, or that have already run here, are not changed.",
        ),
    ),
    CliCommand(
        names=("agent test",),
        summary="Send an agent a short prompt and show its answer",
        arguments=(Argument("NAME", "An agent of the fleet", required=True, takes_name=True),),
        options=(PROMPT.described("Send this prompt instead"), CONFIG, JSON),
        examples=(
            ("herdbeat agent test triage", "Check program, login, model and permissions"),
            ('herdbeat agent test triage --prompt "Which tools do you have?"', "Ask something else"),
        ),
        notes=(
            "It runs with the agent's own settings, and may cost as much as one short answer. Nothing is recorded.",
            "Exit status: 0 it answered; 5 it failed.",
        ),
    ),
    CliCommand(
        names=("service install",),
        summary="Run the fleet as a systemd service of this user",
        options=(PRINT, FORCE.described("Overwrite a unit file that herdbeat did not write"), CONFIG),
        examples=(
            ("herdbeat service install", "Write the unit, enable it and start it"),
            ("herdbeat service install --print", "Print the unit"),
        ),
        notes=("Without a systemd user manager, the unit is written and the remaining steps are printed.",),
    ),
    CliCommand(
        names=("service remove",),
        summary="Stop the service and remove its unit",
        options=(CONFIG,),
        examples=(("herdbeat service remove", "The files and the ledger are kept"),),
    ),
    CliCommand(
        names=("service status",),
        summary="Show whether the service is installed and running",
        options=(CONFIG, JSON),
        examples=(("herdbeat service status", "Show the unit and its systemd state"),),
    ),
    CliCommand(
        names=("db backup",),
        summary="Back up the ledger to a file, also while the fleet runs",
        arguments=(
            Argument("FILE", "Backup file (default: a new file in backups/ of the state folder)", takes_file=True),
        ),
        options=(CONFIG, FORCE.described("Overwrite FILE"), JSON),
        examples=(
            ("herdbeat db backup", "Back up to the state folder, named after the current time"),
            ("herdbeat db backup /mnt/safe/ledger.db", "Back up to a new file"),
            ("herdbeat db backup ledger.db --force", "Overwrite a backup"),
        ),
        notes=("The backup is a consistent copy, and is checked before it replaces FILE.",),
    ),
    CliCommand(
        names=("db restore",),
        summary="Replace the ledger with a backup; the fleet must be stopped",
        arguments=(Argument("FILE", "A file written by `herdbeat db backup`", required=True, takes_file=True),),
        options=(CONFIG, JSON),
        examples=(("herdbeat db restore /mnt/safe/ledger.db", "The current ledger is kept beside it"),),
        notes=(
            "Runs that were active in the backup are recorded as interrupted, queued beats as missed.",
            "Beats that were due between the backup and now are recorded as missed: whether they ran is not known.",
        ),
    ),
    CliCommand(
        names=("db copy",),
        summary="Copy a SQLite ledger to PostgreSQL; the fleet must be stopped",
        arguments=(
            Argument("URL", "URL of an empty database: postgresql://USER@HOST/DATABASE (default: $HERDBEAT_STORE)"),
        ),
        options=(CONFIG, JSON),
        examples=(("herdbeat db copy postgresql://herd@db/fleet", "Then set store: to this URL, and start the nodes"),),
        notes=(
            "Copies all rows in one transaction and compares the counts. The SQLite file is not changed.",
            "Pass a password in HERDBEAT_STORE or PGPASSWORD: other users can read the command line.",
        ),
    ),
    CliCommand(
        names=("db prune",),
        summary="Delete history older than `retention`",
        options=(CONFIG, DRY_RUN, JSON),
        examples=(
            ("herdbeat db prune --dry-run", "Show how much would be deleted"),
            ("herdbeat db prune", "Delete it now"),
        ),
        notes=(
            "A running fleet does this every hour.",
            "Pending and running beats are kept; beats of events and delays are kept for at least seven days.",
        ),
    ),
    CliCommand(
        names=("db check",),
        summary="Check the ledger for damage and inconsistencies",
        options=(CONFIG, JSON),
        examples=(
            ("herdbeat db check", "Check the whole ledger; nothing is changed"),
            ("herdbeat db check --json", "Print the result as JSON"),
        ),
        notes=("Exit status: 0 no problems; 6 problems. A running fleet repairs inconsistencies automatically.",),
    ),
)
