"""The digest of a channel: what a night has brought."""

import json
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.agent_reports import reach_limit
from tests.support.work_herd import WorkHerd, open_work_herd

from herdbeat.domain.notification import ChannelRules
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.work_item import WorkItem
from herdbeat.service.notifications.digest import build_digest
from herdbeat.store.reader import SqliteReader

UTC = ZoneInfo("UTC")
HOUR = timedelta(hours=1)
HOURLY = ChannelRules(name="ops", conditions=frozenset(), tells_end=False, digest="0 * * * *")


def digest_of(herd: WorkHerd, at: datetime, rules: ChannelRules = HOURLY) -> dict[str, Any]:
    with closing(SqliteReader(herd.store.path)) as reader:
        found: dict[str, Any] = json.loads(json.dumps(build_digest(reader, rules, UTC, at, "").payload))
        return found


async def test_a_digest_names_the_items_that_are_done_and_what_waited_for_a_usage_limit(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.items = {
            number: WorkItem(id=number, title=title)
            for number, title in (("1", "Login fails"), ("2", "Two\nlines"), ("3", "Not done"))
        }
        herd.runner.outcomes = [
            Outcome(status=RunStatus.SUCCEEDED),
            reach_limit(herd.clock.now() + timedelta(minutes=10)),
            Outcome(status=RunStatus.SUCCEEDED),
            Outcome(status=RunStatus.FAILED, error="tests are red"),
        ]
        for _ in range(5):
            await herd.advance(timedelta(minutes=5))

        digest = digest_of(herd, herd.clock.now().replace(minute=0) + HOUR)

    assert digest["done"] == [
        {"schedule": "worker/backlog", "item": "1", "title": "Login fails"},
        {"schedule": "worker/backlog", "item": "2", "title": "Two\nlines"},
    ]
    assert digest["failed"] == {"worker/backlog": 1}
    assert digest["rate_limited"] == {"worker/backlog": 1}
    assert digest["text"].splitlines()[:4] == [
        "Since 2026-03-02 10:00: 2 runs succeeded, 1 failed, 0 beats were missed.",
        "Done: 1 Login fails, 2 Two lines",
        "Failed: worker/backlog (1)",
        "Waited for a usage limit: worker/backlog (1)",
    ]


async def test_a_digest_about_other_schedules_names_no_items(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.items = {"1": WorkItem(id="1", title="Login fails")}
        await herd.tick()
        others = ChannelRules(
            name="ops", conditions=frozenset(), tells_end=False, digest="0 * * * *", targets=frozenset({"other"})
        )

        digest = digest_of(herd, herd.clock.now() + HOUR, others)

    assert digest["done"] == []
