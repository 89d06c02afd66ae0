"""What is caught up starts at the pace of the whole fleet: its places are given out by the ledger, not by each node.

Counted by every node for itself, three nodes that came back together started three times `catchup_rate` a second, and
one that was started twice in a row began its count anew.
"""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.decision import Source
from herdbeat.scheduler.room import Pacer
from herdbeat.scheduler.verdict import Verdict
from herdbeat.store.base import Transaction


def keep_pace(tx: Transaction, now: datetime, pacer: Pacer, verdicts: Sequence[Verdict]) -> None:
    """Give every beat of these verdicts that is caught up the next free place, before they are written."""
    catching_up = [verdict for verdict in verdicts if verdict.catching_up]
    if not catching_up:
        return
    number = sum(verdict.catching_up for verdict in catching_up)
    *starts, free_at = pacer.starts(number + 1, pacer.free_from(now, tx.pace()))
    tx.set_pace(free_at)
    places = iter(starts)
    for verdict in catching_up:
        verdict.beats = [
            beat._replace(wake_at=next(places)) if beat.reason == Source.CATCH_UP else beat for beat in verdict.beats
        ]
