"""The seeds of storms: one that is always the same, and a new one each time."""

import os
import random

SEEDS = os.environ.get("HERDBEAT_SEEDS", "1 any").split()
"""`HERDBEAT_SEEDS="7 8" make soak` repeats a failure. `any` is a new seed each time, which is printed."""


def choose_seed(seed: str) -> int:
    """Return the number of one of SEEDS, and print how to repeat the test with it."""
    number = random.randrange(10**6) if seed == "any" else int(seed)
    print(f"HERDBEAT_SEEDS={number}")
    return number
