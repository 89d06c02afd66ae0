"""How often Python looks for garbage in a process that is all herdbeat's.

Nothing on the way of a beat is a cycle, so there is next to nothing to find, and looking took a tenth of the time of
a burst. It is still done, just not every 700 objects. A program that embeds a fleet keeps its own setting.
"""

import gc

GC_THRESHOLD_OBJECTS = 50_000
"""New objects between two looks at the young ones: a few MB."""


def tune_gc() -> None:
    """What is there by now, modules and tables, stays to the end and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD_OBJECTS, 20, 20)
