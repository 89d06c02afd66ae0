"""Every problem of every file, collected on the way."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from herdbeat.codes import Code
from herdbeat.config.places import cron_offset, place_inside
from herdbeat.errors import CronParseError, HerdbeatError, Place, Problem, Severity, TemplateError
from herdbeat.located import Located


class Misfit(HerdbeatError):
    """A value that does not fit its key. `problem_code` is its code: there is one class for all of them."""

    def __init__(self, code: Code, message: str, *, hint: str = "", where: Place | None = None) -> None:
        super().__init__(message, hint=hint, where=where)
        self.problem_code = code


@dataclass(slots=True)
class Report:
    """What is wrong so far. Files named in `foreign` were written for another tool, and are judged mildly.

    `is_mild` says that the first file was such a one: then nobody is asked for keys which only we have.
    `folders` are those whose files were listed: another one may come into them.
    `homes` knows where a key belongs that stands in the wrong place. `errors` counts; compare it before and
    after a part to learn whether that part may be used. A problem without a hint gets the mend of its code.
    """

    sources: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    homes: Mapping[str, str] = field(default_factory=dict)
    is_mild: bool = False
    errors: int = 0
    _problems: dict[Problem, None] = field(default_factory=dict)

    def error(self, code: Code, message: str, where: Place | None, hint: str = "") -> None:
        self._tell(code, message, where, hint, Severity.ERROR)

    def warning(self, code: Code, message: str, where: Place | None, hint: str = "") -> None:
        self._tell(code, message, where, hint, Severity.WARNING)

    def misfit(self, error: HerdbeatError, node: Located, severity: Severity = Severity.ERROR) -> None:
        """Report an error that was raised while reading the node."""
        code = error.problem_code if isinstance(error, Misfit) else error.code
        where = error.where or self._within(node, error)
        self._tell(code, error.message, where, error.hint, severity)

    def is_foreign(self, place: Place) -> bool:
        return place.file in self.foreign

    def in_file_order(self) -> tuple[Problem, ...]:
        """Files in the order in which they were opened, lines from the top."""
        order = {file: index for index, file in enumerate(self.sources)}
        return tuple(sorted(self._problems, key=lambda problem: _position(problem, order)))

    def _tell(self, code: Code, message: str, where: Place | None, hint: str, severity: Severity) -> None:
        """Each problem is shown once, but counted every time: many agents may inherit one broken default."""
        hint = hint or code.meaning.mend
        self._problems[Problem(code=code, message=message, where=where, hint=hint, severity=severity)] = None
        self.errors += severity is Severity.ERROR

    def _within(self, node: Located, error: HerdbeatError) -> Place:
        """The part of the value that is wrong, if the error knows it."""
        source = self.sources.get(node.place.file, "")
        if isinstance(error, TemplateError):
            return place_inside(node, error.offset, error.width, source)
        if isinstance(error, CronParseError):
            offset = cron_offset(str(node.value), error.field, error.token)
            return node.place if offset is None else place_inside(node, offset, len(error.token or ""), source)
        return node.place


def _position(problem: Problem, order: Mapping[str, int]) -> tuple[int, int, int]:
    where = problem.where
    if where is None:
        return (-1, 0, 0)
    return (order.get(where.file, len(order)), where.line, where.column)
