"""Did you mean? The nearest known word to one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def find_closest_match(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word, whatever its case and whether it is written with - or _."""
    by_normalized = {_normalize(each): each for each in known}
    if _normalize(word) in by_normalized:
        return by_normalized[_normalize(word)]
    near = get_close_matches(_normalize(word)[:60], by_normalized, n=1, cutoff=0.7)
    return by_normalized[near[0]] if near else None


def _normalize(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
