"""What `--json` prints keeps its shape."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from herdbeat.domain.decision import Source, StepKind
from herdbeat.error_codes import Code
from herdbeat.service.queries.expressions import NoNextRunReason
from herdbeat.testing.command_line import CommandLine

FLEET = Path(__file__).parent / "fleet"

TEXT = {"type": "string"}
INSTANT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"}
LOCAL = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d:\d\d$"}
NUMBER = {"type": ["integer", "null"]}
MAYBE = {"type": ["string", "null"]}


def shape(**properties: Any) -> dict[str, Any]:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def rows(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": shape(**properties)}


PROBLEMS = rows(
    severity={"enum": ["error", "warning"]},
    code={"enum": list(Code)},
    detail=TEXT,
    hint=TEXT,
    file=MAYBE,
    line=NUMBER,
    column=NUMBER,
    path=MAYBE,
    pointer={"type": ["string", "null"], "pattern": "^(/.*)?$"},
)
VALIDATE = shape(
    valid={"type": "boolean"},
    files={"type": "array", "items": TEXT},
    targets={"type": "integer"},
    schedules={"type": "integer"},
    problems=PROBLEMS,
)
STEP = {
    "type": "object",
    "properties": {
        "kind": {"enum": list(StepKind)},
        "text": TEXT,
        "at": INSTANT,
        "source": {"enum": list(Source)},
        "origin": TEXT,
        "won": {"type": "boolean"},
    },
    "required": ["kind", "text"],
    "additionalProperties": False,
}
NEXT = shape(
    **{"from": INSTANT},
    until={"type": ["string", "null"]},
    timezone=TEXT,
    trigger={"type": ["object", "null"], "required": ["kind", "description"]},
    items=rows(
        schedule=MAYBE,
        due_at=INSTANT,
        starts_at=INSTANT,
        next_run_at=INSTANT,
        local=LOCAL,
        source={"enum": list(Source)},
        notes={"type": "array", "items": TEXT},
        steps={"type": "array", "items": STEP},
    ),
    idle=rows(schedule=TEXT, standing={"enum": list(NoNextRunReason)}, reason=TEXT),
)
HOURS = shape(
    **{"from": INSTANT},
    until=INSTANT,
    timezone=TEXT,
    hours=rows(local=LOCAL, count={"type": "integer"}, most_at_once={"type": "integer"}),
)
VALUES = shape(values=rows(path=TEXT, value={}, origin=TEXT, file=MAYBE, line=NUMBER, column=NUMBER))


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (("validate",), VALIDATE),
        (("validate", "broken.yaml"), VALIDATE),
        (("validate", "warned.yaml"), VALIDATE),
        (("validate", "nowhere.yaml"), VALIDATE),
        (("next",), NEXT),
        (("next", "-n", "20"), NEXT),
        (("next", "triage/standup"), NEXT),
        (("next", "devops/deploy"), NEXT),
        (("next", "0 9 * * *"), NEXT),
        (("next", "5m"), NEXT),
        (("next", "2020-01-01T00:00:00Z"), NEXT),
        (("next", "--by", "hour"), HOURS),
        (("next", "@hourly", "--by", "hour", "--until", "3d"), HOURS),
        (("config", "show"), VALUES),
        (("config", "show", "triage/*"), VALUES),
    ],
)
def test_json_has_the_promised_shape(cli: CommandLine, words: tuple[str, ...], schema: dict[str, Any]) -> None:
    cli.folder = FLEET

    answer = cli.run(*words, "--json")

    jsonschema.validate(answer.json(), schema)


def test_an_error_is_json_with_the_json_option(cli: CommandLine) -> None:
    cli.folder = FLEET

    answer = cli.run("next", "nobody", "--json")

    assert (answer.status, answer.out) == (3, "")
    jsonschema.validate(json.loads(answer.err), shape(problems=PROBLEMS))


@pytest.mark.parametrize("which", ["fleet", "agent"])
def test_the_schema_of_a_file_is_a_schema(cli: CommandLine, which: str) -> None:
    schema = cli.run("schema", which).json()

    jsonschema.Draft202012Validator.check_schema(schema)


def test_schema_without_an_argument_prints_the_fleet_schema(cli: CommandLine) -> None:
    assert cli.run("schema").out == cli.run("schema", "fleet").out


def test_the_json_of_a_preview_contains_the_trace(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(
        "commands: [{ name: c, command: [x], cron: '0 9 * * *', jitter: 5m }]", encoding="utf-8"
    )

    (item,) = cli.run("next", "c", "-n", "1", "--json").json()["items"]

    assert [step["kind"] for step in item["steps"]] == ["candidate", "jitter"]
    assert item["steps"][0]["won"] is True
    assert item["steps"][-1]["at"] == item["next_run_at"]


def test_a_pointer_resolves_to_the_value_in_the_file(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(
        "commands: [{ name: a, command: [x], every: 5m }, { name: b, command: [x], cron: nope }]",
        encoding="utf-8",
    )

    (problem,) = cli.run("validate", "--json").json()["problems"]

    assert problem["path"] == "commands.b.cron"
    assert problem["pointer"] == "/commands/1/cron"
