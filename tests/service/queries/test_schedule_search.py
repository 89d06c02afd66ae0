"""Searching schedules: words, fields and exclusions, all of which must agree."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.server.conftest import ServedFleet

from herdbeat.service.queries.schedule_search import find_outlines, parse_search, search_schedules

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["triage/issues", "triage/standup", "queue-depth", "backup"]),
        ("TRIAGE", ["triage/issues", "triage/standup"]),
        ("tri up", ["triage/standup"]),
        ("-triage", ["queue-depth", "backup"]),
        ("tag:vendor-x", ["triage/issues", "queue-depth"]),
        ("tag:vendor-x -queue", ["triage/issues"]),
        ("-tag:vendor-x", ["triage/standup", "backup"]),
        ("target:triage kind:cron", ["triage/standup"]),
        ("state:failing", ["triage/issues"]),
        ("-state:failing -state:new", []),
        ("tag:nobody", []),
        ("state:nonsense", []),
        ("unknown:field", []),
        ("-", ["queue-depth"]),
    ],
)
def test_a_search_finds_what_all_its_terms_agree_on(tmp_path: Path, text: str, found: list[str]) -> None:
    served = ServedFleet(tmp_path)

    with served.gateway.open() as handle:
        records = find_outlines(handle.require_reader(), parse_search(text), NOW)

    assert [each.label for each in records] == found
    served.gateway.close()


def test_pages_of_a_search_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    served = ServedFleet(tmp_path)
    labels: list[str] = []
    after: int | None = None

    with served.gateway.open() as handle:
        for _ in range(4):
            page = search_schedules(handle.require_reader(), parse_search("-nothing"), NOW, after=after, limit=1)
            labels += [each.label for each in page.rows]
            after = page.next_after

    assert labels == ["triage/issues", "triage/standup", "queue-depth", "backup"]
    assert after is None
    served.gateway.close()
