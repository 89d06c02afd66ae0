"""Every command with its arguments, options and examples: the one table.

The parser, the help, the completion scripts and `docs/reference/cli.md` all read it. It imports nothing of
what the commands do: `herdbeat --help` must not load YAML.
"""

from dataclasses import replace

from herdbeat.cli.spec import (
    ALL,
    APPLY,
    AS,
    AT,
    BY,
    CA_FILE,
    CHECK,
    CLEAR,
    CONFIG,
    COST_BY,
    COUNT,
    CRON,
    CURSOR,
    DAYS,
    DEMO,
    EXEC_URL,
    FAILURES,
    FOLLOW,
    FOR,
    FORCE,
    FROM,
    GROUP,
    HTML,
    IN_STATE,
    INPUT_FILE,
    JSON,
    JSONL,
    LABEL,
    LOG_FORMAT,
    MAX_CONCURRENT,
    NO_HISTORY,
    NO_SERVER,
    NO_WORKERS,
    OFFERED,
    OUTCOME,
    PLAIN,
    PORT,
    PROMPT,
    PROMPT_FILE,
    QUEUE,
    READ_ONLY,
    REASON,
    RESET,
    RESULT,
    RUN_COST,
    RUN_DURATION,
    RUN_STATUS,
    SCHEDULE,
    SEED,
    SERVER,
    SINCE,
    STATE_DIR,
    STRICT,
    TAG,
    TIMEOUT,
    TOKEN_FILE,
    UNTIL,
    URL,
    USAGE_LIMIT,
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

_SELECTOR_ARGUMENT = Argument("SELECTOR", "TARGET or TARGET/SCHEDULE (default: the whole fleet)", takes_name=True)
_SELECTORS_ARGUMENT = Argument(
    "SELECTOR", "TARGET, TARGET/SCHEDULE or TARGET/* (default: the whole fleet)", takes_name=True, many=True
)
_PATH_ARGUMENT = Argument("PATH", "Fleet file or folder (default: search this folder and its parents)", takes_file=True)


_FLEET_COMMANDS = (
    CliCommand(
        names=("up", "start"),
        summary="Run the fleet in the foreground",
        options=(
            CONFIG,
            DEMO,
            STATE_DIR,
            MAX_CONCURRENT,
            LABEL,
            NO_WORKERS,
            APPLY,
            PORT,
            NO_SERVER,
            LOG_FORMAT,
            JSON.described("Print each event as one line of JSON"),
        ),
        examples=(
            ("herdbeat up", "Run the fleet of this folder; stop it with Ctrl+C"),
            ("herdbeat up --demo", "Run the demo fleet; needs no key, account or file"),
            ("herdbeat up --json > events.jsonl", "Record every event as JSON"),
            ("herdbeat up -q", "Print only failures, missed beats and other problems"),
            ("herdbeat up --log-format json", "Print nothing but JSON: events on stdout, the log on stderr"),
        ),
        notes=(
            "Ctrl+C or SIGTERM stops the fleet: no new runs start, and active runs have stop_timeout to finish.",
            "A second Ctrl+C interrupts them.",
            "With PostgreSQL, several nodes can run the same fleet. Use --apply on the node whose files are current.",
            "Exit status: 0 stopped; 1 runs were interrupted, or already running here; 130 interrupted by Ctrl+C.",
        ),
    ),
    CliCommand(
        names=("serve",),
        summary="Run the server alone, for a fleet that runs elsewhere",
        options=(CONFIG, PORT, LOG_FORMAT),
        examples=(
            ("herdbeat serve", "Serve the fleet of this folder until Ctrl+C"),
            ("herdbeat serve --port 8080", "Listen on another port"),
        ),
        notes=(
            "`herdbeat up` starts a server of its own. Use this for a shared (PostgreSQL) ledger or after --no-server.",
            "An address other than loopback needs a token: herdbeat token create NAME --scope admin",
        ),
    ),
    CliCommand(
        names=("mcp",),
        summary="Run the MCP server on standard input and output",
        options=(AS, READ_ONLY, CONFIG),
        examples=(
            ("herdbeat mcp --read-only", "Let a program read the state of the fleet"),
            ("herdbeat mcp --as triage", "The tools of the agent triage: wake_me, set_pace and others"),
            ("claude mcp add herdbeat -- herdbeat mcp --read-only", "Add it to Claude Code"),
        ),
        notes=(
            "Agents that herdbeat starts get their tools automatically. This needs the extra: herdbeat[mcp]",
            "The server offers the same at /mcp, for tokens of the scopes agent:NAME and read.",
        ),
    ),
    CliCommand(
        names=("exec",),
        summary="Take one run from a server and run it here",
        arguments=(Argument("RUN", "Number of the run", required=True),),
        options=(EXEC_URL, TOKEN_FILE.described("File with the token of the machine, or of the run")),
        examples=(
            ("herdbeat exec 12 --url https://herd.example.com --token-file /etc/herdbeat/exec-token", "Run number 12"),
        ),
        notes=(
            "Executors pass this command line to Ray or Kubernetes; you do not run it yourself.",
            "Exit status: 0 the result was accepted; 4 another process has the run; 7 the server was not reached.",
        ),
    ),
    CliCommand(
        names=("down", "stop"),
        summary="Stop the fleet that runs in this folder",
        options=(CONFIG, TIMEOUT, FORCE.described("Interrupt active runs and kill their programs immediately"), JSON),
        examples=(
            ("herdbeat down", "Stop after active runs have finished"),
            ("herdbeat down --timeout 5m", "Give active runs five minutes to finish"),
            ("herdbeat down --force", "Interrupt active runs now"),
        ),
        notes=("Exit status: 0 not running; 1 runs were interrupted at the timeout; 124 still running.",),
    ),
    CliCommand(
        names=("run", "trigger"),
        summary="Run a schedule now; its regular times do not change",
        arguments=(
            Argument(
                "SCHEDULE", "TARGET/SCHEDULE, or TARGET if it has only one schedule", required=True, takes_name=True
            ),
        ),
        options=(
            CONFIG,
            SCHEDULE,
            PROMPT.described("Use this prompt for this run, instead of the schedule's"),
            PROMPT_FILE,
            INPUT_FILE,
            RESET,
            REASON.described("Record a reason with the run"),
            WAIT,
            QUEUE,
            JSON,
        ),
        examples=(
            ("herdbeat run triage/check-issues", "Start a run"),
            ('herdbeat run triage/check-issues --prompt "Look only at issue 12."', "Use another prompt for this run"),
            ("herdbeat run triage -S check-issues --wait", "Start a run and show its output"),
            ("herdbeat run triage --queue", "Wait for a free slot if the target is at capacity"),
        ),
        notes=(
            "If the fleet is not running, the beat is saved and starts when the fleet runs.",
            "Paused and disabled schedules can be run as well.",
            "A prompt for one run is a template like the schedule's. `herdbeat show RUN` shows it.",
            "Exit status: 0 started or saved; 1 refused; 3 unknown name; 5 the run failed (--wait).",
        ),
    ),
    CliCommand(
        names=("status",),
        summary="Show what is running, late, failing and next",
        arguments=(Argument("SELECTOR", "Show only this TARGET or TARGET/SCHEDULE", takes_name=True),),
        options=(CHECK, WATCH, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat status", "Show the whole fleet"),
            ("herdbeat status triage", "Show one target"),
            ("herdbeat status -w", "Keep the screen up to date"),
            ("herdbeat status --check", "For scripts: exit 6 if no node runs, or anything is late or failing"),
        ),
        notes=("Exit status: 0; 3 unknown name; 6 with --check if no node runs, or anything is late or failing.",),
    ),
    CliCommand(
        names=("work",),
        summary="List work items: in progress, not reported, blocked",
        arguments=(Argument("TARGET", "Show only the items of this target", takes_name=True),),
        options=(
            ALL.described("Include items that are reported or released"),
            OFFERED,
            COUNT.described("Show at most N items (default: 50)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ("herdbeat work", "Items in progress, reports that are not delivered, and blocked items"),
            ("herdbeat work triage --all", "Every item that a target has taken"),
            ("herdbeat work --offered", "Also list items that the next beats will find"),
        ),
        notes=(
            "A blocked item shows why: its author may not offer it, or it was edited after it was offered.",
            "ATTEMPT lists earlier runs that tried the item.",
        ),
    ),
    CliCommand(
        names=("release",),
        module="work",
        summary="Offer a work item again if no run is working on it",
        arguments=(Argument("ITEM", "The id of the item, as `herdbeat work` shows it", required=True, many=True),),
        options=(
            FORCE.described("Change only the ledger, without the source: for an item whose host is gone"),
            REASON,
            CONFIG,
            JSON,
        ),
        examples=(
            ("herdbeat release 42", "Instead of a report that cannot be delivered"),
            ("herdbeat release 42 --reason 'wrong branch'", "With a reason for the change log"),
        ),
        notes=(
            "An item that the source has marked is offered there again; the node does that within a minute.",
            "Exit status: 0 released; 1 refused; 3 unknown item.",
        ),
    ),
    CliCommand(
        names=("notify",),
        summary="List notifications: what was sent, and what is not delivered",
        options=(
            ALL.described("Include conditions that have ended"),
            COUNT.described("Show at most N of each (default: 50)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(("herdbeat notify", "Current problems, and the last messages about them"),),
        notes=("A message that is not delivered shows its attempts and its last error.",),
    ),
    CliCommand(
        names=("notify test",),
        summary="Send a test message to a channel",
        arguments=(Argument("CHANNEL", "Its name under notify:", required=True),),
        options=(CONFIG, JSON),
        examples=(("herdbeat notify test ops", "Send a message through the outbox, as all messages are"),),
        notes=("The running fleet sends it. Exit status: 0 queued; 3 unknown channel.",),
    ),
    CliCommand(
        names=("notify ack",),
        summary="Acknowledge conditions; no message follows when they end",
        arguments=(Argument("NAME", "A schedule, an account or a node", many=True),),
        options=(ALL.described("Acknowledge all"), CLEAR.described("Undo the acknowledgement"), REASON, CONFIG, JSON),
        examples=(
            ("herdbeat notify ack backup", "Somebody is working on it"),
            ("herdbeat notify ack backup --clear", "Undo it: notify again"),
        ),
    ),
    CliCommand(
        names=("notify snooze",),
        summary="Snooze conditions: notify later, if they persist",
        arguments=(Argument("NAME", "A schedule, an account or a node", many=True),),
        options=(
            FOR.described("How long to wait"),
            ALL.described("Snooze all"),
            CLEAR.described("Undo the snooze"),
            REASON,
            CONFIG,
            JSON,
        ),
        examples=(("herdbeat notify snooze backup --for 2h", "No message about it for two hours"),),
    ),
    CliCommand(
        names=("nodes",),
        summary="List the processes that run the fleet",
        options=(
            CHECK.described("Exit 6 unless the node of this folder responds"),
            ALL.described("Include all stopped nodes"),
            COUNT.described("Show at most N nodes (default: 50)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ("herdbeat nodes", "Active nodes, and those that stopped within the last hour"),
            ("herdbeat nodes --all", "All recorded nodes"),
            ("herdbeat nodes --check", "For a container health check"),
        ),
        notes=(
            "A SQLite ledger has one node at a time; a PostgreSQL ledger can have many.",
            "--check connects to the control socket of this folder. It does not read the ledger.",
        ),
    ),
    CliCommand(
        names=("list", "ls"),
        summary="List schedules with their state, last run and next run",
        arguments=(_SELECTORS_ARGUMENT,),
        options=(
            TAG,
            GROUP,
            IN_STATE,
            COUNT.described("Show at most N schedules (default: 200)"),
            CURSOR,
            CONFIG,
            ZONE,
            UTC,
            JSON,
            PLAIN,
            WIDE,
        ),
        examples=(
            ("herdbeat list", "All schedules"),
            ("herdbeat list 'triage/*' --state failing", "Failing schedules of one target"),
            ("herdbeat list --tag vendor-x", "Schedules with a tag"),
            ("herdbeat list --plain | cut -f1", "All names, for a script"),
        ),
        notes=(
            "Several selectors, tags and groups are combined (or); --state filters the result.",
            "--plain prints all schedules unless -n limits them.",
        ),
    ),
    CliCommand(
        names=("show", "job"),
        summary="Show all details of a target, schedule, run or beat",
        arguments=(
            Argument(
                "SELECTOR", "TARGET, TARGET/SCHEDULE, run id or beat id", required=True, takes_name=True, takes_run=True
            ),
        ),
        options=(CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat show triage/standup", "A schedule: policies, next times, last runs, hints"),
            ("herdbeat show triage", "A target and its schedules"),
            ("herdbeat show 7f3k", "A run: attempts, usage, response, last lines of output"),
            ("herdbeat show beat:7f3k", "A beat: its outcome and runs"),
        ),
        notes=(
            "A name takes precedence over an id, and a run id over a beat id.",
            "Use run:7f3k or beat:7f3k to be explicit.",
        ),
    ),
    CliCommand(
        names=("logs",),
        summary="Show the output of runs",
        arguments=(
            Argument(
                "SELECTOR",
                "TARGET, TARGET/SCHEDULE or run id (default: the whole fleet)",
                takes_name=True,
                takes_run=True,
                many=True,
            ),
        ),
        options=(
            FOLLOW,
            COUNT.described("Show the last N lines (default: 100; all lines for a run id)"),
            SINCE,
            CONFIG,
            ZONE,
            UTC,
            JSONL,
        ),
        examples=(
            ("herdbeat logs triage", "The last lines of a target"),
            ("herdbeat logs 7f3k", "The complete output of a run"),
            ("herdbeat logs -f triage devops", "Follow two targets"),
            ("herdbeat logs --since 1h --jsonl", "The last hour as JSON"),
        ),
        notes=("Ctrl+C ends --follow with exit status 130; it does not stop the runs.",),
    ),
    CliCommand(
        names=("timeline",),
        summary="Draw recent runs, overlaps and gaps as a chart",
        arguments=(_SELECTORS_ARGUMENT,),
        options=(
            SINCE.described("Start at this time (default: 2h ago): 8h, 09:00, yesterday or 2026-03-28"),
            COUNT.described("Show at most N schedules (default: 40)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            PLAIN,
            WIDE,
        ),
        examples=(
            ("herdbeat timeline", "The last two hours of the fleet"),
            ("herdbeat timeline triage --since 8h", "The last eight hours of one target"),
            ('herdbeat timeline --since "yesterday 22:00"', "Last night"),
        ),
    ),
)

_HISTORY_COMMANDS = (
    CliCommand(
        names=("explain", "why"),
        summary="Explain why a schedule runs when it does, or why it did not",
        arguments=(
            Argument("SELECTOR", "TARGET, TARGET/SCHEDULE or run id", required=True, takes_name=True, takes_run=True),
        ),
        options=(
            AT.described("Explain this time: 09:00, yesterday 09:00, tomorrow 09:00 or RFC 3339"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
        ),
        examples=(
            ("herdbeat explain triage/standup", "Why is the next run at that time?"),
            ('herdbeat explain triage/standup --at "today 09:00"', "Why did it run, or not run, at 09:00?"),
            ("herdbeat explain 7f3k", "Why did this run happen?"),
        ),
        notes=("Answers about the past come from the ledger as recorded then, not from the current files.",),
    ),
    CliCommand(
        names=("beats",),
        summary="List due times and their outcomes",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, OUTCOME, RESULT, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat beats --since 8h", "The last eight hours"),
            ("herdbeat beats triage/standup --outcome missed", "Missed beats of one schedule"),
            ("herdbeat beats triage --since 5m --json", "The last five minutes of a target as JSON"),
        ),
    ),
    CliCommand(
        names=("runs", "jobs"),
        summary="List runs with their duration and result",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(
            SINCE,
            RUN_STATUS,
            COUNT.described("Show at most N runs (default: 20)"),
            CURSOR,
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ("herdbeat runs --since 2h", "The last two hours"),
            ("herdbeat runs triage --status failed", "Failed runs of one target"),
        ),
    ),
    CliCommand(
        names=("rules test",),
        summary="Replay the rules of a schedule on its history",
        module="rules",
        arguments=(Argument("SELECTOR", "TARGET or TARGET/SCHEDULE", required=True, takes_name=True),),
        options=(
            SINCE.described("Start of the history: 24h, 7d or 2026-03-28 (default: 7d)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ("herdbeat rules test queue-depth", "What its rules would have done in the last week"),
            ("herdbeat rules test queue-depth --since 24h --json", "The last day, as JSON"),
        ),
        notes=("Nothing is changed. Edit the rules, apply them, and test again.",),
    ),
    CliCommand(
        names=("simulate",),
        summary="Simulate the next days: runs, cost, lateness, collisions",
        options=(
            DAYS,
            SEED,
            FROM.described("Start at this time (default: now): 2026-03-28 or 2h (from now)"),
            RUN_DURATION,
            FAILURES,
            RUN_COST,
            USAGE_LIMIT,
            NO_HISTORY,
            HTML,
            CONFIG,
            ZONE,
            UTC,
            JSON,
            PLAIN,
            WIDE,
        ),
        examples=(
            ("herdbeat simulate", "The next 30 days, with the recorded durations, failures and costs"),
            ("herdbeat simulate --days 7 --duration triage=20m --cost 'web-*=0.40'", "With values of your own"),
            ("herdbeat simulate --usage-limit 40/5h", "Agents whose accounts allow 40 runs in 5 hours"),
            ("herdbeat simulate --html month.html", "Also as a page with charts"),
        ),
        notes=(
            "The real scheduler runs on a temporary ledger: nothing starts, nothing is sent, nothing is changed.",
            "It begins as a new fleet would. Rules, prechecks, work sources and events are not simulated.",
            "The same seed gives the same result.",
        ),
    ),
    CliCommand(
        names=("replay",),
        summary="Recompute every stored decision, and compare",
        arguments=(Argument("SELECTOR", "TARGET, TARGET/SCHEDULE or TARGET/*", takes_name=True, many=True),),
        options=(CONFIG, JSON, WIDE),
        examples=(
            ("herdbeat replay", "Check the whole ledger, for example after an update"),
            ("herdbeat replay queue-depth --json", "One target, as JSON"),
        ),
        notes=(
            "Nothing is changed. Exit status: 0 all are the same; 1 a decision would be different today.",
            "Decisions made before the last edit of their schedule are counted but not compared.",
        ),
    ),
    CliCommand(
        names=("planner",),
        summary="List the sessions of the planner",
        arguments=(Argument("GROUP", "Group of schedules"),),
        options=(COUNT.described("Show at most N (default: 20)"), CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat planner", "The last sessions and their results"),
            ("herdbeat planner shop --json", "The sessions of one group, as JSON"),
        ),
        notes=("The planner is off unless the fleet file has planner:.",),
    ),
    CliCommand(
        names=("planner show",),
        summary="Show one session with its calls and proposals",
        module="planner",
        arguments=(Argument("SESSION", "Id of the session", required=True),),
        options=(CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(("herdbeat planner show 12", "Reasoning, calls, and the outcome of each proposal"),),
    ),
    CliCommand(
        names=("cost",),
        summary="Show what agents have cost",
        module="agents",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(
            COST_BY,
            SINCE.described("Start on this day: 30d, yesterday or 2026-03-28 (default: 6 days ago)"),
            CONFIG,
            ZONE,
            UTC,
            JSON,
            WIDE,
        ),
        examples=(
            ("herdbeat cost", "The last seven days by schedule"),
            ("herdbeat cost triage --per day --since 30d", "One target by day"),
        ),
        notes=(
            "Sources: reported by the CLI, table (prices: in the fleet file), estimated (the package genai-prices).",
            "An unknown cost is not counted as 0: such runs are counted separately.",
        ),
    ),
    CliCommand(
        names=("sessions",),
        summary="List sessions of agents, and how to open each",
        module="agents",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(COUNT.described("Show at most N sessions (default: 50)"), CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(("herdbeat sessions triage", "The sessions of one agent"),),
        notes=("A session is stored on the host that ran it.",),
    ),
    CliCommand(
        names=("changes",),
        summary="List changes: who changed what, and when",
        module="history",
        arguments=(_SELECTOR_ARGUMENT,),
        options=(SINCE, COUNT, CURSOR, CONFIG, ZONE, UTC, JSON, WIDE),
        examples=(
            ("herdbeat changes --since 8h", "Changes of the last eight hours"),
            ("herdbeat changes queue-depth", "Changes to one target"),
        ),
    ),
    CliCommand(
        names=("validate", "config validate"),
        summary="Check the configuration and show how to fix problems",
        arguments=(_PATH_ARGUMENT,),
        options=(CONFIG, STRICT, JSON, PLAIN),
        examples=(
            ("herdbeat validate", "Check the fleet of this folder"),
            ("herdbeat validate fleets/ops.yaml", "Check a specific file"),
            ("herdbeat validate --strict --json", "For CI: fail on warnings, print JSON"),
        ),
        notes=("Exit status: 0 valid, possibly with warnings; 2 errors.",),
    ),
    CliCommand(
        names=("config show",),
        summary="Show the resolved configuration and where each value is set",
        arguments=(_PATH_ARGUMENT, Argument("SELECTOR", "TARGET, TARGET/SCHEDULE or TARGET/*", takes_name=True)),
        options=(CONFIG, JSON, PLAIN, WIDE),
        examples=(
            ("herdbeat config show", "The whole fleet"),
            ("herdbeat config show triage/standup", "One schedule, including defaults"),
            ("herdbeat config show herdctl.yaml triage --json", "One target of a specific file, as JSON"),
        ),
    ),
    CliCommand(
        names=("schema",),
        summary="Print the JSON Schema of a file, for editors",
        module="config",
        arguments=(Argument("FILE_KIND", "fleet (default) or agent", choices=("fleet", "agent")),),
        options=(JSON,),
        examples=(
            ("herdbeat schema > herdbeat.schema.json", "The schema of herdbeat.yaml"),
            ("herdbeat schema agent", "The schema of an agent file"),
        ),
    ),
    CliCommand(
        names=("next",),
        summary="Show upcoming runs of the fleet or of a cron expression",
        arguments=(
            Argument(
                "EXPRESSION",
                "Cron expression, duration or time; or TARGET or TARGET/SCHEDULE (default: the whole fleet)",
                takes_name=True,
            ),
        ),
        options=(
            COUNT.described("Show N times"),
            FROM,
            UNTIL,
            ZONE.described("Use this time zone for cron expressions and for output"),
            UTC,
            BY,
            CRON.described("Show the times of this cron expression"),
            CONFIG,
            JSON,
            PLAIN,
            WIDE,
        ),
        examples=(
            ('herdbeat next "0 9 * * 1-5"', "When does this expression fire?"),
            ("herdbeat next triage/standup -n 3", "The next three times of one schedule"),
            ("herdbeat next", "The next time of every schedule"),
            ('herdbeat next "30 2 * * *" --tz Europe/Berlin --from 2026-03-28', "Times around a clock change"),
            ("herdbeat next --until 24h --by hour", "Runs per hour for the next 24 hours"),
        ),
        notes=(
            "The times of schedules include jitter, limits, active hours, and start and end dates.",
            "Intervals count from the end of a run. The preview assumes that runs succeed and take no time.",
        ),
    ),
    CliCommand(
        names=("completion",),
        summary="Print a completion script for bash, zsh or fish",
        arguments=(
            Argument(
                "SHELL",
                "bash, zsh or fish; names, runs and zones print what the scripts offer",
                choices=("bash", "zsh", "fish", "names", "runs", "zones"),
                required=True,
            ),
            Argument("PREFIX", "With names, runs or zones: print only those that begin with PREFIX"),
        ),
        options=(CONFIG,),
        examples=(
            ('eval "$(herdbeat completion bash)"', "Add to ~/.bashrc"),
            ('eval "$(herdbeat completion zsh)"', "Add to ~/.zshrc, after compinit"),
            ("herdbeat completion fish | source", "Add to config.fish"),
            ("herdbeat completion names tri", "Targets and schedules that begin with tri, and their state"),
        ),
    ),
)

_LOCAL_COMMANDS = (*INIT_COMMANDS, *_FLEET_COMMANDS, *CONTROL_COMMANDS, *_HISTORY_COMMANDS, *ADMIN_COMMANDS)
_REMOTE_NAMES = frozenset(
    {
        *("status", "list", "show", "explain", "next", "runs", "beats", "changes", "nodes", "run", "cost", "sessions"),
        *(
            "work",
            "release",
            "timeline",
            "logs",
            "ack",
            "rules test",
            "backfill",
            "create",
            "update",
            "delete",
            "apply",
        ),
        *("pause", "resume", "enable", "disable", "skip", "reset", "hint", "cancel", "retry", "pauses", "notify"),
        *("planner", "planner show"),
        *("config show", "webhook refused", "token create", "token list", "token revoke"),
    }
)
_REMOTE_URL = URL.described("Use the server at this address instead of the fleet here")


def _add_remote_options(command: CliCommand) -> CliCommand:
    """`create` has an option --url of its own: that of an endpoint."""
    if command.name not in _REMOTE_NAMES:
        return command
    address = SERVER if command.name == "create" else _REMOTE_URL
    return replace(command, options=(*command.options, address, TOKEN_FILE, CA_FILE), is_remote=True)


COMMANDS = tuple(_add_remote_options(each) for each in _LOCAL_COMMANDS)

COMMAND_GROUPS: dict[str, str] = {
    "agent": "Try an agent",
    "config": "Check and show the configuration",
    "db": "Back up, restore, check and copy the ledger",
    "notify": "List, test, acknowledge and snooze notifications",
    "pauses": "List and cancel planned pauses",
    "planner": "Show what the planner has analysed and proposed",
    "rules": "Test rules on the history of a schedule",
    "service": "Run the fleet as a systemd service of this user",
    "token": "Create, list and revoke tokens of the server",
    "webhook": "Test webhooks, and list refused calls",
}
"""First words of two-word commands."""
