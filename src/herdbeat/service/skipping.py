"""Letting the next beats of a schedule pass: one act of many, with its words."""

from datetime import datetime

from herdbeat.domain.change import ChangeData
from herdbeat.errors import UsageError
from herdbeat.scheduler.skip import set_skip_next
from herdbeat.service.acts import SkipBeats
from herdbeat.service.objects import format_optional_timestamp
from herdbeat.service.steps import CommandEffect
from herdbeat.store.base import ScheduleSnapshot, Transaction

MAX_SKIPPED_BEATS = 1_000
"""More than that is a pause."""


def validate_skip_count(command: SkipBeats) -> None:
    if not 0 <= command.count <= MAX_SKIPPED_BEATS:
        raise UsageError(
            f"{command.count} beats cannot be skipped.", hint=f"Write 1 to {MAX_SKIPPED_BEATS}; a pause lasts longer."
        )


def skip_schedule_beats(tx: Transaction, command: SkipBeats, snapshot: ScheduleSnapshot) -> CommandEffect:
    """Asking for what is wished already changes nothing."""
    if command.count == snapshot.skips:
        before = _skip_data(snapshot.skips)
        beats = "beat" if command.count == 1 else f"{command.count} beats"
        note = f"it skips its next {beats} already" if command.count else "nothing is to be skipped"
        return CommandEffect(before=before, after=before, notes=(note,), is_changed=False)
    result = set_skip_next(tx, snapshot.id, command.count, by=command.who, reason=command.reason)
    before = _skip_data(result.before)
    if result.obstacle:
        return CommandEffect(before=before, after=before, refused=result.obstacle, fix=_EXPLAIN_HINT, is_changed=False)
    return CommandEffect(before=before, after=_skip_data(result.skips, result.instants))


_EXPLAIN_HINT = "Look at it with: herdbeat explain"


def _skip_data(skips: int, instants: tuple[datetime, ...] = ()) -> ChangeData:
    return (
        {"skips": skips, "instants": [format_optional_timestamp(each) for each in instants]}
        if instants
        else {"skips": skips}
    )
