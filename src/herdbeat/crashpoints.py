"""Named places where a test may end the process: between two steps that must not come apart.

Armed by the environment: HERDBEAT_CRASH_AT=after-claim:3:KILL ends it at the third time it comes by there. Not
armed, a place costs one comparison.
"""

import os
import signal
from enum import StrEnum


class CrashPoint(StrEnum):
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    AFTER_CLAIM = "after-claim"
    AFTER_SPAWN = "after-spawn"
    AFTER_RESPONSE = "after-response"
    BEFORE_FINISH = "before-finish"
    AFTER_FINISH = "after-finish"
    DURING_SWEEP = "during-sweep"


_ARMED = os.environ.get("HERDBEAT_CRASH_AT", "").split(":")
_seen = 0


def pass_by(point: CrashPoint) -> None:
    """Go on, unless this very place is armed and its time has come."""
    if _ARMED[0] != point:
        return
    global _seen  # noqa: PLW0603 - the count of one process that is about to end
    _seen += 1
    if _seen == int(_ARMED[1]):
        os.kill(os.getpid(), signal.Signals[f"SIG{_ARMED[2]}"])
