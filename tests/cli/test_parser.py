"""Parsing of the command line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.cli.parser import ParsedArgs, parse_args
from herdbeat.cli.spec import COUNT, HELP, JSON, QUIET, VERBOSE, ZONE
from herdbeat.cli.table import COMMANDS
from herdbeat.errors import UsageError


def read(*words: str) -> tuple[str, ParsedArgs]:
    request = parse_args(words)
    return (request.command.name if request.command else request.group), request.args


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((), ""),
        (("--help",), ""),
        (("--version",), ""),
        (("config",), "config"),
        (("next",), "next"),
        (("config", "show"), "config show"),
        (("config", "validate"), "validate"),
        (("--json", "next"), "next"),
        (("--tz", "UTC", "next"), "next"),
        (("completion", "--help"), "completion"),
    ],
)
def test_the_first_arguments_name_the_command(words: tuple[str, ...], name: str) -> None:
    assert read(*words)[0] == name


@pytest.mark.parametrize("form", [("-n", "3"), ("-n3",), ("-n=3",), ("--count", "3"), ("--count=3",)])
def test_a_value_may_be_written_in_every_usual_form(form: tuple[str, ...]) -> None:
    _, given = read("next", *form, "@daily")

    assert given.value(COUNT) == "3"
    assert given.positionals == ("@daily",)


def test_short_switches_can_be_combined() -> None:
    _, given = read("next", "-qv")

    assert given.has(QUIET)
    assert given.has(VERBOSE)
    assert not given.has(JSON)


def test_after_two_dashes_everything_is_positional() -> None:
    _, given = read("next", "--", "--json")

    assert given.positionals == ("--json",)
    assert not given.has(JSON)


def test_a_value_may_begin_with_a_dash() -> None:
    _, given = read("next", "--from", "-2h", "--tz=-x")

    assert given.values == {"from": "-2h", "tz": "-x"}
    assert given.value(ZONE) == "-x"


@pytest.mark.parametrize("words", [("completion", "-h"), ("help", "completion"), ("-h", "completion", "x", "y")])
def test_help_works_whatever_arguments_are_missing(words: tuple[str, ...]) -> None:
    name, given = read(*words)

    assert name == "completion"
    assert given.has(HELP)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nxt",), 'Unknown command "nxt"; did you mean "next"?'),
        (("prune",), 'Unknown command "prune"; did you mean "db prune"?'),
        (("config", "shwo"), 'Unknown command "config shwo"; did you mean "config show"?'),
        (("zzzz",), 'Unknown command "zzzz".'),
        (("next", "--cuont", "3"), '"herdbeat next" has no option --cuont; did you mean "--count"?'),
        (("validate", "--tz", "UTC"), '"herdbeat validate" has no option --tz.'),
        (("next", "-x"), '"herdbeat next" has no option -x.'),
        (("--jsn",), '"herdbeat" has no option --jsn.'),
        (("next", "--tz"), "--tz needs a value."),
        (("next", "--json=yes"), "--json takes no value."),
        (("next", "0", "9", "*"), '"9" is an unexpected argument.'),
        (("schema", "flet"), 'FILE_KIND cannot be "flet"; did you mean "fleet"?'),
        (("next", "--by", "day"), '--by cannot be "day".'),
        (("backfill", "clock", "--since", "1h"), '"herdbeat backfill" has no option --since.'),
        (("beats", "--sinse", "1h"), '"herdbeat beats" has no option --sinse; did you mean "--since"?'),
        (("completion",), "SHELL is missing (bash, zsh or fish; names, runs and zones print what the scripts offer)."),
    ],
)
def test_an_unknown_argument_is_named_with_a_suggestion(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_args(words)

    assert str(caught.value) == message
    assert caught.value.hint


def test_an_unquoted_expression_gets_a_hint_about_quotes() -> None:
    with pytest.raises(UsageError) as caught:
        parse_args(["next", "0", "9", "1", "*", "*"])

    assert caught.value.hint == 'Put an expression in quotes: herdbeat next "0 9 1 * *"'


def test_a_flag_has_the_same_names_and_values_in_every_command() -> None:
    forms = {(name, option) for command in COMMANDS for option in command.all_options for name in option.names}

    assert len({name for name, _ in forms}) == len(forms)


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["next", "config", "-n", "--tz", "--", "-"]))))
def test_any_arguments_are_parsed_or_rejected(words: list[str]) -> None:
    with suppress(UsageError):
        request = parse_args(words)

        assert request.command is None or request.command in COMMANDS


@pytest.mark.parametrize("verb", ["start", "stop", "status", "logs", "trigger", "jobs", "job", "cancel", "config"])
def test_the_verbs_of_herdctl_are_accepted(verb: str) -> None:
    words = [verb, "x"] if verb in ("trigger", "job", "cancel") else [verb]

    request = parse_args(words)

    assert request.command is not None or request.group == "config"


def test_an_option_given_twice_is_an_error() -> None:
    with pytest.raises(UsageError, match="--tz is given twice"):
        read("next", "--tz", "UTC", "--tz", "Europe/Berlin")
