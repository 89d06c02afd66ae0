"""Play the examples of a page, and put what really happens into it.

A page is a story that begins in an empty folder. Its commands are the `console` blocks; comments set the scene:

    <!-- file: herdbeat.yaml -->          the next block is this whole file; it must be valid
    <!-- broken file: herdbeat.yaml -->   the next block is this whole file; it must not be valid
    <!-- other file: my.crontab -->       the next block is this whole file; it is no fleet
    <!-- folder: demo/fleet -->           the files of this folder of the checkout are there
    <!-- clock: 2026-03-28T12:00:00Z -->  from here on it is that time

`python -m scripts.examples` compares every page with its story, `--write` brings the pages up to date.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from herdbeat.cli.main import main as herdbeat
from herdbeat.clock import Clock
from herdbeat.testing import FakeClock
from herdbeat.timestamps import parse_timestamp

ROOT = Path(__file__).parent.parent
_MONDAY_MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_ENVIRON = {"COLUMNS": "90", "TZ": "UTC"}
_PART = re.compile(
    r"^<!-- (?P<word>clock|folder|file|broken file|other file): (?P<value>\S+) -->$"
    r"|^(?P<fence>`{3,})(?P<language>\w+)(?: title=\S+)?\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_WHOLE = ("file", "broken file", "other file")


class WrongExample(Exception):
    """An example that cannot be played, or a file that is not what the page says it is."""


@dataclass(slots=True)
class Story:
    """The folder, the clock and the last exit status of one page."""

    folder: Path
    clock: Clock = field(default_factory=lambda: FakeClock(_MONDAY_MORNING))
    status: int = 0
    is_broken: bool | None = None
    """What the page says of its fleet; None while it says nothing."""

    def set_scene(self, word: str, value: str) -> None:
        if word == "clock":
            self.clock = FakeClock(parse_timestamp(value))
        elif word == "folder":
            self.keep_word()
            shutil.copytree(ROOT / value, self.folder, dirs_exist_ok=True)

    def put(self, word: str, name: str, text: str) -> None:
        """Write a whole file. What it replaces must have been what the page said of it."""
        path = self.folder / name
        if path.exists():
            self.keep_word()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if word != "other file":
            self.is_broken = word == "broken file"

    def keep_word(self) -> None:
        """Raises WrongExample if a valid fleet is not valid, or a broken one is."""
        if self.is_broken is None:
            return
        output = StringIO()
        status = self._call(["validate"], output)
        if bool(status) is not self.is_broken:
            said = "broken" if self.is_broken else "valid"
            raise WrongExample(f"a file that the page calls {said} is not:\n{output.getvalue()}")
        self.is_broken = None

    def run(self, command: str) -> str:
        if command == "echo $?":
            return f"{self.status}\n"
        words = shlex.split(command)
        if words[:1] != ["herdbeat"] or set(words) & {"|", ">", "<", "&&", ";"}:
            raise WrongExample(f'"{command}" is not a plain call of herdbeat; show it in a block of sh')
        output = StringIO()
        self.status = self._call(words[1:], output)
        return output.getvalue()

    def _call(self, words: Sequence[str], output: StringIO) -> int:
        return herdbeat(words, out=output, err=output, environ=_ENVIRON, clock=self.clock, folder=self.folder)


def pages() -> list[Path]:
    """Every page with examples that somebody may try."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def played(text: str, folder: Path) -> str:
    """The text of a page with the output that its commands really have, in a folder that is empty so far."""
    story = Story(folder / "my-fleet")  # a fleet without a name is called after its folder
    story.folder.mkdir()
    parts: list[str] = []
    end, scene = 0, ("", "")
    for part in _PART.finditer(text):
        parts += [text[end : part.start()], _played_part(part, scene, story)]
        end, scene = part.end(), (part["word"] or "", part["value"] or "")
    story.keep_word()
    return "".join([*parts, text[end:]])


def _played_part(part: re.Match[str], scene: tuple[str, str], story: Story) -> str:
    word, name = scene
    if part["word"]:
        story.set_scene(part["word"], part["value"])
    elif word in _WHOLE:
        story.put(word, name, part["text"])
        # Readers do not see the comment; without the title they would have to guess where the block belongs.
        return f'{part["fence"]}{part["language"]} title="{name}"\n{part["text"]}{part["fence"]}'
    elif part["language"] == "console":
        return "".join(["```console\n", *_played_commands(part["text"], story), "```"])
    return part[0]


def _played_commands(text: str, story: Story) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n"
            yield story.run(line.removeprefix("$ "))


def main(arguments: Sequence[str]) -> int:
    old = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        with TemporaryDirectory() as folder:
            new = played(text, Path(folder).resolve())
        if new != text and "--write" in arguments:
            page.write_text(new, encoding="utf-8")
        if new != text:
            old += 1
            sys.stdout.write(f"{page.relative_to(ROOT)} is {'brought up to date' if arguments else 'out of date'}\n")
    return 1 if old and not arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
