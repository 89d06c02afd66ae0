"""The exact output of the commands that need no ledger: `golden/<case>.txt`, one file for each.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest tests/cli/test_screens_without_ledger.py, and review the diff.
"""

from dataclasses import dataclass

import pytest
from tests.support.golden_screens import CLI_TESTS, GoldenScreen, unmatched_files

from herdbeat.testing.command_line import CommandLine


@dataclass(frozen=True, kw_only=True)
class Case(GoldenScreen):
    folder = "golden/without_ledger"
    columns: int | None = None


CASES = [
    Case(name="help", line="", columns=80),
    Case(name="help_wide", line="--help", columns=200),
    Case(name="help_config", line="config"),
    Case(name="help_validate", line="validate --help", columns=80),
    Case(name="help_config_show", line="config show -h", columns=80),
    Case(name="help_schema", line="schema -h", columns=80),
    Case(name="help_up", line="up -h", columns=80),
    Case(name="help_run", line="run -h", columns=80),
    Case(name="help_explain", line="explain -h", columns=80),
    Case(name="help_next", line="next -h", columns=80),
    Case(name="help_next_wide", line="next -h", columns=200),
    Case(name="help_completion", line="completion -h", columns=80),
    Case(name="unknown_command", line="nxt"),
    Case(name="unknown_option", line="next --cuont 3"),
    Case(name="unknown_schedule", line="next triage/standdup"),
    Case(name="unknown_schedule_json", line="next triage/standdup --json"),
    Case(name="validate", line="validate"),
    Case(name="validate_json", line="validate --json"),
    Case(name="validate_warned", line="validate warned.yaml"),
    Case(name="validate_strict", line="config validate warned.yaml --strict", columns=80),
    Case(name="validate_broken", line="validate broken.yaml", columns=80),
    Case(name="validate_broken_coloured", line="validate broken.yaml", columns=200, coloured=True),
    Case(name="validate_broken_json", line="validate broken.yaml --json"),
    Case(name="validate_broken_plain", line="validate broken.yaml --plain"),
    Case(name="validate_nothing", line="validate -c /"),
    Case(name="validate_missing_file", line="validate nowhere.yaml"),
    Case(name="config_show", line="config show", columns=80),
    Case(name="config_show_unknown", line="config show quue-depth"),
    Case(name="next_cron", line='next "0 9 * * 1-5" -n 3'),
    Case(name="next_cron_bad", line='next "0 25 * * *"'),
    Case(name="next_interval", line="next 5m --utc"),
    Case(name="next_delay", line="next 2026-12-01T09:00:00Z"),
    Case(name="next_gap_night", line='next --cron "30 2 * * *" --from 2026-03-28 -n 3'),
    Case(name="next_gap_night_narrow", line='next "30 2 * * *" --from 2026-03-28 -n 3', columns=80),
    Case(name="next_repeated_hour", line='next "*/30 2 * * *" --from 2026-10-25 -n 5'),
    Case(name="next_json", line='next "0 9 * * 1-5" -n 1 --json'),
    Case(name="next_by_hour", line='next "*/20 9-11 * * *" --until 24h --by hour'),
    Case(name="next_by_hour_json", line="next @hourly --until 2h --by hour --json"),
    Case(name="next_fleet", line="next", columns=80),
    Case(name="next_fleet_wide", line="next", columns=200),
    Case(name="next_fleet_coloured", line="next", columns=80, coloured=True),
    Case(name="next_fleet_plain", line="next --plain"),
    Case(name="next_fleet_json", line="next --until 10m --json"),
    Case(name="next_fleet_merged", line="next -n 6"),
    Case(name="next_fleet_broken", line="next -c broken.yaml -n 2"),
    Case(name="next_schedule", line="next triage/standup -n 2"),
    Case(name="next_schedule_verbose", line="next triage/standup -n 2 -v"),
    Case(name="next_disabled", line="next devops/old-promo"),
    Case(name="next_webhook", line="next devops/deploy"),
    Case(name="completion_bash", line="completion bash"),
    Case(name="completion_zsh", line="completion zsh"),
    Case(name="completion_fish", line="completion fish"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_matches_the_golden_file(case: Case, cli: CommandLine) -> None:
    cli.folder = CLI_TESTS / "fleet"

    answer = case.run(cli)

    text = case.transcript(answer)
    assert text == case.golden(text)


def test_every_golden_file_belongs_to_a_case() -> None:
    assert unmatched_files(CASES) == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.columns], ids=lambda case: case.name)
def test_lines_fit_the_screen(case: Case) -> None:
    assert case.wide_lines() == []
