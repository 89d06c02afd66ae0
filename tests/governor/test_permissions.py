"""Agents, rules and planners cannot override a person."""

import pytest

from herdbeat.governor.hints import can_override


@pytest.mark.parametrize(
    ("stopped_by", "who", "may"),
    [
        ("human:ada", "human:ada", True),
        ("human:ada", "human:bob", True),
        ("human:ada", "agent:triage", False),
        ("human:ada", "rule:surge", False),
        ("human:ada", "planner", False),
        ("human:ada", "humanoid:x", False),
        ("rule:surge", "human:ada", True),
        ("rule:surge", "planner", True),
        ("", "planner", True),
    ],
)
def test_only_people_may_override_people(stopped_by: str, who: str, may: bool) -> None:
    assert can_override(stopped_by, who) is may
