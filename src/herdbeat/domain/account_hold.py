"""Accounts that have reached their usage limit: how long they are held, and whom a hold concerns.

An account is a login of an agent CLI. Targets that use the same login share its limit.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from herdbeat.domain.agent_run import LimitReached

MIN_HOLD = timedelta(seconds=60)
"""A reset in the past: the clocks disagree, or the CLI was slow. Asking again at once would be the same error."""
MAX_HOLD = timedelta(days=8)
"""The longest limit that any of the CLIs has is a week. Anything later is a mistake or a trick."""
FIRST_UNSTATED_HOLD = timedelta(minutes=15)
MAX_UNSTATED_HOLD = timedelta(hours=4)


class AccountUse(NamedTuple):
    """The login that the runs of a schedule use, and the model; empty if it is not known."""

    account: str
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountHold:
    """An account that is not used until a moment, or only one of its models. `run_id` is the run that was refused.

    `streak` counts the holds without a stated end since the last success. An open hold has no `released_at`.
    """

    id: int = 0
    account: str
    model: str = ""
    began_at: datetime
    until: datetime
    stated: bool = False
    streak: int = 0
    run_id: int = 0
    text: str = ""
    released_at: datetime | None = None
    released_by: str = ""

    def concerns(self, use: AccountUse) -> bool:
        return self.account == use.account and limits_model(self.model, use.model)


def limits_model(limited: str, model: str) -> bool:
    """Return whether a limit of `limited` (such as "opus") concerns runs with `model` ("claude-opus-4-8").

    A run whose model is unknown is concerned: it would use the CLI's default, which is most likely the limited one.
    """
    return not limited or not model or _model_key(limited) in _model_key(model)


def clamp_reset(reset_at: datetime, now: datetime) -> datetime:
    """Return the reset within what can be true: not before a minute from now, not after eight days."""
    return min(max(reset_at, now + MIN_HOLD), now + MAX_HOLD)


def hold_until(limit: "LimitReached", now: datetime, unstated_holds: int = 0) -> datetime:
    """Return when the account may be used again. Without a stated reset: 15 min, doubled by earlier holds up to 4 h."""
    if limit.reset_at is not None:
        return clamp_reset(limit.reset_at, now)
    doubled = FIRST_UNSTATED_HOLD * (1 << min(max(unstated_holds, 0), 10))
    return now + min(doubled, MAX_UNSTATED_HOLD)


def _model_key(model: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
