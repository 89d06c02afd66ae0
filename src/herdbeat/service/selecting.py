"""From what a person writes, `target` or `target/schedule`, to the schedules that are meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from herdbeat.errors import NotFound, ending, shown


def parts_of(selector: str) -> tuple[str, str | None]:
    """`target/schedule` in its two parts; a target alone leaves its schedule open."""
    target, slash, name = selector.rpartition("/")
    return (target, name) if slash else (name, None)


def not_found(selector: str, known: Iterable[str]) -> NotFound:
    near = get_close_matches(selector.lower(), sorted(known), n=1, cutoff=0.6)
    message = f'There is no target or schedule "{shown(selector)}"{ending(near[0] if near else None)}'
    return NotFound(message, hint='Run "herdbeat next" to see all schedules.')
