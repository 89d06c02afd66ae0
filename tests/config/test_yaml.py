from pathlib import Path

import pytest

from herdbeat.bootstrap.config import load_config
from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.yaml import parse_yaml
from herdbeat.error_codes import Code


def tree_of(text: str) -> ConfigNode:
    diagnostics = Diagnostics()
    tree = parse_yaml(text, "a.yaml", diagnostics)
    assert tree is not None, diagnostics.sorted_problems()
    return tree


def codes_of(text: str) -> list[Code]:
    diagnostics = Diagnostics()
    parse_yaml(text, "a.yaml", diagnostics)
    return [problem.code for problem in diagnostics.sorted_problems()]


def test_a_value_has_its_line_column_width_and_path() -> None:
    tree = tree_of("a:\n  b: [x, 'long text']\n")

    location = tree.find(("a", "b", 1)).location

    assert (location.line, location.column, location.width, location.path) == (2, 10, 11, "a.b[1]")


def test_a_value_has_the_location_of_its_key() -> None:
    node = tree_of("a:\n  key: value\n").find(("a", "key"))

    assert node.key is not None
    assert (node.key.line, node.key.column, node.key.width) == (2, 3, 3)


def test_the_path_of_a_list_entry_has_its_name() -> None:
    tree = tree_of("agents:\n  - path: x\n  - name: scout\n    every: 5m\n")

    assert tree.find(("agents", 0, "path")).location.path == "agents[0].path"
    assert tree.find(("agents", 1, "every")).location.path == "agents.scout.every"


def test_letters_outside_ascii_do_not_move_the_columns() -> None:
    location = tree_of("{é: ü, b: x}\n").find(("b",)).location

    assert location.column == 11


def test_an_alias_is_a_copy_with_its_own_path_and_the_location_of_its_anchor() -> None:
    tree = tree_of("x-a: &a { k: v }\nb: *a\n")

    location = tree.find(("b", "k")).location

    assert (location.line, location.path) == (1, "b.k")


def test_a_merge_key_fills_gaps_and_never_overrides() -> None:
    tree = tree_of("x-a: &a { k: 1, l: 1 }\nx-b: &b { l: 2, m: 2 }\nc: { <<: [*a, *b], k: 3 }\n")

    assert tree.find(("c",)).to_data() == {"k": 3, "l": 1, "m": 2}


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert tree_of('"<<": { a: 1 }\n').to_data() == {"<<": {"a": 1}}


def test_quoted_scalars_and_str_tags_are_text() -> None:
    assert tree_of("""{a: "1", b: 'true', c: !!str 5, d: ! 6}""").to_data() == {"a": "1", "b": "true", "c": "5", "d": 6}


def test_the_first_of_two_equal_keys_is_kept_and_the_second_reported() -> None:
    diagnostics = Diagnostics()

    tree = parse_yaml("a: 1\nb: 2\na: 3\n", "a.yaml", diagnostics)

    assert tree is not None
    assert tree.to_data() == {"a": 1, "b": 2}
    (problem,) = diagnostics.sorted_problems()
    assert problem.code is Code.DUPLICATE_KEY
    assert problem.where is not None
    assert problem.where.line == 3


def test_keys_that_differ_only_by_quotes_are_equal() -> None:
    assert codes_of('a: 1\n"a": 2\n') == [Code.DUPLICATE_KEY]


def test_a_written_key_overrides_a_merged_one() -> None:
    assert codes_of("x-a: &a { k: 1 }\nb: { k: 2, <<: *a }\n") == []


def test_depth_that_only_aliases_reach_is_rejected() -> None:
    lines = ["a0: &a0 x"] + [f"a{n}: &a{n} [[*a{n - 1}]]" for n in range(1, 30)]

    assert codes_of("\n".join(lines)) == [Code.YAML_LIMIT]


def test_a_pointer_has_the_index_where_a_path_has_the_name() -> None:
    tree = tree_of("agents:\n  - name: scout\n    'a/b~c': [1]\n")

    location = tree.find(("agents", 0, "a/b~c", 0)).location

    assert (location.path, location.pointer) == ("agents.scout.a/b~c[0]", "/agents/0/a~1b~0c/0")


@pytest.mark.parametrize("text", ["a:\n\t- b", "- name: a\n\tcommand: x"])
def test_the_message_about_a_tab_names_the_tab(text: str) -> None:
    diagnostics = Diagnostics()

    parse_yaml(text, "a.yaml", diagnostics)

    (problem,) = diagnostics.sorted_problems()
    assert "not tabs" in problem.hint


@pytest.mark.parametrize(
    "expression",
    ["!response.ok", '"a" == run.name', "[1].exists(x, x > 1)", "run.ok ? true : false", "*x"],
)
def test_an_expression_that_yaml_reads_otherwise_is_shown_in_single_quotes(expression: str) -> None:
    diagnostics = Diagnostics()

    parse_yaml(f"adapt:\n  - when: {expression}\n    every: 1m\n", "fleet.yaml", diagnostics)

    (problem,) = diagnostics.sorted_problems()
    assert problem.hint == f"Put the expression into single quotes: when: '{expression}'"


TRAPS = (
    "!response.ok",
    "!!response.ok && run.ok",
    "'high' == response.level",
    "'a # b' == response.level  # a comment",
    '"high" == response.level',
    '"a" in response.levels # or not',
    "[1, 2].exists(x, x > response.depth)",
    "response.a ? response.b : response.c",
    'response.level == "a: b"',
    "!(response.depth > 5) && run.ok",
    ">5",
    "> 5",
    ">= response.limit",
)


@pytest.mark.parametrize("expression", TRAPS)
def test_the_form_that_an_error_offers_for_an_expression_works_when_it_is_pasted(
    expression: str, tmp_path: Path
) -> None:
    def list_hints(line: str) -> list[str]:
        file = tmp_path / "herdbeat.yaml"
        target = "version: 1\nendpoints:\n  - name: q\n    url: https://example.com\n    every: 5m\n"
        file.write_text(f"{target}    adapt:\n      - {line}\n        every: 30s\n", encoding="utf-8")
        return [each.hint for each in load_config(str(file), {}, tmp_path).errors]

    (hint,) = list_hints(f"when: {expression}")
    pasted = hint.partition(": ")[2]

    assert pasted.startswith("when: '")
    assert list_hints(pasted) == []


@pytest.mark.parametrize("written", ["1x", "0x", "0.5x", "101x", "1.2.3x"])
def test_a_pace_that_is_no_factor_is_not_said_to_lack_a_unit(written: str, tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    rule = f"{{ name: idle, when: run.ok, every: {written} }}"
    file.write_text(
        f"version: 1\nendpoints: [{{ name: q, url: 'https://example.com', every: 5m, adapt: [{rule}] }}]\n",
        encoding="utf-8",
    )

    (problem,) = load_config(str(file), {}, tmp_path).errors

    assert (problem.message, problem.hint) == (
        f'"{written}" is not a factor between 1 and 100.',
        'Write "2x" for twice the pace in force.',
    )
