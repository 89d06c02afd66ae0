"""Check that a tag, the version, the changelog and the README agree before a release is published.

`python -m scripts.release v0.1.0` prints what disagrees and exits with 1, or prints the version and exits with 0.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from herdbeat import __version__

ROOT = Path(__file__).parent.parent
_SECTION = re.compile(r"^## (?P<name>\S+)(?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
_FINAL = re.compile(r"\d+\.\d+\.\d+")
_SHOWN = re.compile(r"^herdbeat (\d+\.\d+\S*)", re.MULTILINE)


def newest_release(changelog: str) -> tuple[str, str]:
    """Return version and date of the newest section that is not `Unreleased`; empty words if there is none."""
    for section in _SECTION.finditer(changelog):
        if section["name"] != "Unreleased":
            return section["name"], section["date"] or ""
    return "", ""


def problems(version: str, changelog: str, readme: str) -> Iterator[str]:
    """What must be right in every commit. A version that ends in `.devN` is newer than the newest section."""
    newest, date = newest_release(changelog)
    if not newest or not date:
        yield 'CHANGELOG.md: the newest release needs a heading such as "## 0.1.0 - 2026-11-16".'
    elif _FINAL.fullmatch(version) and newest != version:
        yield f"CHANGELOG.md: the newest section is {newest}, but __version__ is {version}."
    elif not _FINAL.fullmatch(version) and _numbers(newest) >= _numbers(version):
        yield f"src/herdbeat/__init__.py: {version} comes before {newest}, which CHANGELOG.md calls released."
    for shown in _SHOWN.findall(readme):
        if newest and shown != newest:
            yield f"README.md: an example shows herdbeat {shown}; the newest release is {newest}."


def problems_of_tag(tag: str, version: str) -> Iterator[str]:
    """What must also be right for a tag that is published."""
    if not _FINAL.fullmatch(version):
        yield f"src/herdbeat/__init__.py: {version} is not a release; write it as MAJOR.MINOR.PATCH."
    elif tag != f"v{version}":
        yield f"The tag is {tag}, but __version__ is {version}; the tag must be v{version}."


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def main(tag: str) -> int:
    changelog, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "README.md"))
    found = [*problems_of_tag(tag, __version__), *problems(__version__, changelog, readme)]
    sys.stdout.write("".join(f"{line}\n" for line in found or [f"{tag} is ready to be published."]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
