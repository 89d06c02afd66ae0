"""A beat comes due while its schedule is still at an earlier one: what the user chose for that."""

from enum import StrEnum
from typing import assert_never

from herdbeat.domain.policies import Overlap

REPLACED_BY_NEXT = "its next beat takes its place (overlap: cancel)"
"""What a run says of its end under `overlap: cancel`."""


class OverlapAction(StrEnum):
    """What becomes of the beat that came."""

    START = "start"
    SKIP = "skip"  # skipped: already_running
    ENQUEUE = "wait"  # pending until the run is over
    MERGE = "merge"  # absorbed by the one that waits already
    REPLACE = "replace"  # the run is told to stop, and this one waits for its place


def resolve_overlap(policy: Overlap, *, running: bool, waiting: bool) -> OverlapAction:
    """Nothing in the way: start. One that waits absorbs later ones, unless each is to have its own turn."""
    if policy is Overlap.ALLOW or not (running or waiting):
        return OverlapAction.START
    if policy is Overlap.QUEUE_ALL:
        return OverlapAction.ENQUEUE
    if waiting:
        return OverlapAction.MERGE
    match policy:
        case Overlap.SKIP:
            return OverlapAction.SKIP
        case Overlap.QUEUE:
            return OverlapAction.ENQUEUE
        case Overlap.CANCEL:
            return OverlapAction.REPLACE
        case never:
            assert_never(never)
