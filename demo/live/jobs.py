"""A function as a target. What it returns is kept with its run."""

from itertools import count

_asked = count()


async def queue_depth() -> dict[str, int]:
    """A queue that surges now and then."""
    number = next(_asked)
    return {"queue_depth": 150 if number % 5 == 4 else 12 + number % 3}
