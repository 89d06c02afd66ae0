"""Targets as the files describe them: values of their spec, and problems at their location."""

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.domain.target import AgentSpec, EndpointSpec


def test_a_bad_tool_policy_beside_schedules_has_a_location(folder: ConfigFolder) -> None:
    """It was left to the schedules, but the agent reads it too: the load ended with an error without a line."""
    result = folder.read(
        "agents: [{ name: a, tool_policy: { mode: mabe }, schedules: { x: { every: 5m, prompt: Go } } }]"
    )

    assert [error.message for error in result.errors] == ['mode cannot be "mabe".']
    assert [str(error.where) for error in result.errors] == ["herdbeat.yaml:1:42"]


def test_an_address_is_stored_as_it_was_validated(folder: ConfigFolder) -> None:
    fleet = folder.fleet('endpoints: [{ name: x, url: " https://example.com ", every: 5m }]')

    spec = fleet.targets[0].spec
    assert isinstance(spec, EndpointSpec)
    assert spec.url == "https://example.com"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ("project",)), ("setting_sources: [],", ("project",)), ("setting_sources: [user],", ("user",))],
)
def test_an_agent_without_setting_sources_has_those_of_its_project(
    text: str, expected: tuple[str, ...], folder: ConfigFolder
) -> None:
    fleet = folder.fleet(f"agents: [{{ name: a, {text} every: 5m, prompt: Go }}]")

    spec = fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert spec.setting_sources == expected


def test_an_empty_list_of_tools_is_not_a_missing_one(folder: ConfigFolder) -> None:
    fleet = folder.fleet("agents: [{ name: a, tools: [], every: 5m, prompt: Go }, { name: b, every: 5m, prompt: Go }]")

    tools = [target.spec.tools for target in fleet.targets if isinstance(target.spec, AgentSpec)]
    assert tools == [(), None]
