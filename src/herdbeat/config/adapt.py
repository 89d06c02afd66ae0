"""The rules of a schedule, with the named sets it uses put in."""

from collections.abc import Iterator, Mapping

from herdbeat.codes import Code
from herdbeat.config.guess import did_you_mean
from herdbeat.config.keys.policies import ADAPT
from herdbeat.config.report import Report
from herdbeat.errors import ending
from herdbeat.located import Located


def read_rules(schedule: Located, sets: Located | None, report: Report) -> tuple[Mapping[str, object], ...]:
    """The rules in order. A set that does not exist is reported; sets do not nest."""
    adapt = schedule.child(ADAPT.name)
    if adapt is None:
        return ()
    return tuple(_plain(rule) for rule in _used(adapt, sets, report))


def _used(adapt: Located, sets: Located | None, report: Report) -> Iterator[Located]:
    for rule in adapt.elements():
        name = rule.child("use")
        if name is None:
            yield rule
            continue
        found = sets.child(str(name.value)) if sets is not None else None
        if found is None:
            _refuse_unknown(name, sets, report)
            continue
        yield from found.elements()


def _refuse_unknown(name: Located, sets: Located | None, report: Report) -> None:
    known = [each for each, _ in sets.items()] if sets is not None else []
    guess = did_you_mean(str(name.value), known)
    listed = ", ".join(known) or "none"
    message = f'There is no set of rules "{name.value}"{ending(guess)}'
    report.error(Code.INVALID_VALUE, message, name.place, f"Sets under rules: {listed}.")


def _plain(rule: Located) -> Mapping[str, object]:
    plain = rule.plain()
    return dict(plain) if isinstance(plain, dict) else {}
