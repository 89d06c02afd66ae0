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
    # the rules
    INVALID_EXPRESSION = "invalid_expression"
    # warnings: the file loads, and means something the reader should know
    DEPRECATED_KEY = "deprecated_key"
    NOT_SERVED = "not_served"
    CHANGED_MEANING = "changed_meaning"
    NO_BUDGET = "no_budget"
    UNKNOWN_COST = "unknown_cost"
    NOT_YET = "not_yet"
    BLOCKED_ADDRESS = "blocked_address"
    UNKNOWN_FIELD = "unknown_field"
    # requests
    USAGE = "usage"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    MANAGED_BY_CONFIG = "managed_by_config"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    CROSS_SITE = "cross_site"
    STALE_VERSION = "stale_version"
    KEY_REUSED = "key_reused"
    TOO_MANY_REQUESTS = "too_many_requests"
    TOO_LARGE = "too_large"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    MISSING_EXTRA = "missing_extra"
    # running
    SCHEDULER = "scheduler"
    TRIGGER_FAILED = "trigger_failed"
    SHUTDOWN_TIMED_OUT = "shutdown_timed_out"
    STORE_UNAVAILABLE = "store_unavailable"
    READ_TIMEOUT = "read_timeout"
    CLAIM_LOST = "claim_lost"
    RUNNER_FAILED = "runner_failed"
    WORK_SOURCE_FAILED = "work_source_failed"

    @property
    def info(self) -> CodeInfo:
        return _CODE_INFO[self]


