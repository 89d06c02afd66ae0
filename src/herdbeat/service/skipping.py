"""Letting the next beats of a schedule pass: one act of many, with its words."""

from datetime import datetime

from herdbeat.domain.change import Facts
from herdbeat.errors import UsageError
from herdbeat.scheduler.skip import skip
from herdbeat.service.acts import Skipping
from herdbeat.service.objects import moment_or_null
from herdbeat.service.steps import Step
from herdbeat.store.base import Standing, Transaction

MOST = 1_000
"""More than that is a pause."""


def refuse_nonsense(act: Skipping) -> None:
    if not 0 <= act.count <= MOST:
        raise UsageError(f"{act.count} beats cannot be skipped.", hint=f"Write 1 to {MOST}; a pause lasts longer.")


def let_pass(tx: Transaction, act: Skipping, standing: Standing) -> Step:
    """Asking for what is wished already changes nothing."""
    if act.count == standing.skips:
        before = _facts(standing.skips)
        beats = "beat" if act.count == 1 else f"{act.count} beats"
        word = f"it skips its next {beats} already" if act.count else "nothing is to be skipped"
        return Step(before=before, after=before, notes=(word,), is_changed=False)
    asked = skip(tx, standing.id, act.count, by=act.who, reason=act.reason)
    before = _facts(asked.before)
    if asked.obstacle:
        return Step(before=before, after=before, refused=asked.obstacle, mend=_MEND, is_changed=False)
    return Step(before=before, after=_facts(asked.skips, asked.instants))


_MEND = "Look at it with: herdbeat explain"


def _facts(skips: int, instants: tuple[datetime, ...] = ()) -> Facts:
    return {"skips": skips, "instants": [moment_or_null(each) for each in instants]} if instants else {"skips": skips}
