"""Files of herdctl that its own documents and examples contain."""

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.domain.target import AgentSpec
from herdbeat.error_codes import Code
from herdbeat.errors import Severity


def agent_files(agent: str) -> dict[str, str]:
    return {"herdctl.yaml": "agents: [{ path: a.yaml }]", "a.yaml": f"name: a\n{agent}\n"}


@pytest.mark.parametrize("place", ["hooks: { after_run: HOOKS }", "after_run: HOOKS"])
def test_a_hook_that_needs_an_undefined_variable_is_dropped_and_not_the_agent(folder: ConfigFolder, place: str) -> None:
    hooks = "[{ type: webhook, url: '${HOOK_URL}' }, { type: shell, command: 'true' }]"

    result = folder.read(agent_files(place.replace("HOOKS", hooks)))

    assert [(problem.code, problem.severity) for problem in result.problems] == [
        (Code.UNDEFINED_VARIABLE, Severity.WARNING)
    ]
    assert result.problems[0].message == "The environment variable HOOK_URL is not set. The hook is ignored."
    assert result.fleet is not None
    (target,) = result.fleet.targets
    assert target.hooks == {"after_run": [{"type": "shell", "command": "true"}]}


def test_a_chat_that_needs_an_undefined_variable_is_dropped_and_not_the_agent(folder: ConfigFolder) -> None:
    chat = "chat: { discord: { guilds: [{ id: '${GUILD_ID}' }] }, slack: { channel: x } }"

    result = folder.read(agent_files(chat))

    assert [problem.code for problem in result.problems] == [Code.UNDEFINED_VARIABLE]
    assert result.fleet is not None
    (target,) = result.fleet.targets
    assert isinstance(target.spec, AgentSpec)
    assert target.spec.chat == {"slack": {"channel": "x"}}


def test_a_plugin_without_a_type_is_local(folder: ConfigFolder) -> None:
    fleet = folder.fleet(agent_files("plugins: [{ path: ./here }, ./there]"))

    (target,) = fleet.targets
    assert isinstance(target.spec, AgentSpec)
    assert len(target.spec.plugins) == 2


@pytest.mark.parametrize("text", ["", "# nothing yet\n\n", "---\n"])
def test_an_empty_fleet_file_is_an_empty_fleet(folder: ConfigFolder, text: str) -> None:
    result = folder.read({"herdctl.yaml": text})

    assert result.problems == ()
    assert result.fleet is not None
    assert (result.fleet.targets, result.fleet.schedules) == ((), ())


def test_an_empty_file_of_our_own_is_still_a_mistake(folder: ConfigFolder) -> None:
    assert [problem.code for problem in folder.read("").errors] == [Code.MISSING_KEY]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("docker: { memory: lots }", '"lots" is not a memory size.'),
        ("tool_policy: { mode: allow_list }", 'Mode "allow_list" lists no tools.'),
        ("system_prompt: 'in ${UNCLOSED'", '"${UNCLOSED" is not closed.'),
        ("model: '${UNCLOSED:-x'", '"${UNCLOSED" is not closed.'),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(folder: ConfigFolder, line: str, message: str) -> None:
    result = folder.read(agent_files(line))

    assert [(problem.message, str(problem.where).split(":")[1]) for problem in result.errors] == [(message, "2")]


@pytest.mark.parametrize("memory", ["2g", "512m", "1.5GiB", "1073741824", "64kb"])
def test_amounts_of_memory_that_docker_understands_pass(folder: ConfigFolder, memory: str) -> None:
    assert folder.read(agent_files(f"docker: {{ memory: {memory} }}")).problems == ()


def test_config_show_has_the_session_and_defaults_have_their_types(folder: ConfigFolder) -> None:
    values = folder.values(agent_files("session: { max_turns: 5 }\ndocker: { enabled: true }"))

    assert values["agents.a.session.max_turns"].value == 5
    assert (values["agents.a.session.timeout"].value, values["agents.a.session.timeout"].origin) == ("1d", "default")
    assert values["agents.a.docker.max_containers"].value == 5
    assert values["agents.a.docker.ephemeral"].value is True
    assert values["agents.a.setting_sources"].value == ["project"]
