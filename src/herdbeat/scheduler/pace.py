"""What is caught up starts at the pace of the whole fleet: its places are given out by the ledger, not by each node.

Counted by every node for itself, three nodes that came back together started three times `catchup_rate` a second, and
one that was started twice in a row began its count anew.
"""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.decision import Source
from herdbeat.scheduler.room import CatchupPacer
from herdbeat.scheduler.verdict import Evaluation
from herdbeat.store.base import Transaction


def assign_catchup_slots(
    tx: Transaction, now: datetime, pacer: CatchupPacer, evaluations: Sequence[Evaluation]
) -> None:
    """Give every beat of these verdicts that is caught up the next free place, before they are written."""
    catching_up = [evaluation for evaluation in evaluations if evaluation.catchup_count]
    if not catching_up:
        return
    number = sum(evaluation.catchup_count for evaluation in catching_up)
    *start_times, free_at = pacer.start_times(number + 1, pacer.next_free_at(now, tx.catchup_get_cursor()))
    tx.catchup_set_cursor(free_at)
    slots = iter(start_times)
    for evaluation in catching_up:
        evaluation.beats = [
            beat._replace(wake_at=next(slots)) if beat.reason == Source.CATCH_UP else beat for beat in evaluation.beats
        ]
