import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.config_folder import ConfigFolder

from herdbeat.config.files import expand_variables, parse_dotenv
from herdbeat.config.nodes import ConfigNode
from herdbeat.domain.references import escape_references
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation

PLACE = SourceLocation(file="a.yaml", line=1, column=1)
ENVIRON = {"HOST": "db", "EMPTY": "", "NESTED": "${HOST}"}
EXPANDED = [
    ("${HOST}", "db"),
    ("a-${HOST}-${HOST}", "a-db-db"),
    ("${EMPTY}", ""),
    ("${EMPTY:-x}", ""),
    ("${NONE:-x}", "x"),
    ("${NONE:-}", ""),
    ("${NESTED}", "${HOST}"),
    ("$HOST {{HOST}} ${{ x }} ${1}", "$HOST {{HOST}} ${{ x }} ${1}"),
    ("$${HOST} ${HOST} $$${HOST}", "${HOST} db $${HOST}"),
    ("$${NONE} $${NONE:-x} $${open", "${NONE} ${NONE:-x} ${open"),
    ("$$ $${1} $${{ x }}", "$$ $${1} $${{ x }}"),
]
LINES = [
    ("A=1", {"A": "1"}),
    ("export A = 1 ", {"A": "1"}),
    ("A='b # c' # d", {"A": "b # c"}),
    ('A="b\\nc"', {"A": "b\nc"}),
    ("A=b # c", {"A": "b"}),
    ("A=b#c", {"A": "b#c"}),
    ("A=", {"A": ""}),
    ("# A=1\nnonsense\n=2\nB=x=y", {"B": "x=y"}),
]


@pytest.mark.parametrize(("text", "value"), EXPANDED)
def test_a_variable_is_expanded_once(text: str, value: str) -> None:
    assert expand_variables(ConfigNode(text, PLACE), ENVIRON).value == value


def test_an_undefined_variable_is_recorded_and_the_text_kept() -> None:
    node = expand_variables(ConfigNode("x ${NONE} ${HOST}", PLACE), ENVIRON)

    assert (node.undefined_variable, node.value) == ("NONE", "x ${NONE} ${HOST}")


def test_a_node_has_the_names_of_its_variables() -> None:
    node = expand_variables(ConfigNode([ConfigNode("${HOST}/${EMPTY}", PLACE), ConfigNode(5, PLACE)], PLACE), ENVIRON)

    assert [child.variable_names for child in node.elements()] == ["HOST EMPTY", ""]


@given(st.text(alphabet="${}:-AB1 ") | st.text())
def test_escaped_text_is_read_as_it_was(text: str) -> None:
    escaped = ConfigNode(escape_references(text), PLACE)

    assert expand_variables(escaped, ENVIRON).value == text


@given(st.text())
def test_text_without_a_variable_is_never_changed(text: str) -> None:
    node = ConfigNode(text.replace("${", ""), PLACE)

    assert expand_variables(node, ENVIRON) is node


@pytest.mark.parametrize(("text", "found"), LINES)
def test_a_dotenv_line_may_have_export_quotes_and_comments(text: str, found: dict[str, str]) -> None:
    assert parse_dotenv(text) == found


@given(st.text())
def test_any_dotenv_text_can_be_parsed(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_dotenv(text).values())


def test_the_real_environment_wins_over_dotenv(folder: ConfigFolder) -> None:
    folder.environ["A"] = "real"
    folder.write({".env": "A=file\nB=file\n"})

    fleet = folder.fleet("fleet: { name: '${A}', description: '${B}' }")

    assert (fleet.name, fleet.description) == ("real", "file")


def test_a_variable_becomes_a_number_only_where_the_key_needs_one(folder: ConfigFolder) -> None:
    folder.environ["N"] = "42"

    fleet = folder.fleet("max_concurrent: '${N}'\nfleet: { name: '${N}' }\n")

    assert (fleet.max_concurrent, fleet.name) == (42, "42")


def test_the_value_of_a_variable_is_never_part_of_a_message(folder: ConfigFolder) -> None:
    folder.environ["KEY"] = "s3cret"

    result = folder.read("endpoints: [{ name: '${KEY}!', url: '${KEY}', every: '${KEY}', timeout: '${KEY}' }]")

    assert len(result.errors) == 4
    assert "s3cret" not in str(result.problems)


def test_an_unreadable_dotenv_is_a_warning(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "fleet: { description: '${WORD}' }"})
    (folder.path / ".env").write_bytes(b"WORD=b\xe4r\n")

    error, warning = folder.read({}).problems

    assert str(warning.where) == ".env:1:7"
    assert "not UTF-8" in warning.message
    assert error.code is Code.UNDEFINED_VARIABLE


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x85"])
def test_a_variable_with_a_separator_of_unicode_is_not_cut_there(separator: str) -> None:
    found = parse_dotenv(f'TEXT="a{separator}SECRET=b"\r\nNEXT=c\n')

    assert found == {"TEXT": f"a{separator}SECRET=b", "NEXT": "c"}
