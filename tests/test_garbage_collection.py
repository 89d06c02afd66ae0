import subprocess
import sys

GC_SCRIPT = """
import gc
from herdbeat.platform import GC_THRESHOLD_OBJECTS, tune_interpreter

class Cycle:
    def __init__(self):
        self.me = self

tune_interpreter()
Cycle()
before = gc.get_stats()[0]["collected"]
kept = [[] for _ in range(2 * GC_THRESHOLD_OBJECTS)]
print(gc.get_stats()[0]["collected"] - before)
"""


def test_garbage_is_still_collected_automatically() -> None:
    completed = subprocess.run([sys.executable, "-c", GC_SCRIPT], capture_output=True, text=True, check=True)

    assert int(completed.stdout) >= 1
