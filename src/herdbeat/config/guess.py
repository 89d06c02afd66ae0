"""Did you mean? The nearest known word to one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word, whatever its case and whether it is written with - or _."""
    by_form = {_form(each): each for each in known}
    if _form(word) in by_form:
        return by_form[_form(word)]
    near = get_close_matches(_form(word)[:60], by_form, n=1, cutoff=0.7)
    return by_form[near[0]] if near else None


def _form(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
