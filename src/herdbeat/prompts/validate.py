"""Validates prompts when the configuration is loaded, so that no run is the first to find an error."""

from difflib import get_close_matches

from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import TemplateError, UnknownTemplateName, truncate_for_message
from herdbeat.prompts.template import ESCAPE_HINT, scan_template
from herdbeat.prompts.variables import ALL_KINDS, OWN_VARIABLES, VARIABLES, Variable, find_variable, find_variables


def validate_prompt(text: str, kind: TriggerKind, *, has_work: bool) -> list[TemplateError]:
    """Return every error in a prompt for this kind of schedule, in the order of the text.

    Names are checked against the variables that the trigger provides: `{{payload.x}}` on a cron schedule
    would otherwise be empty in every prompt.
    """
    template, errors = scan_template(text)
    for placeholder in template.placeholders:
        name, offset, width = placeholder.name, placeholder.offset, placeholder.width
        if find_variable(name, kind, has_work=has_work) is None:
            message, hint = _describe_unknown_name(name, kind, has_work=has_work)
            errors.append(UnknownTemplateName(message, name=name, offset=offset, width=width, hint=hint))
    return sorted(errors, key=lambda error: error.offset)


def _describe_unknown_name(name: str, kind: TriggerKind, *, has_work: bool) -> tuple[str, str]:
    """Return message and hint: other schedules have the name, a similar name exists, or it is unknown."""
    written = f"{{{{{truncate_for_message(name)}}}}}"
    if variables := find_variables(name):
        hint = f"This is {_with_article(kind)} schedule. {ESCAPE_HINT}"
        return f"{written} exists only on {_describe_owners(variables)}.", hint
    provided = [variable for variable in VARIABLES if variable.is_provided(kind, has_work=has_work)]
    if guess := _closest_name(name, provided):
        return f"{written} is not known; did you mean {{{{{guess}}}}}?", ESCAPE_HINT
    has = f"{_with_article(kind).capitalize()} schedule has {_summarize_names(provided)}."
    return f"{written} is not known.", f"{has} {ESCAPE_HINT}"


def _describe_owners(variables: tuple[Variable, ...]) -> str:
    if all(variable.needs_work for variable in variables):
        return "schedules with a work_source"
    kinds = {kind for variable in variables if variable.kinds != ALL_KINDS for kind in variable.kinds}
    return f"{' and '.join(kind for kind in TriggerKind if kind in kinds)} schedules"


def _closest_name(name: str, provided: list[Variable]) -> str | None:
    """Return the most similar variable of this schedule. In a family such as payload.*, the rest of the name stays."""
    first, dot, rest = name.partition(".")
    families = [variable.name[:-2] for variable in provided if variable.name.endswith(".*")]
    if dot and (near := get_close_matches(first.lower(), families, n=1, cutoff=0.7)):
        return f"{near[0]}.{rest}"
    whole = [variable.name for variable in provided if not variable.name.endswith("*")]
    near = get_close_matches(name.lower(), whole, n=1, cutoff=0.7)
    return near[0] if near else None


def _summarize_names(provided: list[Variable]) -> str:
    """Return herdbeat's own variables as a list, each family as one entry."""
    names = (variable.name for variable in OWN_VARIABLES if variable in provided)
    return ", ".join(dict.fromkeys(f"{name.partition('.')[0]}.*" if "." in name else name for name in names))


def _with_article(kind: TriggerKind) -> str:
    return f"an {kind}" if kind is TriggerKind.INTERVAL else f"a {kind}"
