import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.config.diagnostics import Diagnostics, find_cron_token_offset, locate_in_scalar
from herdbeat.config.yaml import parse_yaml

FORMS = [
    ("a: see {{x}}\n", 1, 8),
    ('a: "see {{x}}"\n', 1, 9),
    ("a: |\n  one\n  see {{x}}\n", 3, 7),
    ("b: 1\na: |-\n\n     one\n     see {{x}}\n", 5, 10),
    ("a: >\n  one\n  see {{x}}\n", 1, 4),
    ('a: "tab\\t {{x}}"\n', 1, 4),
]


@pytest.mark.parametrize(("text", "line", "column"), FORMS)
def test_a_part_of_a_scalar_is_located_in_its_file(text: str, line: int, column: int) -> None:
    tree = parse_yaml(text, "a.yaml", Diagnostics())
    assert tree is not None
    node = tree.find(("a",))

    location = locate_in_scalar(node, str(node.value).index("{{x}}"), 5, text)

    assert (location.line, location.column) == (line, column)


def test_an_error_in_a_prompt_file_is_located_in_that_file(folder: ConfigFolder) -> None:
    workflow = "{ name: w, agent: a, source: { type: manual }, prompt_template_file: ../p.md }"
    folder.write({".agentd/agents/a.yml": "name: a", ".agentd/p.md": "x\n {{y}}"})

    result = folder.read({".agentd/workflows/w.yml": workflow})

    (problem,) = result.problems
    assert str(problem.where) == ".agentd/p.md:2:2"


@pytest.mark.parametrize(
    ("expression", "field", "token", "offset"),
    [
        ("0 25 * * *", "hour", "25", 2),
        ("25 25  * * *", "hour", "25", 3),
        ("0 0 25 * * *", "hour", "25", 4),
        ("1,77 * * * *", "minute", "77", 2),
        ("0 9 *", "hour", "25", None),
        ("", "hour", "25", None),
        ("@daily", None, "@daily", None),
    ],
)
def test_a_token_of_a_cron_expression_is_located_in_its_field(
    expression: str, field: str | None, token: str, offset: int | None
) -> None:
    assert find_cron_token_offset(expression, field, token) == offset
