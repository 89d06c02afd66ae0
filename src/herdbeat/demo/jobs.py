"""The callable target of the demo. What it returns is stored with its run."""

from itertools import count

_run_counter = count(1)


async def tidy() -> dict[str, int]:
    return {"tidied": next(_run_counter)}
