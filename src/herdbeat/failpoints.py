"""Failpoints: named places between two steps that must be atomic, where a test can kill the process.

The environment arms one of them: HERDBEAT_CRASH_AT=after-claim:3:KILL sends SIGKILL at the third pass. An unarmed
failpoint costs one comparison.
"""

import os
import signal
from enum import StrEnum


class Failpoint(StrEnum):
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    AFTER_CLAIM = "after-claim"
    AFTER_SPAWN = "after-spawn"
    AFTER_RESPONSE = "after-response"
    BEFORE_FINISH = "before-finish"
    AFTER_FINISH = "after-finish"
    DURING_SWEEP = "during-sweep"
    AFTER_WORK_LIST = "after-work-list"
    AFTER_WORK_ROW = "after-work-row"
    AFTER_WORK_CLAIM = "after-work-claim"
    AFTER_WORK_REPORT = "after-work-report"
    BEFORE_DELIVERY = "before-delivery"
    AFTER_DELIVERY = "after-delivery"


_ARMED_FAILPOINT = os.environ.get("HERDBEAT_CRASH_AT", "").split(":")
_hit_count = 0


def failpoint(point: Failpoint) -> None:
    """Return at once, unless this failpoint is armed and has now been passed the given number of times."""
    if _ARMED_FAILPOINT[0] != point:
        return
    global _hit_count  # noqa: PLW0603 - the count of one process that is about to end
    _hit_count += 1
    if _hit_count == int(_ARMED_FAILPOINT[1]):
        os.kill(os.getpid(), signal.Signals[f"SIG{_ARMED_FAILPOINT[2]}"])
