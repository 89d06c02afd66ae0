import subprocess
import sys

GC_SCRIPT = """
import gc
from herdbeat.collector import OBJECTS, look_less_often

class Cycle:
    def __init__(self):
        self.me = self

look_less_often()
Cycle()
before = gc.get_stats()[0]["collected"]
kept = [[] for _ in range(2 * OBJECTS)]
print(gc.get_stats()[0]["collected"] - before)
"""


def test_garbage_is_still_found_without_being_asked_for() -> None:
    found = subprocess.run([sys.executable, "-c", GC_SCRIPT], capture_output=True, text=True, check=True)

    assert int(found.stdout) >= 1
