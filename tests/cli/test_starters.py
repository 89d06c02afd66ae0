"""The starter files of `init`: each is valid and matches its description."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.cli.commands.init import STARTERS, Starter, render_starter
from herdbeat.cli.spec import TEMPLATE
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

CLOCK = FakeClock(datetime(2026, 3, 2, 8, 0, tzinfo=UTC))


@pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: starter.name)
def test_a_starter_has_no_warning(starter: Starter, tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(render_starter(starter.name, "007"), encoding="utf-8")

    answer = CommandLine(folder=tmp_path, clock=CLOCK).run("validate", "--json")

    assert [problem["code"] for problem in answer.json()["problems"]] == []


@pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: starter.name)
def test_a_starter_begins_with_the_comment_for_editors_and_has_its_name(starter: Starter) -> None:
    first, *rest = render_starter(starter.name, "my-fleet").splitlines()

    assert first == "# yaml-language-server: $schema=.herdbeat/schema.json"
    assert 'fleet: { name: "my-fleet" }' in rest


def test_the_option_offers_every_starter() -> None:
    assert TEMPLATE.choices == tuple(starter.name for starter in STARTERS)
