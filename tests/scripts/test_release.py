"""A release is refused unless tag, version, changelog and README agree."""

import pytest
from scripts.release import ROOT, newest_release, problems, problems_of_tag

from herdbeat import __version__

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- New.\n\n## 0.1.0 - 2026-11-16\n"
README = "$ herdbeat up\nherdbeat 0.2.0   demo\n"


def test_this_checkout_agrees_with_itself() -> None:
    changelog, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "README.md"))

    assert list(problems(__version__, changelog, readme)) == []


def test_the_newest_release_is_the_first_section_with_a_number() -> None:
    assert newest_release(CHANGELOG) == ("0.2.0", "2026-12-01")


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0.dev0", "0.2.1.dev0"])
def test_a_release_and_the_development_after_it_agree(version: str) -> None:
    assert list(problems(version, CHANGELOG, README)) == []


@pytest.mark.parametrize(
    ("version", "changelog", "readme", "place"),
    [
        ("0.3.0", CHANGELOG, README, "CHANGELOG.md"),
        ("0.2.0.dev0", CHANGELOG, README, "src/herdbeat/__init__.py"),
        ("0.2.0", CHANGELOG, README.replace("0.2.0", "0.1.0"), "README.md"),
        ("0.2.0", CHANGELOG.replace(" - 2026-12-01", ""), README, "CHANGELOG.md"),
        ("0.2.0", "# Changelog\n\n## Unreleased\n", "", "CHANGELOG.md"),
    ],
)
def test_a_disagreement_names_the_file_to_edit(version: str, changelog: str, readme: str, place: str) -> None:
    found = list(problems(version, changelog, readme))

    assert [line.split(":")[0] for line in found] == [place]


@pytest.mark.parametrize(
    ("tag", "version", "count"),
    [("v0.2.0", "0.2.0", 0), ("0.2.0", "0.2.0", 1), ("v0.3.0", "0.2.0", 1), ("v0.3.0.dev0", "0.3.0.dev0", 1)],
)
def test_a_tag_is_the_letter_v_and_a_final_version(tag: str, version: str, count: int) -> None:
    assert len(list(problems_of_tag(tag, version))) == count
