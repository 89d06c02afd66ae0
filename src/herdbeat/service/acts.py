"""What can be asked of schedules, as values: the same for the terminal, the socket, Python and whoever comes later."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from herdbeat.domain.change import What
from herdbeat.domain.codec import from_json, to_json
from herdbeat.errors import UsageError
from herdbeat.governor.wishes import Wish
from herdbeat.triggers import from_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """By whom, and why."""

    who: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing(Asked):
    """Hold, until a moment or until somebody resumes."""

    what: ClassVar[What] = What.PAUSE
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming(Asked):
    what: ClassVar[What] = What.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabling(Asked):
    what: ClassVar[What] = What.DISABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabling(Asked):
    what: ClassVar[What] = What.ENABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinting(Asked):
    """A pace in seconds or a moment, for so many seconds. The numbers are checked where the hint is made."""

    what: ClassVar[What] = What.HINT
    every: float | None = None
    at: datetime | None = None
    lasts: float | None = None

    @property
    def wish(self) -> Wish:
        return Wish(origin=self.who, every=self.every, at=self.at, lasts=self.lasts, reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing(Asked):
    """End the hints: a person all of them, a machine those of its own rank and below."""

    what: ClassVar[What] = What.CLEAR_HINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Resetting(Asked):
    """Forget the failures, and leave the quarantine if that is possible."""

    what: ClassVar[What] = What.RESET


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipping(Asked):
    """Let the next so many beats pass; 0 takes the wish back."""

    what: ClassVar[What] = What.SKIP
    count: int = 1


Act = Pausing | Resuming | Disabling | Enabling | Hinting | Clearing | Resetting | Skipping

_KINDS: dict[str, type[Any]] = {
    each.what: each for each in (Pausing, Resuming, Disabling, Enabling, Hinting, Clearing, Resetting, Skipping)
}


def act_to_json(act: Act) -> dict[str, object]:
    return {"what": act.what, **to_json(act)}


def act_from_json(data: object) -> Act:
    """Raises UsageError for what is none."""
    if not isinstance(data, Mapping) or data.get("what") not in _KINDS:
        raise UsageError("The act names nothing that can be done.", hint=f'Send "what": {", ".join(_KINDS)}.')
    fields = {str(key): value for key, value in data.items() if key != "what"}
    try:
        act: Act = from_json(_KINDS[data["what"]], fields, from_options)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"The act cannot be read: {error}.", hint='Send "who" and its other fields.') from error
    if not act.who:
        raise UsageError("The act does not say who wants it.", hint='Send "who", such as "human:you".')
    return act
