"""The commands that look after the ledger. A part of the one table in `commands`."""

from herdbeat.faces.cli.options import CONFIG, DRY_RUN, FORCE, JSON, Argument, CliCommand

DB_COMMANDS = (
    CliCommand(
        path=("db", "backup"),
        summary="copy the ledger into one file, also while the fleet runs",
        run="herdbeat.faces.cli.db_backup:run_backup",
        arguments=(
            Argument(name="FILE", meaning="where to; else backups/ in the state directory, by time", takes_file=True),
        ),
        options=(CONFIG, FORCE, JSON),
        examples=(
            ("herdbeat db backup", "into the state directory, named after this moment"),
            ("herdbeat db backup /mnt/safe/ledger.db", "into this file, which must not exist"),
            ("herdbeat db backup ledger.db --force", "write over it"),
        ),
        notes=("The copy is of the moment it began, and is checked before it gets its name.",),
    ),
    CliCommand(
        path=("db", "restore"),
        summary="put a backup in the place of the ledger, while nothing runs",
        run="herdbeat.faces.cli.db_restore:run_restore",
        arguments=(
            Argument(name="FILE", meaning="a file that `db backup` has written", required=True, takes_file=True),
        ),
        options=(CONFIG, JSON),
        examples=(("herdbeat db restore /mnt/safe/ledger.db", "the ledger from before is kept beside it"),),
        notes=(
            "What was waiting or running in the backup does not start again: it is settled as missed or interrupted.",
            "What came due between the backup and now is missed too: nobody knows whether it ran.",
        ),
    ),
    CliCommand(
        path=("db", "copy"),
        summary="copy the ledger of a file into PostgreSQL, while nothing runs",
        run="herdbeat.faces.cli.db_copy:run_copy",
        arguments=(Argument(name="URL", meaning="postgresql://USER@HOST/DATABASE, empty; else HERDBEAT_STORE"),),
        options=(CONFIG, JSON),
        examples=(("herdbeat db copy postgresql://herd@db/fleet", "then say so in store:, and start the nodes"),),
        notes=(
            "All rows or none, counted on both sides. The file stays as it is.",
            "A password is better given in HERDBEAT_STORE or PGPASSWORD: others can read a command line.",
        ),
    ),
    CliCommand(
        path=("db", "prune"),
        summary="remove history beyond `retention`; a running fleet does so every hour",
        run="herdbeat.faces.cli.db_prune:run_prune",
        options=(CONFIG, DRY_RUN, JSON),
        examples=(
            ("herdbeat db prune --dry-run", "what would go?"),
            ("herdbeat db prune", "remove it now"),
        ),
        notes=("What is pending or running stays, and the beats of events and delays for at least seven days.",),
    ),
    CliCommand(
        path=("db", "check"),
        summary="is the ledger well? exit 6 if not",
        run="herdbeat.faces.cli.db_check:run_check",
        options=(CONFIG, JSON),
        examples=(
            ("herdbeat db check", "read it through; nothing is changed"),
            ("herdbeat db check --json", "for a script"),
        ),
        notes=("Exit status: 0 all is well, 6 something is wrong. A running fleet mends what the scan finds.",),
    ),
)
