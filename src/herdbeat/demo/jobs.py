"""A function as a target. What it returns is kept with its run."""

from itertools import count

_done = count(1)


async def tidy() -> dict[str, int]:
    return {"tidied": next(_done)}
