"""`herdbeat replay`: all that was decided is decided again, and a difference is told by lines, JSON and exit code."""

import sqlite3
from contextlib import closing

from herdbeat.testing.command_line import CommandLine

FLEET = """
commands:
  - { name: backup, command: ["true"], cron: "0 3 * * *" }
  - { name: tidy, command: ["true"], cron: "*/10 * * * *" }
"""


def test_a_ledger_replays_and_a_changed_decision_is_found(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    assert cli.run("pause", "tidy", "--for", "1h", "--reason", "calm").status == 0

    clean = cli.run("replay")
    with closing(sqlite3.connect(cli.folder / ".herdbeat" / "herdbeat.db")) as ledger:
        ledger.execute("UPDATE schedule SET next_trace = replace(next_trace, 'baseline', 'base line') WHERE id = 1")
        ledger.commit()
    changed, as_json = cli.run("replay"), cli.run("replay", "--json")

    assert (clean.status, clean.out) == (
        0,
        "2 of 2 stored decisions of 2 schedules recomputed; the results are the same.\n",
    )
    assert (changed.status, as_json.status) == (1, 1)
    assert "backup, its next run: the decision is another one today" in changed.err
    (item,) = as_json.json()["items"]
    assert (item["schedule"], item["beat"], as_json.json()["different"]) == ("backup", None, 1)
    assert "base line" in str(item["stored"])
    assert "base line" not in str(item["replayed"])
