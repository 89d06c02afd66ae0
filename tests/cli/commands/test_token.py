"""`herdbeat token create` prints the token, and nothing prints it again."""

from herdbeat.redaction import redact
from herdbeat.testing.command_line import CommandLine


def test_a_new_token_is_not_three_stars(cli: CommandLine) -> None:
    created = cli.run("token", "create", "ci", "--scope", "operate")
    as_json = cli.run("token", "create", "grafana", "--json").json()

    for text in (created.lines()[0], as_json["token"]):
        assert text.startswith("hbt_")
        assert redact(text) == "***"
        assert text not in cli.run("token", "list").out
    assert as_json["name"] == "grafana"
