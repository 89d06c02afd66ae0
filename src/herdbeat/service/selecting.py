"""From what a person writes (`target`, `target/schedule`, `target/*`, a tag, a group, all) to the schedules meant.

A target alone means all its schedules, as it does in `next` and `beats`. No abbreviations; a typo gets a guess.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import NotFound, UsageError, ending, shown
from herdbeat.store.reader import Filter, Reader

PAGE = 10_000

_LIST = 'Run "herdbeat list" to see all schedules.'


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Everything that was named: a schedule belongs to it if any of them means it."""

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    everything: bool = False


def select(reader: Reader, selection: Selection) -> list[ScheduleRecord]:
    """The schedules that are meant, each once, in the order of the ledger. Never empty.

    Raises UsageError if nothing was named, NotFound (which guesses) for a name, tag or group that nothing has.
    """
    _refuse_nonsense(selection)
    if selection.everything:
        everything = list(_all(reader))
        if not everything:
            raise NotFound("There are no schedules here.", hint=_LIST)
        return everything
    found = {each.id: each for name in selection.names for each in _of_name(reader, name)}
    if selection.tags or selection.groups:
        known = list(_all(reader))
        for tag in selection.tags:
            found |= {each.id: each for each in _tagged(known, tag)}
        for group in selection.groups:
            found |= {each.id: each for each in _grouped(known, group)}
    return [found[number] for number in sorted(found)]


def parts_of(selector: str) -> tuple[str, str | None]:
    """`target/schedule` in its two parts; a target alone leaves its schedule open."""
    target, slash, name = selector.rpartition("/")
    return (target, name) if slash else (name, None)


def not_found(selector: str, known: Iterable[str]) -> NotFound:
    """It guesses among the names that are known."""
    if "*" in selector:
        return NotFound(f'No schedule fits "{shown(selector)}".', hint=_LIST)
    message = f'There is no target or schedule "{shown(selector)}"{ending(near_word(selector, known))}'
    return NotFound(message, hint=_LIST)


def unmarked(what: str, mark: str, known: Iterable[str]) -> NotFound:
    """The same for a tag or a group that no schedule has."""
    return NotFound(f'No schedule has the {what} "{shown(mark)}"{ending(near_word(mark, known))}', hint=_LIST)


def near_word(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 -- only for who has mistyped

    return next(iter(get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)), None)


def _refuse_nonsense(selection: Selection) -> None:
    is_named = bool(selection.names or selection.tags or selection.groups)
    if not is_named and not selection.everything:
        raise UsageError(
            "Nothing is selected.", hint="Name a TARGET, TARGET/SCHEDULE or TARGET/*, or write --tag, --group or --all."
        )
    if is_named and selection.everything:
        raise UsageError("--all means every schedule: there is nothing more to name.", hint="Leave one of them out.")


def _of_name(reader: Reader, selector: str) -> list[ScheduleRecord]:
    if "*" in selector:
        fitting = [each for each in _all(reader) if fnmatchcase(f"{each.target}/{each.name}", selector)]
        if not fitting:
            raise not_found(selector, ())
        return fitting
    target, name = parts_of(selector)
    found = list(_pages(reader, target, name))
    if not found:
        raise not_found(selector, reader.near_names(selector))
    return found


def _tagged(known: list[ScheduleRecord], tag: str) -> list[ScheduleRecord]:
    tags = {each for record in known for each in record.plan.policies.tags}
    fitting = [each for each in known if tag in each.plan.policies.tags]
    if not fitting:
        raise unmarked("tag", tag, tags)
    return fitting


def _grouped(known: list[ScheduleRecord], group: str) -> list[ScheduleRecord]:
    groups = {record.plan.policies.group or "" for record in known}
    fitting = [each for each in known if each.plan.policies.group == group]
    if not fitting:
        raise unmarked("group", group, groups)
    return fitting


def _all(reader: Reader) -> Iterator[ScheduleRecord]:
    return _pages(reader, None, None)


def _pages(reader: Reader, target: str | None, name: str | None) -> Iterator[ScheduleRecord]:
    after: int | None = None
    while page := reader.schedules(Filter(target=target, name=name, before=after, limit=PAGE)):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].id
