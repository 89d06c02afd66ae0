"""Every problem code: a stable identifier for programs, with title, cause and fix for people.

Codes are part of the public contract: the CLI's `--json`, the API's problem documents and the page
`docs/reference/problems.md` use them. New codes may be added; existing ones are never renamed.
"""

from enum import StrEnum
from typing import NamedTuple


class CodeInfo(NamedTuple):
    """The human-readable side of a code: one line each for title, cause and fix."""

    title: str
    cause: str
    fix: str


class Code(StrEnum):
    """Identifies one kind of problem. `Code.X.info` has its description."""

    # the file as text
    UNREADABLE_FILE = "unreadable_file"
    FILE_NOT_FOUND = "file_not_found"
    NO_CONFIG = "no_config"
    YAML_SYNTAX = "yaml_syntax"
    YAML_LIMIT = "yaml_limit"
    DUPLICATE_KEY = "duplicate_key"
    UNDEFINED_VARIABLE = "undefined_variable"
    # the keys
    UNKNOWN_KEY = "unknown_key"
    MISSING_KEY = "missing_key"
    CONFLICTING_KEYS = "conflicting_keys"
    WRONG_TYPE = "wrong_type"
    INVALID_VALUE = "invalid_value"
    INVALID_NAME = "invalid_name"
    DUPLICATE_NAME = "duplicate_name"
    UNKNOWN_TARGET = "unknown_target"
    FLEET_CYCLE = "fleet_cycle"
    # the times
    INVALID_INTERVAL = "invalid_interval"
    INVALID_CRON = "invalid_cron"
    NEVER_FIRES = "never_fires"
    INVALID_TIMEZONE = "invalid_timezone"
    INVALID_TIME = "invalid_time"
    LIMITS_CROSSED = "limits_crossed"
    # the prompts
    INVALID_TEMPLATE = "invalid_template"
    UNKNOWN_TEMPLATE_NAME = "unknown_template_name"
    # warnings: the file loads, and means something the reader should know
    DEPRECATED_KEY = "deprecated_key"
    NOT_SERVED = "not_served"
    CHANGED_MEANING = "changed_meaning"
    NO_BUDGET = "no_budget"
    NOT_YET = "not_yet"
    BLOCKED_ADDRESS = "blocked_address"
    # requests
    USAGE = "usage"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    MISSING_EXTRA = "missing_extra"
    # running
    SCHEDULER = "scheduler"
    TRIGGER_FAILED = "trigger_failed"
    SHUTDOWN_TIMED_OUT = "shutdown_timed_out"
    STORE_UNAVAILABLE = "store_unavailable"
    CLAIM_LOST = "claim_lost"
    RUNNER_FAILED = "runner_failed"
    WORK_SOURCE_FAILED = "work_source_failed"
    PLANNER_FAILED = "planner_failed"

    @property
    def info(self) -> CodeInfo:
        return _CODE_INFO[self]


