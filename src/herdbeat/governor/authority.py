"""Whose word counts: what a person has stopped, no agent, rule or planner starts again."""

_HUMAN_PREFIX = "human"


def is_human(origin: str) -> bool:
    """True for `human:you`; false for `agent:triage`, `rule:surge`, `planner` and whoever else there may be."""
    return origin.partition(":")[0] == _HUMAN_PREFIX


def can_override(set_by: str, actor: str) -> bool:
    """Whether a pause or a switch-off may be lifted or replaced. A person may undo anything."""
    return is_human(actor) or not is_human(set_by)
