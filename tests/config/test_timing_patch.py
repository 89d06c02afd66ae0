"""The patch of a timing: taken by the real `git apply` and `patch`, and nothing but the timing changes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from herdbeat.bootstrap.config import load_config
from herdbeat.config.timing_patch import NoPatch, TimingChange, build_timing_patch, quote_value

FLEET = """\
# The fleet of the tests.
version: 1
fleet: { name: pets }
timezone: Europe/Berlin   # where we are
agents:
  - name: triage
    schedules:
      issues:
        type: interval
        interval: 5m      # often enough
        prompt: "Look: every 5m"
      standup: { cron: '0 9 * * MON-FRI', prompt: "Say hello." }
commands:
  - { name: backup, command: [echo, "5m"], every: 5m, timeout: 5m }
  - name: late
    command: [echo]
    at: 2030-01-01T00:00:00Z"""
PLACES = {"issues": (8, 7), "standup": (12, 7), "backup": (14, 5), "late": (15, 5)}
CHANGES = [
    ("issues", "interval", "10m", "interval: 10m      # often enough"),
    ("issues", "cron", "0 9 * * 1-5", 'cron: "0 9 * * 1-5"      # often enough'),
    ("standup", "cron", "@daily", 'standup: { cron: "@daily", prompt'),
    ("standup", "interval", "1h", "standup: { every: 1h, prompt"),
    ("backup", "interval", "90s", 'command: [echo, "5m"], every: 90s, timeout: 5m }'),
    ("late", "interval", "2h", "    every: 2h"),
]


def change(name: str, kind: str, value: str) -> TimingChange:
    line, column = PLACES[name]
    return TimingChange(line=line, column=column, kind=kind, value=value)


@pytest.mark.parametrize("tool", [["git", "apply", "-p1", "-"], ["patch", "-p1", "--silent"]])
@pytest.mark.parametrize(("name", "kind", "value", "expected"), CHANGES)
def test_git_and_patch_take_the_patch_and_the_fleet_has_the_new_timing(
    tmp_path: Path, tool: list[str], name: str, kind: str, value: str, expected: str
) -> None:
    if shutil.which(tool[0]) is None:  # a machine without patch still has git, which the tests need anyway
        tool = ["git", "apply", "-p1", "-"]
    file = tmp_path / "fleets" / "herdbeat.yaml"
    file.parent.mkdir()
    file.write_text(FLEET, encoding="utf-8")

    patch = build_timing_patch(FLEET, "fleets/herdbeat.yaml", change(name, kind, value))
    subprocess.run(tool, cwd=tmp_path, input=patch, text=True, check=True, capture_output=True)

    after = file.read_text(encoding="utf-8")
    assert expected in after
    assert len(patch.splitlines()) < 16
    loaded = load_config(str(file), {}, tmp_path).fleet
    assert loaded is not None
    (schedule,) = [each for each in loaded.schedules if name in (each.name, each.target)]
    assert schedule.trigger.kind == kind
    changed = [one for one, other in zip(FLEET.splitlines(), after.splitlines(), strict=True) if one != other]
    assert len(changed) <= 2  # the timing, and the type beside it


def test_a_file_with_a_separator_of_unicode_gets_a_patch_that_git_takes(tmp_path: Path) -> None:
    """The lines of a patch end at line feeds only."""
    text = FLEET.replace("Look: every 5m", "Look:\u2028 every 5m")
    (tmp_path / "herdbeat.yaml").write_text(text, encoding="utf-8")

    patch = build_timing_patch(text, "herdbeat.yaml", change("issues", "interval", "10m"))
    tool = ["git", "apply", "-p1", "-"]
    subprocess.run(tool, cwd=tmp_path, input=patch, text=True, check=True, capture_output=True)

    after = (tmp_path / "herdbeat.yaml").read_text(encoding="utf-8")
    assert after == text.replace("interval: 5m ", "interval: 10m ")


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("a: &x 5m\ns: { every: *x }\nt: { every: *x }\n", (2, 1), "not on the line of its key"),
        ("s: { every: &x 5m }\nt: { every: *x }\n", (1, 1), "not plain YAML"),
        ("s: &s { every: 5m }\nt: *s\n", (1, 1), "something else uses"),
        ("s: { prompt: hello }\n", (1, 1), "is not written in it"),
        ("s: { every: 5m, cron: '* * * * *' }\n", (1, 1), "is written twice"),
        ("s:\n  every:\n    5m\n", (1, 1), "not on the line of its key"),
        ("s: { every: 5m }\n", (7, 1), "its file has changed"),
        ("s: [", (1, 1), "not plain YAML"),
        ("- every: [5m]\n", (1, 3), "not a simple value"),
    ],
)
def test_a_file_that_cannot_be_patched_simply_says_why(text: str, place: tuple[int, int], why: str) -> None:
    with pytest.raises(NoPatch, match=why) as refused:
        build_timing_patch(text, "x.yaml", TimingChange(line=place[0], column=place[1], kind="interval", value="10m"))

    assert refused.value.hint


@pytest.mark.parametrize("value", ["10m", "0 9 * * 1-5", "@daily", "5", "2030-01-01T00:00:00Z", 'a "b" \\ c'])
def test_a_value_is_read_back_as_it_was_meant(value: str) -> None:
    import yaml

    assert yaml.load(f"x: {quote_value(value)}", Loader=yaml.BaseLoader) == {"x": value}