_CODE_INFO: dict[Code, CodeInfo] = {
    Code.UNREADABLE_FILE: CodeInfo(
        "The file cannot be read",
        "The file exists, but it is not text in UTF-8, or this user may not read it.",
        "Save it as UTF-8, or mend its permissions.",
    ),
    Code.FILE_NOT_FOUND: CodeInfo(
        "The file does not exist",
        "A path in the configuration, or on the command line, leads nowhere.",
        "Correct the path. Paths in a file are relative to that file.",
    ),
    Code.NO_CONFIG: CodeInfo(
        "No configuration was found",
        "There is no herdbeat.yaml, herdctl.yaml or .agentd/ here or in any folder above.",
        "Begin with herdbeat init, look around first with herdbeat up --demo, or name one with --config.",
    ),
    Code.YAML_SYNTAX: CodeInfo(
        "The YAML cannot be parsed",
        "The text breaks YAML's grammar at the place shown; a tab, a colon or a quote is the usual cause.",
        "Mend the line shown, or the one above it.",
    ),
    Code.YAML_LIMIT: CodeInfo(
        "The file is past a safety limit",
        "A configuration file may be at most 1 MiB, 50 levels deep, and may not expand its aliases past a bound.",
        "Split the file, or write the repeated part out.",
    ),
    Code.DUPLICATE_KEY: CodeInfo(
        "A key is written twice",
        "YAML would keep the last one silently; herdbeat refuses to guess which was meant.",
        "Remove one of the two.",
    ),
    Code.UNDEFINED_VARIABLE: CodeInfo(
        "An environment variable is not set",
        "The file names ${NAME}, and neither the environment nor the .env beside the file has it.",
        "Set it, or give a default: ${NAME:-default}.",
    ),
    Code.UNKNOWN_KEY: CodeInfo(
        "The key is not known here",
        "A typing mistake, or a key that belongs one level higher or lower.",
        "Use the suggested key, or look it up in the configuration reference.",
    ),
    Code.MISSING_KEY: CodeInfo(
        "A key is missing", "The entry cannot work without it.", "Add the key that the message names."
    ),
    Code.CONFLICTING_KEYS: CodeInfo(
        "Two keys exclude each other", "Only one of them can say what happens.", "Keep the one you mean."
    ),
    Code.WRONG_TYPE: CodeInfo(
        "The value has the wrong type",
        "For example a list where a text is expected, or a number written in quotes.",
        "Write the type that the message names.",
    ),
    Code.INVALID_VALUE: CodeInfo(
        "The value is not one of those allowed",
        "It has the right type, but no meaning here.",
        "Choose one of the values that the message lists.",
    ),
    Code.INVALID_NAME: CodeInfo(
        "The name cannot be used",
        "Names start with a letter or a digit and go on with letters, digits, - and _.",
        "Choose a name of that form.",
    ),
    Code.DUPLICATE_NAME: CodeInfo(
        "Two things have one name",
        "Names are how history, state and commands find a target or schedule, so they must differ.",
        "Rename one of them.",
    ),
    Code.UNKNOWN_TARGET: CodeInfo(
        "The target does not exist",
        "A workflow names an agent that no file of the fleet defines.",
        "Correct the name, or add the agent.",
    ),
    Code.FLEET_CYCLE: CodeInfo(
        "A fleet includes itself",
        "Following the fleets: entries leads back to a file that is already open.",
        "Remove one of the references in the chain shown.",
    ),
    Code.INVALID_INTERVAL: CodeInfo(
        "The duration cannot be read",
        "A duration is one whole number and one unit: s, m, h or d.",
        'Write for example "30s", "5m", "1h", "1d"; "90m" instead of "1h30m".',
    ),
    Code.INVALID_CRON: CodeInfo(
        "The cron expression cannot be read",
        "One of its five fields (or six, with seconds first) has a value outside its range or form.",
        "Mend the field that the message names.",
    ),
    Code.NEVER_FIRES: CodeInfo(
        "The schedule can never fire",
        "Its date does not exist in any year, such as 30 February, or it lies outside its own limits.",
        "Choose a date that exists, or widen the limits.",
    ),
    Code.INVALID_TIMEZONE: CodeInfo(
        "The time zone is not known",
        "Zones are written by their IANA names.",
        'Write for example "Europe/Berlin" or "UTC".',
    ),
    Code.INVALID_TIME: CodeInfo(
        "The time cannot be read",
        "A moment is written as RFC 3339 with its offset, so that it means one instant everywhere.",
        'Write for example "2026-12-01T09:00:00Z" or "2026-12-01T09:00:00+01:00".',
    ),
    Code.LIMITS_CROSSED: CodeInfo(
        "A lower limit is above its upper limit", "No instant can obey both.", "Lower the one or raise the other."
    ),
    Code.INVALID_TEMPLATE: CodeInfo(
        "The prompt's template cannot be read",
        "A {{ is not closed, or has no name inside.",
        "Close it, or write \\{{ for braces that are meant as text.",
    ),
    Code.UNKNOWN_TEMPLATE_NAME: CodeInfo(
        "The prompt names something it cannot have",
        "The name does not exist, or this kind of trigger never provides it.",
        "Use one of the names listed in the prompt reference, or \\{{ for text.",
    ),
    Code.DEPRECATED_KEY: CodeInfo(
        "The key has a newer name",
        "It still works and means the same.",
        "Write the newer name when you next edit the file.",
    ),
    Code.NOT_SERVED: CodeInfo(
        "The key has no effect",
        "It belongs to another tool's file and names something herdbeat does not do.",
        "Remove it if it misleads.",
    ),
    Code.CHANGED_MEANING: CodeInfo(
        "The value means something else here than in the tool it comes from",
        "herdbeat keeps what that tool's documents promise, and what cron means, where its code did not.",
        "Read the message; nothing needs to be done if it is what you want.",
    ),
    Code.NO_BUDGET: CodeInfo(
        "The agent has no budget",
        "A scheduled agent can spend without end.",
        "Set budget: { runs_per_day: … } on the agent, on its schedules, in defaults, or at the top of the fleet file.",
    ),
    Code.NOT_YET: CodeInfo(
        "The key does not work yet",
        "herdbeat knows the key, checks it and stores it, but this version does not act on it.",
        "Do not rely on it in this version.",
    ),
    Code.BLOCKED_ADDRESS: CodeInfo(
        "The endpoint may not be reached",
        "Endpoints reach public addresses only, unless the fleet allows more.",
        "Add the address to egress.allow in the fleet file.",
    ),
    Code.USAGE: CodeInfo(
        "The command cannot be understood",
        "An option or argument is missing, unknown or has the wrong form.",
        "Run the command with --help.",
    ),
    Code.NOT_FOUND: CodeInfo(
        "There is no such thing", "No target, schedule, beat or run has that name.", "Use the suggested name."
    ),
    Code.CONFLICT: CodeInfo(
        "The request does not fit the present state",
        "Something else changed it first, or holds it.",
        "Look at the state again, then repeat the request.",
    ),
    Code.MISSING_EXTRA: CodeInfo(
        "An optional package is missing",
        "The feature needs a package that the base installation leaves out.",
        "Install the extra that the message names.",
    ),
    Code.SCHEDULER: CodeInfo("The scheduler refused", "The message says which rule was broken.", "Follow the message."),
    Code.TRIGGER_FAILED: CodeInfo(
        "The schedule could not be triggered",
        "Starting its run raised an error.",
        "Read the cause; the schedule keeps its next run.",
    ),
    Code.SHUTDOWN_TIMED_OUT: CodeInfo(
        "Runs were still going when the time to stop was over",
        "They took longer than the stop timeout, or their results could not be written in that time.",
        "Give a longer timeout, or cancel the runs first; if the store was away, look at the database.",
    ),
    Code.STORE_UNAVAILABLE: CodeInfo(
        "The store does not answer",
        "The database is locked, full, restarting or out of reach.",
        "herdbeat keeps trying; look at the database if it lasts.",
    ),
    Code.CLAIM_LOST: CodeInfo(
        "Another node holds the beat now",
        "This node's lease ended before its result was written.",
        "Nothing: the other node accounts for the beat.",
    ),
    Code.RUNNER_FAILED: CodeInfo(
        "The target could not be run",
        "Its command, address or function could not be started or answered wrongly.",
        "Read the message; explain shows the run.",
    ),
    Code.WORK_SOURCE_FAILED: CodeInfo(
        "The work source failed",
        "Asking for work, claiming it or reporting it went wrong.",
        "Check access to the source; it is tried again next time.",
    ),
    Code.PLANNER_FAILED: CodeInfo(
        "The planner failed",
        "The model or its server did not give a usable answer.",
        "Nothing: schedules go on with their baseline.",
    ),
}
