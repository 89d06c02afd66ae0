"""The rules of a schedule, with the named sets it uses put in."""

from collections.abc import Iterator, Mapping

from herdbeat.codes import Code
from herdbeat.config.guess import find_closest_match
from herdbeat.config.keys.policies import ADAPT
from herdbeat.config.report import Diagnostics
from herdbeat.errors import did_you_mean_suffix
from herdbeat.located import ConfigNode


def build_rules(
    schedule: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics
) -> tuple[Mapping[str, object], ...]:
    """The rules in order. A set that does not exist is reported; sets do not nest."""
    adapt = schedule.child(ADAPT.name)
    if adapt is None:
        return ()
    return tuple(_rule_to_dict(rule) for rule in _expand_rule_sets(adapt, sets, diagnostics))


def _expand_rule_sets(adapt: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> Iterator[ConfigNode]:
    for rule in adapt.elements():
        name = rule.child("use")
        if name is None:
            yield rule
            continue
        found = sets.child(str(name.value)) if sets is not None else None
        if found is None:
            _report_unknown_rule_set(name, sets, diagnostics)
            continue
        yield from found.elements()


def _report_unknown_rule_set(name: ConfigNode, sets: ConfigNode | None, diagnostics: Diagnostics) -> None:
    known = [each for each, _ in sets.items()] if sets is not None else []
    guess = find_closest_match(str(name.value), known)
    listed = ", ".join(known) or "none"
    message = f'There is no set of rules "{name.value}"{did_you_mean_suffix(guess)}'
    diagnostics.error(Code.INVALID_VALUE, message, name.location, f"Sets under rules: {listed}.")


def _rule_to_dict(rule: ConfigNode) -> Mapping[str, object]:
    plain = rule.to_data()
    return dict(plain) if isinstance(plain, dict) else {}
