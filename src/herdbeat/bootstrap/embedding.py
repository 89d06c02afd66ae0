"""The types of lower rooms that a Python program uses when it runs a fleet itself: its timer, functions, runner
and work sources.

Adapters may not import those rooms, so these are names of this module. It loads no engine: the public types need it.
"""

from herdbeat.runners.base import Job, Runner
from herdbeat.runners.functions import Function, LocalFunctions, inspect_function, is_async
from herdbeat.scheduler.timers import SystemTimer, Timer
from herdbeat.work.base import call_source

__all__ = [
    "Function",
    "Job",
    "LocalFunctions",
    "Runner",
    "SystemTimer",
    "Timer",
    "call_source",
    "inspect_function",
    "is_async",
]