_CODE_INFO: dict[Code, CodeInfo] = {
    Code.UNREADABLE_FILE: CodeInfo(
        "The file cannot be read",
        "The file exists, but it is not UTF-8 text, or this user has no permission to read it.",
        "Save it as UTF-8, or fix its permissions.",
    ),
    Code.FILE_NOT_FOUND: CodeInfo(
        "The file does not exist",
        "A path in the configuration or on the command line points to a missing file.",
        "Correct the path. Paths in a file are relative to that file.",
    ),
    Code.NO_CONFIG: CodeInfo(
        "No configuration found",
        "There is no herdbeat.yaml, herdctl.yaml or .agentd/ in this directory or any parent directory.",
        "Create one with herdbeat init, name one with --config, or try the demo: herdbeat up --demo.",
    ),
    Code.YAML_SYNTAX: CodeInfo(
        "The YAML cannot be parsed",
        "The YAML syntax is invalid at the location shown, often because of a tab, a colon or a quote.",
        "Fix the line shown or the one above it.",
    ),
    Code.YAML_LIMIT: CodeInfo(
        "The file exceeds a safety limit",
        "The file is larger than 1 MiB, nested deeper than 50 levels, or its aliases expand to too many values.",
        "Split the file, or write the repeated values in full.",
    ),
    Code.DUPLICATE_KEY: CodeInfo(
        "A key is duplicated",
        "The same key appears twice in one mapping.",
        "Remove one of them.",
    ),
    Code.UNDEFINED_VARIABLE: CodeInfo(
        "An environment variable is not set",
        "The file uses ${NAME}, but neither the environment nor the .env file next to it sets the variable.",
        "Set the variable, or give a default: ${NAME:-default}.",
    ),
    Code.UNKNOWN_KEY: CodeInfo(
        "The key is unknown",
        "The key is misspelled, or it belongs at another level.",
        "Use the suggested key, or look it up in the configuration reference.",
    ),
    Code.MISSING_KEY: CodeInfo(
        "A required key is missing", "The entry needs this key.", "Add the key that the message names."
    ),
    Code.CONFLICTING_KEYS: CodeInfo(
        "Two keys cannot be used together", "They set the same thing in different ways.", "Remove one of them."
    ),
    Code.WRONG_TYPE: CodeInfo(
        "The value has the wrong type",
        "For example, a list where a string is expected, or a number in quotes.",
        "Use the type named in the message.",
    ),
    Code.INVALID_VALUE: CodeInfo(
        "The value is not allowed",
        "The value has the right type, but it is not one of the allowed values.",
        "Use one of the values listed in the message.",
    ),
    Code.INVALID_NAME: CodeInfo(
        "The name is invalid",
        "A name has at most 100 ASCII letters, digits, - and _, and starts with a letter or a digit.",
        "Choose a valid name.",
    ),
    Code.DUPLICATE_NAME: CodeInfo(
        "A name is used twice",
        "Names identify targets and schedules in the history and in commands and must be unique.",
        "Rename one of them.",
    ),
    Code.UNKNOWN_TARGET: CodeInfo(
        "The target does not exist",
        "An entry refers to a target that the fleet does not define.",
        "Correct the name or add the target.",
    ),
    Code.FLEET_CYCLE: CodeInfo(
        "A fleet includes itself",
        "The fleets: entries form a cycle.",
        "Remove one of the references shown.",
    ),
    Code.INVALID_INTERVAL: CodeInfo(
        "The duration is invalid",
        "A duration is one whole number and one unit: s, m, h or d.",
        'Write for example "30s", "5m", "1h" or "1d"; "90m" instead of "1h30m".',
    ),
    Code.INVALID_CRON: CodeInfo(
        "The cron expression is invalid",
        "One of its five fields (or six, with seconds first) is malformed or out of range.",
        "Fix the field named in the message.",
    ),
    Code.NEVER_FIRES: CodeInfo(
        "The schedule can never fire",
        "Its date exists in no year, such as 30 February, or its own limits exclude every time.",
        "Use a date that exists, or relax the limits.",
    ),
    Code.INVALID_TIMEZONE: CodeInfo(
        "The time zone is unknown",
        "Time zones are given by their IANA names.",
        'Write for example "Europe/Berlin" or "UTC".',
    ),
    Code.INVALID_TIME: CodeInfo(
        "The time is invalid",
        "A time must be in RFC 3339 format, with a UTC offset.",
        'Write for example "2026-12-01T09:00:00Z" or "2026-12-01T09:00:00+01:00".',
    ),
    Code.LIMITS_CROSSED: CodeInfo(
        "A minimum is greater than its maximum",
        "No time satisfies both limits.",
        "Lower the minimum or raise the maximum.",
    ),
    Code.INVALID_TEMPLATE: CodeInfo(
        "The prompt template is invalid",
        "A {{ is not closed, or it contains no variable name.",
        "Close it, or write \\{{ for literal braces.",
    ),
    Code.UNKNOWN_TEMPLATE_NAME: CodeInfo(
        "The prompt uses an unknown variable",
        "The variable does not exist, or this kind of trigger does not provide it.",
        "Use a variable from the prompt reference, or write \\{{ for literal braces.",
    ),
    Code.INVALID_EXPRESSION: CodeInfo(
        "The expression cannot be parsed",
        "The text is not an expression, or it names something that does not exist.",
        "Correct it at the marked place; the expression reference has the grammar and all names.",
    ),
    Code.DEPRECATED_KEY: CodeInfo(
        "The key is deprecated",
        "The key has a new name. The old one still works.",
        "Use the new name.",
    ),
    Code.NOT_SERVED: CodeInfo(
        "The key has no effect",
        "The key belongs to another tool and sets something that herdbeat does not support.",
        "Remove the key.",
    ),
    Code.CHANGED_MEANING: CodeInfo(
        "The value has a different meaning in herdbeat",
        "herdbeat follows the documentation of the other tool, and the rules of cron, where the tool's code does not.",
        "Check the message. No change is needed if this is what you want.",
    ),
    Code.NO_BUDGET: CodeInfo(
        "The agent has no budget",
        "Nothing limits what the scheduled agent spends.",
        "Set budget: { runs_per_day: … } on the agent, on its schedules, in defaults, or at the top of the fleet file.",
    ),
    Code.UNKNOWN_COST: CodeInfo(
        "The cost of the agent is unknown",
        "A budget in dollars or tokens has no effect: the CLI of the agent reports neither, or no dollars for a model"
        " without a price.",
        "Set a budget in runs or tokens, add the model under prices: in the fleet file, or install the package"
        " genai-prices.",
    ),
    Code.NOT_YET: CodeInfo(
        "The key does not work yet",
        "This version checks and stores the key, but does not act on it.",
        "Do not rely on it in this version.",
    ),
    Code.BLOCKED_ADDRESS: CodeInfo(
        "The address is blocked",
        "Endpoints reach only public addresses unless the fleet allows others.",
        "Add the address to egress.allow in the fleet file.",
    ),
    Code.UNKNOWN_FIELD: CodeInfo(
        "No response has the field",
        "A rule reads a field that none of the last 50 responses of its schedule has, so it cannot be decided.",
        "Correct the name. If it is sometimes missing, ask for it first: has(response.depth) && response.depth > 9.",
    ),
    Code.USAGE: CodeInfo(
        "The command or request is invalid",
        "An option, argument, parameter or field is missing, unknown or malformed.",
        "Run the command with --help, or look up the request on the API page.",
    ),
    Code.NOT_FOUND: CodeInfo(
        "The name was not found", "No target, schedule, beat or run has that name.", "Use the suggested name."
    ),
    Code.CONFLICT: CodeInfo(
        "The request conflicts with the current state",
        "Another process changed the object or is using it.",
        "Check the current state, then repeat the request.",
    ),
    Code.MANAGED_BY_CONFIG: CodeInfo(
        "A file defines this",
        "The request wants to change or delete a target or schedule that the fleet's files define.",
        "Change the file, which the problem names with its line, and apply it.",
    ),
    Code.UNAUTHENTICATED: CodeInfo(
        "The request has no valid credentials",
        "There is no token, or the token is unknown, expired or revoked.",
        "Create one with herdbeat token create, and send it as Authorization: Bearer TOKEN.",
    ),
    Code.FORBIDDEN: CodeInfo(
        "The request is not allowed",
        "The token does not have the scope that the request needs, or it is limited to other schedules.",
        "Use a token with that scope, or do it on the machine that runs the fleet.",
    ),
    Code.CROSS_SITE: CodeInfo(
        "The request comes from another site",
        "The Host or Origin header names another site, or the CSRF token of the page is missing.",
        "Use the address that the server prints. Programs send a token; browsers use the server's own pages.",
    ),
    Code.STALE_VERSION: CodeInfo(
        "The object has changed since it was read",
        "The If-Match header names another version than the current one.",
        "Read the object again, and repeat the change with its new ETag.",
    ),
    Code.KEY_REUSED: CodeInfo(
        "The Idempotency-Key belongs to another request",
        "The key was sent before with another method, path or body, or it is that of another sender.",
        "Send a new key for a new request. Repeat a request with the same path and body, and the same token.",
    ),
    Code.TOO_MANY_REQUESTS: CodeInfo(
        "There were too many requests",
        "Too many logins failed from this address, or too many streams or large requests are open.",
        "Wait as long as Retry-After says.",
    ),
    Code.TOO_LARGE: CodeInfo(
        "The request is too large",
        "The body is longer than the server accepts.",
        "Send less, for example a shorter text.",
    ),
    Code.METHOD_NOT_ALLOWED: CodeInfo(
        "The path does not have this method",
        "The path exists, and is used with another method.",
        "Use one of the methods in the Allow header.",
    ),
    Code.NOT_ACCEPTABLE: CodeInfo(
        "The format is unknown",
        "The Accept header or the format parameter names a format that this path does not have.",
        "Use application/json; lists also come as application/jsonl and text/csv.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: CodeInfo(
        "The body has another type than JSON",
        "The Content-Type header is missing, or names another type. curl -d sends a form unless it is told otherwise.",
        "Send the header Content-Type: application/json.",
    ),
    Code.MISSING_EXTRA: CodeInfo(
        "An optional package is missing",
        "The feature needs a package that the base installation does not include.",
        "Install the extra named in the message.",
    ),
    Code.SCHEDULER: CodeInfo(
        "The scheduler rejected the request", "The message gives the reason.", "Follow the message."
    ),
    Code.TRIGGER_FAILED: CodeInfo(
        "The schedule could not be triggered",
        "An error occurred while its run was started.",
        "Fix the cause given in the message; the next run of the schedule is not affected.",
    ),
    Code.SHUTDOWN_TIMED_OUT: CodeInfo(
        "The stop timed out",
        "Runs were still active after the stop timeout, or their results could not be written in time.",
        "Use a longer timeout, or cancel the runs first. If the store was unavailable, check the database.",
    ),
    Code.STORE_UNAVAILABLE: CodeInfo(
        "The store is unavailable",
        "The database is locked, full, restarting or unreachable.",
        "herdbeat keeps trying; check the database if the problem persists.",
    ),
    Code.READ_TIMEOUT: CodeInfo(
        "The answer takes too long to read",
        "The server reads the ledger for at most a second at a time, so that no reader slows the scheduler.",
        "Ask for less: one schedule, a shorter period or a smaller limit.",
    ),
    Code.CLAIM_LOST: CodeInfo(
        "Another node has taken over the beat",
        "This node's lease expired before the result was written.",
        "No action is needed: the other node records the outcome of the beat.",
    ),
    Code.RUNNER_FAILED: CodeInfo(
        "The target could not be run",
        "Its command, endpoint or function could not be started, or returned an invalid response.",
        "Fix the cause given in the message; herdbeat explain shows the run.",
    ),
    Code.WORK_SOURCE_FAILED: CodeInfo(
        "The work source failed",
        "Fetching, claiming or reporting work failed.",
        "Check access to the source; herdbeat tries again at the next beat.",
    ),
}
