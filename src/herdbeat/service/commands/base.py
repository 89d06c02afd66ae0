"""What can be asked of schedules, as values: the same for the terminal, the socket, Python and whoever comes later."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.codec import from_json, to_json
from herdbeat.errors import UsageError
from herdbeat.governor.hints import HintRequest
from herdbeat.triggers import load_trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """By whom, and why."""

    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedules(Command):
    """Hold, until a moment or until somebody resumes."""

    what: ClassVar[ChangeKind] = ChangeKind.PAUSE
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSchedules(Command):
    what: ClassVar[ChangeKind] = ChangeKind.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableSchedules(Command):
    what: ClassVar[ChangeKind] = ChangeKind.DISABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableSchedules(Command):
    what: ClassVar[ChangeKind] = ChangeKind.ENABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSchedules(Command):
    """A pace in seconds or a moment, for so many seconds. The numbers are checked where the hint is made."""

    what: ClassVar[ChangeKind] = ChangeKind.HINT
    every: float | None = None
    at: datetime | None = None
    lasts: float | None = None

    @property
    def hint_request(self) -> HintRequest:
        return HintRequest(origin=self.who, every=self.every, at=self.at, lasts=self.lasts, reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearHints(Command):
    """End the hints: a person all of them, a machine those of its own rank and below."""

    what: ClassVar[ChangeKind] = ChangeKind.CLEAR_HINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSchedules(Command):
    """Forget the failures, and leave the quarantine if that is possible."""

    what: ClassVar[ChangeKind] = ChangeKind.RESET


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipBeats(Command):
    """Let the next so many beats pass; 0 takes the wish back."""

    what: ClassVar[ChangeKind] = ChangeKind.SKIP
    count: int = 1


ScheduleCommand = (
    PauseSchedules
    | ResumeSchedules
    | DisableSchedules
    | EnableSchedules
    | HintSchedules
    | ClearHints
    | ResetSchedules
    | SkipBeats
)

_COMMAND_TYPES: dict[str, type[Any]] = {
    each.what: each
    for each in (
        PauseSchedules,
        ResumeSchedules,
        DisableSchedules,
        EnableSchedules,
        HintSchedules,
        ClearHints,
        ResetSchedules,
        SkipBeats,
    )
}


def command_to_json(command: ScheduleCommand) -> dict[str, object]:
    return {"what": command.what, **to_json(command)}


def command_from_json(data: object) -> ScheduleCommand:
    """Raises UsageError for what is none."""
    if not isinstance(data, Mapping) or data.get("what") not in _COMMAND_TYPES:
        raise UsageError("The act names nothing that can be done.", hint=f'Send "what": {", ".join(_COMMAND_TYPES)}.')
    fields = {str(key): value for key, value in data.items() if key != "what"}
    try:
        command: ScheduleCommand = from_json(_COMMAND_TYPES[data["what"]], fields, load_trigger)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"The act cannot be read: {error}.", hint='Send "who" and its other fields.') from error
    if not command.who:
        raise UsageError("The act does not say who wants it.", hint='Send "who", such as "human:you".')
    return command
