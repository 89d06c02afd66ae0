"""Texts that people read contain none of the phrases that readers have stumbled over.

Read are the string literals of the sources, the files that the package ships, the documentation, and the golden
screens. Each phrase comes with the words to use instead.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PHRASES = {
    r"mend(s|ed|ing)?": "fix",
    r"it never was": "never started",
    r"nobody can be asked": "not an interactive terminal",
    r"(is|are|was|were) written down": "saved",
    r"counts (at once|from the next)": "takes effect",
    r"insist(s|ed|ing)?": "overwrite, kill immediately, retry anyway",
    r"takes? warnings for errors": "treat warnings as errors",
    r"more of the story": "verbose output",
    r"takes? back what was wished": "remove hints",
    r"asking twice is asking once": "repeating has no effect",
    r"is the ledger well": "check the ledger",
    r"(one )?words? too many": "unexpected argument",
    r"(user|person) whose it is": "its owner",
    r"(is|are) so already": "no change",
    r"armed again": "re-armed",
    r"(to )?let pass": "skipped by request",
    r"call off what waits": "cancel queued beats",
    r"(failed|failing) \d+ not recovered": "FAILING 5",
    r"held \d+( by hand)?": "PAUSED 2, DISABLED 2",
    r"what\s+of\s+how": "ACTION, SCHEDULE, DETAILS",
    r"on call": "waits for an event",
    r"itself failed": "internal error",
    r"whoever (awaits|comes|has|is|may|reaches|reads|sends|sent|shares|wants)": "the client, the sender, the reader",
    r"what(ever)? (became|becomes) of": "the outcome of, what happens to",
    r"can(not)? be told( `|\.)": "has (no) option for",
    r"(condition|conditions|end|ends|episode|episodes) (is|are) (not )?told": "reported",
    r"(that|who|it) hears?": "accepts, is addressed to",
    r"whose it is": "its owner",
    r"nobody (could be asked|looks after|has been told|here listens)": "it needs approval; unattended; none was sent",
    r"cannot be had": "is not available",
    r"tells? nobody": "sends no notifications",
    r"you know what you do": "nothing, or the reason",
    r"takes? (it|that) back": "undo, cancel",
}

_GROUPS = "|".join(rf"(?P<p{number}>{phrase})" for number, phrase in enumerate(PHRASES))
_PATTERN = re.compile(rf"\b(?:{_GROUPS})\b".replace(" ", r"\s+"), re.IGNORECASE)

TEXT_FILES = (
    "*.md",
    "docs/**/*.md",
    "docs/**/*.svg",
    "src/**/*.yaml",
    "src/**/*.md",
    "examples/**/*.yaml",
    "examples/**/*.md",
    "deploy/**/*.md",
    "tests/cli/golden/**/*.txt",
    "tests/config/cases/**/*.txt",
)
SOURCE_FILES = ("src/**/*.py", "scripts/**/*.py", "examples/**/*.py")


def find_phrases(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the phrase and what to write instead. A phrase may continue on the next line."""
    for found in _PATTERN.finditer(text):
        number = next(int(name[1:]) for name, matched in found.groupdict().items() if matched is not None)
        line = text.count("\n", 0, found.start()) + 1
        yield line, " ".join(found[0].split()), list(PHRASES.values())[number]


def literal_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of every string literal, docstrings included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def all_findings() -> Iterator[str]:
    for path in _files(TEXT_FILES):
        for line, phrase, instead in find_phrases(path.read_text(encoding="utf-8")):
            yield f'{path.relative_to(ROOT)}:{line}  "{phrase}": write {instead}'
    for path in _files(SOURCE_FILES):
        for first, text in literal_texts(path.read_text(encoding="utf-8")):
            for line, phrase, instead in find_phrases(text):
                yield f'{path.relative_to(ROOT)}:{first + line - 1}  "{phrase}": write {instead}'


def _files(patterns: tuple[str, ...]) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})


def test_no_text_contains_a_phrase_that_readers_stumble_over() -> None:
    findings = list(all_findings())

    assert not findings, "\n".join(["", *findings])


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("how to mend it", "mend"),
        ("It is written\ndown", "is written down"),
        ("HELD 2 by hand", "HELD 2 by hand"),
        ("WHEN  WHO  WHAT   OF   HOW", "WHAT OF HOW"),
        ("herdbeat itself failed", "itself failed"),
        ("the end of an episode is told", "episode is told"),
        ("whoever reads\nit", "whoever reads"),
    ],
)
def test_a_phrase_is_found(text: str, phrase: str) -> None:
    assert [found for _, found, _ in find_phrases(text)] == [phrase]


@pytest.mark.parametrize("text", ["we recommend an amendment", "inconsistent", "a function called sys.exit", "on-call"])
def test_an_ordinary_word_is_not_taken_for_a_phrase(text: str) -> None:
    assert not list(find_phrases(text))
