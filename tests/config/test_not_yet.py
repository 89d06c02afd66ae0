"""Limits in dollars and tokens act on agents only: on other targets, each kind of limit is one warning."""

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.error_codes import Code

AGENT = "agents: [{{ name: a, runtime: command, command: [x], every: 5m, budget: {{ runs_per_day: 1 }}, {} }}]"


def not_yet(folder: ConfigFolder, text: str) -> list[str]:
    return [problem.message for problem in folder.read_all(text).problems if problem.code is Code.NOT_YET]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (AGENT.format("").replace("runs_per_day", "tokens_per_day"), "tokens_per_day"),
    ],
)
def test_a_key_that_does_not_act_yet_is_a_warning(folder: ConfigFolder, text: str, name: str) -> None:
    (message,) = not_yet(folder, text)

    assert message.startswith(f'"{name}" does not work yet: ')


@pytest.mark.parametrize(
    "text",
    [
        AGENT.format("docker: { enabled: false }"),
        AGENT.format("chat: { slack: { channels: [{ id: C1 }] } }"),
        AGENT.format("").replace("every: 5m", "type: chat"),
        AGENT.format("hooks: { after_run: [{ type: shell, command: x }] }"),
        AGENT.format("on_error: [{ type: shell, command: x }]"),
        "web: { enabled: false }\nwebhooks: { enabled: false }",
        "web: { enabled: true, port: 4000 }",
        "commands: [{ name: c, command: [x], every: 5m, budget: { runs_per_day: 3 } }]",
    ],
)
def test_what_acts_or_is_switched_off_is_no_warning(folder: ConfigFolder, text: str) -> None:
    assert not_yet(folder, text) == []


def test_many_places_are_one_warning_at_the_first(folder: ConfigFolder) -> None:
    budget = "budget: { tokens_per_day: 5 }"
    text = "agents:\n" + "".join(
        f"  - {{ name: a{number}, runtime: command, command: [x], every: 5m, {budget} }}\n" for number in range(4)
    )

    (message,) = not_yet(folder, text)

    assert message.startswith('"tokens_per_day" does not work yet: ')
    assert "(also used in " in message


@pytest.mark.parametrize(
    ("url", "allow", "warns"),
    [
        ("http://localhost:8080/x", "", True),
        ("http://127.0.0.1/x", "", True),
        ("http://[::1]:80/x", "", True),
        ("http://10.1.2.3/x", "10.0.0.0/16", True),
        ("http://10.1.2.3/x", "10.0.0.0/8", False),
        ("http://localhost:8080/x", "127.0.0.1", False),
        ("http://localhost:8080/x", "localhost", False),
        ("https://example.com/x", "", False),
    ],
)
def test_an_endpoint_on_a_blocked_address_is_a_warning_about_egress(
    folder: ConfigFolder, url: str, allow: str, *, warns: bool
) -> None:
    result = folder.read(
        f"egress: {{ allow: [{allow!r}] }}\n" * bool(allow) + f"endpoints: [{{ name: a, url: '{url}', every: 5m }}]"
    )

    assert [problem.code for problem in result.problems] == [Code.BLOCKED_ADDRESS] * warns
    assert all("egress" in problem.hint for problem in result.problems)
