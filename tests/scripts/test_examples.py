"""The examples of a page are really played: old output, false claims and odd commands are noticed."""

from pathlib import Path

import pytest
from scripts.examples import WrongExample, played

FLEET = """\
<!-- {word}: herdbeat.yaml -->
```yaml
version: 1
commands:
  - {{ name: backup, command: [./backup.sh], cron: "{cron}" }}
```
"""


def test_old_output_is_replaced_by_what_is_printed_now(tmp_path: Path) -> None:
    page = '```console\n$ herdbeat next "0 9 * * *" -n 1\nsomething old\n```\n'

    text = played(page, tmp_path)

    assert "something old" not in text
    assert "Mon 02 Mar 2026  09:00 UTC" in text


def test_a_page_that_is_right_stays_as_it_is(tmp_path: Path) -> None:
    page = FLEET.format(word="file", cron="0 9 * * *") + "\nwords\n\n```console\n$ herdbeat validate\n```\n"
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()

    once = played(page, tmp_path / "first")

    assert played(once, tmp_path / "second") == once


def test_the_clock_of_a_page_can_be_set(tmp_path: Path) -> None:
    page = '<!-- clock: 2027-05-05T12:00:00Z -->\n```console\n$ herdbeat next "0 9 * * *" -n 1\n```\n'

    assert "Thu 06 May 2027" in played(page, tmp_path)


def test_the_exit_status_is_that_of_the_last_command(tmp_path: Path) -> None:
    page = "```console\n$ herdbeat nxt\n$ echo $?\n```\n"

    assert played(page, tmp_path).endswith("\n2\n```\n")


@pytest.mark.parametrize(("word", "cron"), [("file", "0 25 * * *"), ("broken file", "0 5 * * *")])
def test_a_file_that_is_not_what_the_page_says_is_refused(word: str, cron: str, tmp_path: Path) -> None:
    page = FLEET.format(word=word, cron=cron)

    with pytest.raises(WrongExample, match="is not"):
        played(page, tmp_path)


def test_a_false_claim_is_noticed_also_when_the_file_is_replaced_later(tmp_path: Path) -> None:
    page = FLEET.format(word="file", cron="0 25 * * *") + FLEET.format(word="file", cron="0 5 * * *")

    with pytest.raises(WrongExample, match="hour must be 0-23"):
        played(page, tmp_path)


@pytest.mark.parametrize("command", ["make demo", "herdbeat schema > schema.json", "herdbeat next | head"])
def test_what_cannot_be_played_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(WrongExample, match="not a plain call"):
        played(f"```console\n$ {command}\n```\n", tmp_path)


def test_a_block_inside_a_longer_fence_is_only_shown(tmp_path: Path) -> None:
    page = "````markdown\n```console\n$ make demo\n```\n````\n"

    assert played(page, tmp_path) == page


def test_the_name_of_a_file_is_the_title_of_its_block(tmp_path: Path) -> None:
    text = played(FLEET.format(word="file", cron="0 9 * * *"), tmp_path)

    assert '```yaml title="herdbeat.yaml"\nversion: 1\n' in text
