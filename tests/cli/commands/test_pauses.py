"""`herdbeat pause --from` and `herdbeat pauses`: planned, listed, shown everywhere, cancelled, undone."""

import shlex

import pytest

from herdbeat.testing.command_line import CommandLine

FLEET = """
commands:
  - name: backup
    command: ["true"]
    schedules:
      hourly: {cron: "0 * * * *", tags: [db]}
      nightly: {cron: "0 3 * * *"}
"""


@pytest.fixture
def fleet(cli: CommandLine) -> CommandLine:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    return cli


def test_a_planned_pause_is_listed_and_cancelled_by_its_undo(fleet: CommandLine) -> None:
    planned = fleet.run("pause", "--tag", "db", "--from", "22:00", "--until", "02:00", "--reason", "upgrade", "--json")
    listed = fleet.run("pauses", "--json").json()["items"]

    assert planned.status == 0, planned.err
    assert [(each["id"], each["state"], each["from"], each["until"], each["schedules"]) for each in listed] == [
        (1, "planned", "2026-03-26T21:00:00Z", "2026-03-27T01:00:00Z", 1)
    ]
    undone = fleet.run(*shlex.split(planned.json()["undo"])[1:])
    assert undone.status == 0
    assert "undo: herdbeat pause --tag db --from 2026-03-26T21:00:00Z" in undone.out
    assert fleet.run("pauses", "--json").json()["items"] == []
    assert [each["what"] for each in fleet.run("changes", "--json").json()["items"][:2]] == [
        "cancel_pause",
        "plan_pause",
    ]


@pytest.mark.parametrize(
    ("begin", "end", "span"),
    [
        ("in 2s", ("--for", "1h"), ("2026-03-26T13:04:02Z", "2026-03-26T14:04:02Z")),
        ("in 1h", ("--until", "in 3h"), ("2026-03-26T14:04:00Z", "2026-03-26T16:04:00Z")),
        ("in 1h", ("--until", "3h"), ("2026-03-26T14:04:00Z", "2026-03-26T17:04:00Z")),
    ],
)
def test_a_pause_that_begins_in_two_seconds_was_refused(
    fleet: CommandLine, begin: str, end: tuple[str, str], span: tuple[str, str]
) -> None:
    planned = fleet.run("pause", "backup", "--from", begin, *end, "--json")

    assert planned.status == 0, planned.err
    (listed,) = fleet.run("pauses", "--json").json()["items"]
    assert (listed["from"], listed["until"]) == span


def test_next_explain_and_show_tell_of_it(fleet: CommandLine) -> None:
    fleet.run("pause", "backup/hourly", "--from", "15:00", "--for", "2h", "--reason", "upgrade")

    times = [each["due_at"] for each in fleet.run("next", "backup/hourly", "--count", "3", "--json").json()["items"]]
    explained = fleet.run("explain", "backup/hourly", "--at", "2026-03-26T15:00:00Z")
    shown = fleet.run("show", "backup/hourly")

    # 15:00 in Berlin is 14:00 UTC: the instant at its end runs again.
    assert times == ["2026-03-26T16:00:00Z", "2026-03-26T17:00:00Z", "2026-03-26T18:00:00Z"]
    assert "in a planned pause: it will be skipped" in explained.out
    assert "planned pause  2026-03-26 15:00 to 17:00 CET by" in shown.out
    assert '"upgrade"' in shown.out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("pause backup --from 22:00", 2, "needs --until or --for"),
        ("pause backup --from 2026-01-01 --for 2h", 2, "is in the past"),
        ("pause backup --from 2026-04-02 --until 2026-04-01", 2, "ends before it begins"),
        ("pause bakup --from 22:00 --for 2h", 3, 'did you mean "backup'),
        ("pauses cancel seven", 2, "not the number of a planned pause"),
        ("pauses cancel 7", 3, "no planned pause 7"),
    ],
)
def test_bad_input_says_how_to_fix_it(fleet: CommandLine, words: str, status: int, message: str) -> None:
    fleet.run("pause", "backup", "--from", "23:00", "--for", "1h")

    answer = fleet.run(*words.split())

    assert (answer.status, "Traceback" in answer.err) == (status, False)
    assert message in answer.err


def test_a_number_with_twenty_digits_was_an_internal_error(fleet: CommandLine) -> None:
    answer = fleet.run("pauses", "cancel", "9" * 20)

    assert answer.status == 2
    assert f'"{"9" * 20}" is not the number of a planned pause.' in answer.err
