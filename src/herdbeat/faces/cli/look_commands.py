"""The commands that look at a fleet and change nothing. A part of the one table in `commands`."""

from herdbeat.faces.cli.options import (
    ALL,
    CHECK,
    CONFIG,
    COUNT,
    CURSOR,
    FOLLOW,
    GROUP,
    IN_STATE,
    JSON,
    JSONL,
    PLAIN,
    SINCE,
    TAG,
    UTC,
    WATCH,
    WIDE,
    ZONE,
    Argument,
    CliCommand,
)

_SELECTORS_ARGUMENT = Argument(
    name="WHICH", meaning="TARGET, TARGET/SCHEDULE or TARGET/*; without it, the whole fleet", many=True
)

VIEW_COMMANDS = (
    CliCommand(
        path=("status",),
        summary="one screen: running, late, failing, next",
        run="herdbeat.faces.cli.status:run_status",
        arguments=(Argument(name="TARGET", meaning="only this target, or TARGET/SCHEDULE"),),
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
        path=("nodes",),
        summary="the processes that run this fleet: where, since when, with how many runs",
        run="herdbeat.faces.cli.nodes:run_nodes",
        options=(ALL, COUNT, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat nodes", "who is alive, and who has gone in the last hour"),
            ("herdbeat nodes --all", "all that the history still speaks of"),
        ),
        notes=("A ledger in a file has one node at a time; one in PostgreSQL as many as you start.",),
    ),
    CliCommand(
        path=("list",),
        aliases=(("ls",),),
        summary="all schedules: when, state, last, next, and the last ten beats",
        run="herdbeat.faces.cli.schedule_list:run_list",
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
        path=("show",),
        aliases=(("job",),),
        summary="everything about one target, schedule, run or beat",
        run="herdbeat.faces.cli.show:run_show",
        arguments=(Argument(name="WHICH", meaning="TARGET[/SCHEDULE], or the id of a run or a beat", required=True),),
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
        path=("logs",),
        summary="the output of runs, also while it is written",
        run="herdbeat.faces.cli.logs:run_logs",
        arguments=(
            Argument(name="WHICH", meaning="TARGET, TARGET/SCHEDULE or the id of a run; else the fleet", many=True),
        ),
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
        path=("timeline",),
        summary="the last hours as a picture: what ran when, what overlapped, where the gaps are",
        run="herdbeat.faces.cli.timeline:run_timeline",
        arguments=(_SELECTORS_ARGUMENT,),
        options=(SINCE, COUNT, CONFIG, ZONE, UTC, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat timeline", "the last two hours of the fleet"),
            ("herdbeat timeline triage --since 8h", "one target over a working day"),
            ('herdbeat timeline --since "yesterday 22:00"', "the night"),
        ),
    ),
)
