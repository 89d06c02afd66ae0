"""Is a prompt right? Asked when the schedule is written, so that no run finds out."""

from difflib import get_close_matches

from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import TemplateError, UnknownTemplateName, shown
from herdbeat.prompts.names import ALL, NAMES, OWN_NAMES, Known, elsewhere, lookup
from herdbeat.prompts.template import ESCAPE_HINT, Name, scan


def check(text: str, kind: TriggerKind, *, has_work: bool) -> list[TemplateError]:
    """Everything wrong with a prompt on this kind of schedule, in the order of writing.

    Names are checked against what the trigger provides, so a `{{payload.x}}` on a cron schedule is
    found here and not by an agent that reads a gap.
    """
    template, errors = scan(text)
    unknown = [
        _unknown(name, kind, has_work=has_work)
        for name in template.names
        if lookup(name.name, kind, has_work=has_work) is None
    ]
    return sorted([*errors, *unknown], key=lambda error: error.offset)


def _unknown(name: Name, kind: TriggerKind, *, has_work: bool) -> UnknownTemplateName:
    message, hint = _words(name.name, kind, has_work=has_work)
    return UnknownTemplateName(message, name=name.name, offset=name.offset, width=name.width, hint=hint)


def _words(name: str, kind: TriggerKind, *, has_work: bool) -> tuple[str, str]:
    """What to say: it exists elsewhere, it is nearly a known one, or nobody knows it."""
    written = f"{{{{{shown(name)}}}}}"
    if rows := elsewhere(name):
        return f"{written} exists only on {_owners(rows)}.", f"This is {_article(kind)} schedule. {ESCAPE_HINT}"
    provided = [row for row in NAMES if row.is_provided(kind, has_work=has_work)]
    if guess := _guess(name, provided):
        return f"{written} is not known; did you mean {{{{{guess}}}}}?", ESCAPE_HINT
    has = f"{_article(kind).capitalize()} schedule has {_overview(provided)}."
    return f"{written} is not known.", f"{has} {ESCAPE_HINT}"


def _owners(rows: tuple[Known, ...]) -> str:
    if all(row.needs_work for row in rows):
        return "schedules with a work_source"
    kinds = [kind.value for kind in TriggerKind if any(kind in row.kinds for row in rows if row.kinds != ALL)]
    return f"{' and '.join(kinds)} schedules"


def _guess(name: str, provided: list[Known]) -> str | None:
    """The nearest name this schedule has; in a family such as payload.*, the rest of the name is kept."""
    first, dot, rest = name.partition(".")
    families = [row.name[:-2] for row in provided if row.name.endswith(".*")]
    if dot and (near := get_close_matches(first.lower(), families, n=1, cutoff=0.7)):
        return f"{near[0]}.{rest}"
    whole = [row.name for row in provided if not row.name.endswith("*")]
    near = get_close_matches(name.lower(), whole, n=1, cutoff=0.7)
    return near[0] if near else None


def _overview(provided: list[Known]) -> str:
    """Our own names in short: a family of many is one word."""
    names = (row.name for row in OWN_NAMES if row in provided)
    return ", ".join(dict.fromkeys(f"{name.partition('.')[0]}.*" if "." in name else name for name in names))


def _article(kind: TriggerKind) -> str:
    return f"an {kind}" if kind is TriggerKind.INTERVAL else f"a {kind}"
