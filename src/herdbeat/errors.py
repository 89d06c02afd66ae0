"""The error tree. Every error says what happened, where, and how to fix it.

HerdbeatError                    message · where · hint
├── ConfigError                  the files are wrong; carries every problem at once
├── UsageError                   the call is wrong
│   └── InvalidSpec              a target or a schedule from outside has a value that no file may have
├── NotFound · Conflict          the request is wrong
│   └── StateLocked              another process holds the state directory
├── SchedulerError               the documented family; each class carries its own data
│   ├── IntervalParseError · CronParseError, CronNeverFires · TimeParseError, TimezoneError
│   ├── TemplateError, UnknownTemplateName · ExpressionError
│   └── ScheduleTriggerError · SchedulerShutdownError
├── StoreUnavailable, StoreLocked  transient: the loop backs off and tries again
│   └── ReadTimeout              a read took too long and was stopped; ask for less
├── ClaimLost                    this node's fence is stale: its result is dropped and logged
├── RunnerError · WorkSourceError  `.permanent` says whether another attempt can help
└── MissingExtra                 names the package extra to install
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from herdbeat.error_codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A position in a configuration file: line and column (from 1), and the keys that lead to it.

    `path` is for people and names list entries where they have a name: agents.scout. `pointer` is for
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
    """One fault in a configuration: its code, the message, where it is, and how to fix it."""

    code: Code
    message: str
    where: SourceLocation | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR


def truncate_for_message(value: str, max_length: int = 40) -> str:
    """Return a value as one printable line of at most `max_length` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in value[: 4 * max_length]).split())
    return line if len(line) <= max_length and len(value) <= 4 * max_length else line[: max_length - 3] + "…"


def did_you_mean_suffix(suggestion: str | None) -> str:
    """Return the end of a message about an unknown word: the suggestion if there is one, else a full stop."""
    return f'; did you mean "{suggestion}"?' if suggestion else "."


class HerdbeatError(Exception):
    """Base class of every error that herdbeat raises. `str()` is the message; `hint` says what to do next."""

    code: ClassVar[Code] = Code.SCHEDULER
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, where: SourceLocation | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint


class ConfigError(HerdbeatError):
    """The configuration is invalid. `problems` has every fault, in file order."""

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


class InvalidSpec(UsageError):
    """A target or a schedule from outside has a value that no file may have.

    `problem` says what is wrong with it, `pointer` where it is in the request (RFC 6901), `value` what it is there.
    """

    http_status = 422

    def __init__(self, problem: Problem, pointer: str, value: str) -> None:
        super().__init__(problem.message, hint=problem.hint)
        self.problem = problem
        self.pointer = pointer
        self.value = value


class NotFound(HerdbeatError):
    code = Code.NOT_FOUND
    exit_status = 3
    http_status = 404


class Conflict(HerdbeatError):
    code = Code.CONFLICT
    http_status = 409


class StateLocked(Conflict):
    """Another process holds the state directory, and does not answer or must not be disturbed."""


class SchedulerError(HerdbeatError):
    """Base class of the errors that the documented scheduler API raises."""


class _InvalidText(SchedulerError):
    """A text in the configuration or in a request cannot be parsed."""

    exit_status = 2
    http_status = 422


class IntervalParseError(_InvalidText):
    """A duration cannot be parsed; `interval` is the text."""

    code = Code.INVALID_INTERVAL

    def __init__(self, message: str, interval: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.interval = interval


class CronParseError(_InvalidText):
    """A cron expression cannot be parsed; `field` and `token` name the invalid part."""

    code = Code.INVALID_CRON

    def __init__(
        self, message: str, expression: str, *, field: str | None = None, token: str | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.expression = expression
        self.field = field
        self.token = token


class CronNeverFires(CronParseError):
    """The expression is valid, but its date exists in no year."""

    code = Code.NEVER_FIRES


class TimeParseError(_InvalidText):
    """A timestamp cannot be parsed; `value` is the text."""

    code = Code.INVALID_TIME

    def __init__(self, message: str, value: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.value = value


class TimezoneError(TimeParseError):
    """The time zone does not exist."""

    code = Code.INVALID_TIMEZONE


class TemplateError(_InvalidText):
    """A prompt template is invalid; `offset` and `width` locate the fault in its text."""

    code = Code.INVALID_TEMPLATE

    def __init__(self, message: str, *, offset: int, width: int = 2, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offset = offset
        self.width = width


class UnknownTemplateName(TemplateError):
    """A template names a variable that this kind of schedule never has."""

    code = Code.UNKNOWN_TEMPLATE_NAME

    def __init__(self, message: str, *, name: str, offset: int, width: int, hint: str = "") -> None:
        super().__init__(message, offset=offset, width=width, hint=hint)
        self.name = name


class ExpressionError(_InvalidText):
    """An expression of a rule or a filter cannot be parsed; `offset` and `width` locate the fault in its text."""

    code = Code.INVALID_EXPRESSION

    def __init__(self, message: str, *, offset: int, width: int = 1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offset = offset
        self.width = width


class ScheduleTriggerError(SchedulerError):
    """The run of a schedule could not be started."""

    code = Code.TRIGGER_FAILED

    def __init__(self, message: str, agent_name: str, schedule_name: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.agent_name = agent_name
        self.schedule_name = schedule_name


class SchedulerShutdownError(SchedulerError):
    """The stop timeout passed before all runs had ended; `running_job_count` runs were still active.

    `unwritten_result_count` runs had ended, but their results could not be written because the store was unavailable.
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


class ReadTimeout(StoreUnavailable):
    """A read of the ledger took too long and was stopped: it would have held back the writer's housekeeping."""

    code = Code.READ_TIMEOUT

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The ledger was read for more than {seconds:g} s, and the read was stopped.", hint=self.code.info.fix
        )


class StoreLocked(StoreUnavailable):
    """Another program holds a lock of the ledger. Waiting helps, unlike with a damaged file or a refused login."""


class ClaimLost(HerdbeatError):
    code = Code.CLAIM_LOST
    http_status = 409


class _RetryableError(HerdbeatError):
    """An outside system failed. `permanent` is True if another attempt cannot help."""

    def __init__(self, message: str, *, permanent: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class RunnerError(_RetryableError):
    code = Code.RUNNER_FAILED


class WorkSourceError(_RetryableError):
    code = Code.WORK_SOURCE_FAILED


def describe_extra(extra: str) -> str:
    """Return how to install an extra. Not by name from an index: herdbeat is installed from a checkout or a wheel."""
    return f'Install it, in the checkout: pipx install --force ".[{extra}]"  (in a project: pip install ".[{extra}]")'


class MissingExtra(HerdbeatError):
    """A feature needs an optional package that is not installed; `extra` is the name of the pip extra."""

    code = Code.MISSING_EXTRA
    http_status = 501

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional package.", hint=describe_extra(extra))
        self.extra = extra
