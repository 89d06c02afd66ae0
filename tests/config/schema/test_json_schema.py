import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.schema.fleet import build_json_schema, list_tables
from herdbeat.config.schema.policies import POLICIES
from herdbeat.config.yaml import parse_yaml

CASES = Path(__file__).parents[1] / "cases"
FLEETS = sorted(
    path
    for path in CASES.rglob("*.yaml")
    if path.relative_to(CASES).parts[0].startswith("good_")
    and (path.name == "herdbeat.yaml" or (path.parent == CASES and not path.stem.endswith("_alone")))
)


@pytest.mark.parametrize("which", ["fleet", "agent"])
def test_the_schema_is_valid_json_schema(which: str) -> None:
    schema = build_json_schema(which)

    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("file", FLEETS, ids=lambda path: path.relative_to(CASES).as_posix())
def test_every_valid_configuration_passes_the_json_schema(file: Path) -> None:
    document = plain(file)

    errors = list(jsonschema.Draft202012Validator(build_json_schema("fleet")).iter_errors(document))

    assert errors == []


@pytest.mark.parametrize("name", ["bad_unknown_key", "bad_unknown_top_key", "bad_other_words", "bad_overlap"])
def test_the_json_schema_rejects_invalid_values(name: str) -> None:
    document = plain(CASES / f"{name}.yaml")

    is_valid = jsonschema.Draft202012Validator(build_json_schema("fleet")).is_valid(document)

    assert not is_valid


def test_an_agent_file_has_a_schema_of_its_own() -> None:
    document = plain(CASES / "good_ux_fleet/agents/triage.yaml")

    errors = list(jsonschema.Draft202012Validator(build_json_schema("agent")).iter_errors(document))

    assert errors == []


def test_every_key_has_a_meaning_for_the_reference() -> None:
    tables = {table.title: table for table in list_tables()}

    assert set(tables["A schedule"].by_name) >= {key.name for key in POLICIES}
    for key in (key for table in tables.values() for key in table.keys):
        assert key.field_type.describe()
        assert bool(key.meaning) != bool(key.unsupported_reason), key
        assert key.meaning == "" or key.meaning.endswith(".")


def test_two_tables_with_one_title_are_one_definition() -> None:
    assert len(build_json_schema("fleet")["$defs"]) >= len(list_tables()) - 1  # type: ignore[arg-type]


def plain(file: Path) -> Any:
    tree = parse_yaml(file.read_text(encoding="utf-8"), file.name, Diagnostics())
    assert tree is not None
    return tree.to_data()
