"""The whole error tree on one page. Every error says what happened, where, and what to do.

HerdbeatError                    message · where · hint
├── ConfigError                  the files are wrong; carries every problem at once
├── UsageError                   the call is wrong
├── NotFound · Conflict          the request is wrong
├── SchedulerError               the documented family, each with its data
│   ├── IntervalParseError · CronParseError, CronNeverFires · TimeParseError, TimezoneError
│   ├── TemplateError, UnknownTemplateName
│   └── ScheduleTriggerError · SchedulerShutdownError
├── StoreUnavailable             try again: the loop backs off
├── ClaimLost                    our fence is stale: drop our result, log it
├── RunnerError · WorkSourceError  `.permanent` says whether trying again can help
├── PlannerError                 log it; the baseline goes on
└── MissingExtra                 names what to install
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from herdbeat.error_codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """Where something is written: file, line and column (from 1), and the path of keys that leads there.

    `path` names the entries of a list where it can, for people: agents.scout. `pointer` counts them, for
    programs: /agents/0, a JSON Pointer (RFC 6901) into the file.
    """

    file: str
    line: int
    column: int
    width: int = 1
    path: str = ""
    pointer: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a configuration: code, words, place, mend."""

    code: Code
    message: str
    where: SourceLocation | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR


def truncate_for_message(value: str, max_length: int = 40) -> str:
    """A value as it goes into a message: one printable line, not a page."""
    line = " ".join("".join(char if char.isprintable() else " " for char in value[: 4 * max_length]).split())
    return line if len(line) <= max_length and len(value) <= 4 * max_length else line[: max_length - 3] + "…"


def did_you_mean_suffix(suggestion: str | None) -> str:
    """How a sentence about an unknown word ends: with the word that was probably meant, if there is one."""
    return f'; did you mean "{suggestion}"?' if suggestion else "."


class HerdbeatError(Exception):
    """What every error of ours is. `str()` is the message; `hint` is the next thing to do."""

    code: ClassVar[Code] = Code.SCHEDULER
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, where: SourceLocation | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint


class ConfigError(HerdbeatError):
    """The files are wrong. `problems` has every one of them, in file order."""

    code = Code.INVALID_VALUE
    exit_status = 2
    http_status = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(first.message + more, where=first.where, hint=first.hint)
        self.problems = tuple(problems)


class UsageError(HerdbeatError):
    code = Code.USAGE
    exit_status = 2
    http_status = 400


class NotFound(HerdbeatError):
    code = Code.NOT_FOUND
    exit_status = 3
    http_status = 404


class Conflict(HerdbeatError):
    code = Code.CONFLICT
    http_status = 409


class SchedulerError(HerdbeatError):
    """The family that the documented scheduler module names."""


class IntervalParseError(SchedulerError):
    """A duration that cannot be read; `interval` is what was written."""

    code = Code.INVALID_INTERVAL
    exit_status = 2
    http_status = 422

    def __init__(self, message: str, interval: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.interval = interval


class CronParseError(SchedulerError):
    """A cron expression that cannot be read; `field` and `token` point at the part that is wrong."""

    code = Code.INVALID_CRON
    exit_status = 2
    http_status = 422

    def __init__(
        self, message: str, expression: str, *, field: str | None = None, token: str | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.expression = expression
        self.field = field
        self.token = token


class CronNeverFires(CronParseError):
    """The expression can be read, but no calendar has its date."""

    code = Code.NEVER_FIRES


class TimeParseError(SchedulerError):
    """A moment that cannot be read; `value` is what was written."""

    code = Code.INVALID_TIME
    exit_status = 2
    http_status = 422

    def __init__(self, message: str, value: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.value = value


class TimezoneError(TimeParseError):
    """A time zone that nobody knows."""

    code = Code.INVALID_TIMEZONE


class TemplateError(SchedulerError):
    """A prompt template that cannot be read; `offset` is where in its text."""

    code = Code.INVALID_TEMPLATE
    exit_status = 2
    http_status = 422

    def __init__(self, message: str, *, offset: int, width: int = 2, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offset = offset
        self.width = width


class UnknownTemplateName(TemplateError):
    """A template names a value that it can never have."""

    code = Code.UNKNOWN_TEMPLATE_NAME

    def __init__(self, message: str, *, name: str, offset: int, width: int, hint: str = "") -> None:
        super().__init__(message, offset=offset, width=width, hint=hint)
        self.name = name


class ScheduleTriggerError(SchedulerError):
    """A schedule whose run could not be started; names the agent and the schedule."""

    code = Code.TRIGGER_FAILED

    def __init__(self, message: str, agent_name: str, schedule_name: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.agent_name = agent_name
        self.schedule_name = schedule_name


class SchedulerShutdownError(SchedulerError):
    """A stop whose time was over before its runs were; says how many were still running.

    `unwritten_result_count` is for a store that was away: so many runs had ended, and the ledger does not know it.
    """

    code = Code.SHUTDOWN_TIMED_OUT

    def __init__(
        self, message: str, *, timed_out: bool, running_job_count: int, unwritten_result_count: int = 0
    ) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.running_job_count = running_job_count
        self.unwritten_result_count = unwritten_result_count


class StoreUnavailable(HerdbeatError):
    code = Code.STORE_UNAVAILABLE
    exit_status = 7
    http_status = 503


class ClaimLost(HerdbeatError):
    code = Code.CLAIM_LOST
    http_status = 409


class RunnerError(HerdbeatError):
    code = Code.RUNNER_FAILED

    def __init__(self, message: str, *, permanent: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class WorkSourceError(HerdbeatError):
    code = Code.WORK_SOURCE_FAILED

    def __init__(self, message: str, *, permanent: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class PlannerError(HerdbeatError):
    code = Code.PLANNER_FAILED


class MissingExtra(HerdbeatError):
    """A feature whose optional package is not installed; `extra` is what to ask pip for."""

    code = Code.MISSING_EXTRA
    http_status = 501

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional package.", hint=f"pip install 'herdbeat[{extra}]'")
        self.extra = extra
