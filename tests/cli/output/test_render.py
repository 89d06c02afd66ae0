"""One renderer for every command: which form is printed, where notices go, and what is never computed."""

from collections.abc import Iterator
from io import StringIO

from herdbeat.cli.output.render import Notice, Output, render
from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs


def no_json() -> object:
    raise AssertionError("this form is not printed")


def never_computed() -> Iterator[str]:
    yield str(no_json())


def rendered(output: Output, *switches: str, is_quiet: bool = False) -> tuple[str, str, int]:
    out, err = StringIO(), StringIO()
    terminal = Terminal(out=out, err=err, is_quiet=is_quiet)
    status = render(output, ParsedArgs(switches=frozenset(switches)), terminal)
    return out.getvalue(), err.getvalue(), status


def test_text_output_prints_the_lines_and_computes_nothing_else() -> None:
    output = Output(lines=["a", "b"], plain=never_computed(), json=no_json, exit_status=6)

    assert rendered(output) == ("a\nb\n", "", 6)


def test_plain_prints_the_fields_alone() -> None:
    output = Output(lines=never_computed(), plain=["a\tb"], json=no_json)

    assert rendered(output, "plain") == ("a\tb\n", "", 0)


def test_json_is_indented_and_keeps_non_ascii_characters() -> None:
    output = Output(lines=never_computed(), plain=never_computed(), json=lambda: {"name": "größe"})

    assert rendered(output, "json", "plain") == ('{\n  "name": "größe"\n}\n', "", 0)


def test_compact_json_is_one_line_of_ascii() -> None:
    assert rendered(Output(json=lambda: {"file": "\udcff"}, is_compact=True), "json")[0] == '{"file": "\\udcff"}\n'


def test_a_notice_among_the_lines_goes_to_stderr() -> None:
    output = Output(lines=["a", Notice("more")], json=dict)

    assert rendered(output) == ("a\n", "more\n", 0)
    assert rendered(output, "json") == ("{}\n", "", 0)
    assert rendered(output, is_quiet=True) == ("a\n", "", 0)


def test_notices_follow_every_form() -> None:
    output = Output(lines=["a"], plain=["b"], json=lambda: 1, notices=["not running"])

    assert rendered(output) == ("a\n", "not running\n", 0)
    assert rendered(output, "plain") == ("b\n", "not running\n", 0)
    assert rendered(output, "json") == ("1\n", "not running\n", 0)


def test_a_command_without_a_form_prints_its_lines() -> None:
    assert rendered(Output(lines=["a"]), "json", "plain") == ("a\n", "", 0)
