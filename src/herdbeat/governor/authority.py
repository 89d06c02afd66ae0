"""Whose word counts: what a person has stopped, no agent, rule or planner starts again."""

_PERSON = "human"


def is_person(origin: str) -> bool:
    """True for `human:you`; false for `agent:triage`, `rule:surge`, `planner` and whoever else there may be."""
    return origin.partition(":")[0] == _PERSON


def may_undo(stopped_by: str, who: str) -> bool:
    """Whether a pause or a switch-off may be lifted or replaced. A person may undo anything."""
    return is_person(who) or not is_person(stopped_by)
