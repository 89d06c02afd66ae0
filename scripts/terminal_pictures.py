"""Write the pictures of terminals in docs/img: real output of a real fleet, as SVG.

`python -m scripts.terminal_pictures` runs the fleet of README.md for some seconds. The pictures show the times of
that run, so no test compares them; run it again when a screen has changed, and look at the result.
"""

import html
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"
COLUMNS = 90
SECONDS = 45
_CHARACTER, _LINE, _MARGIN = 8.4, 19, 16
_SGR = re.compile(r"\x1b\[([\d;]*)m")
_COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#f2cc60", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 90: "#8b949e"}
_FLEET = re.compile(r'^```yaml title="herdbeat.yaml"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    fleet = _FLEET.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert fleet is not None
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "my-fleet"
        folder.mkdir()
        (folder / "herdbeat.yaml").write_text(fleet[1], encoding="utf-8")
        _write("up", "herdbeat up", _run_up(folder))


def _run_up(folder: Path) -> str:
    """Return what `up` printed. The other pictures are taken while it runs."""
    with subprocess.Popen(_command("up"), cwd=folder, env=_environ(), stdout=subprocess.PIPE, text=True) as up:  # noqa: S603
        time.sleep(SECONDS)
        for words in (("status",), ("explain", "shaky")):
            shown = subprocess.check_output(_command(*words), cwd=folder, env=_environ(), text=True)  # noqa: S603
            _write(words[0], f"herdbeat {' '.join(words)}", shown)
        up.terminate()
        output, _ = up.communicate()
    return "\n".join(output.splitlines()[:24])


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "herdbeat", *words]


def _environ() -> dict[str, str]:
    return {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TZ": "Europe/Berlin"}


def _write(name: str, command: str, output: str) -> None:
    lines = [f"\x1b[90m$\x1b[0m {command}", *output.rstrip("\n").splitlines()]
    width, height = COLUMNS * _CHARACTER + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    rows = "\n".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + 14 + at * _LINE}" xml:space="preserve">{_spans(line)}</text>'
        for at, line in enumerate(lines)
    )
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">\n'
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f'<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" fill="#e6edf3">\n{rows}\n</g>\n</svg>\n'
    )
    (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")


def _spans(line: str) -> str:
    """Return the line with its colours as tspans. `textLength` keeps columns aligned in any font."""
    spans, style, start = [], "", 0
    for code in [*_SGR.finditer(line), None]:
        text = line[start : code.start() if code else None]
        if text:
            width = f'textLength="{len(text) * _CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"'
            spans.append(f"<tspan {width}{style}>{html.escape(text)}</tspan>")
        if code:
            start, style = code.end(), _style([int(each or 0) for each in code[1].split(";")], style)
    return "".join(spans)


def _style(codes: list[int], style: str) -> str:
    for each in codes:
        if each == 0:
            style = ""
        elif each == 1:
            style += ' font-weight="bold"'
        elif each == 2:
            style += ' fill="#8b949e"'
        elif each in _COLOURS or each - 60 in _COLOURS:
            style += f' fill="{_COLOURS.get(each) or _COLOURS[each - 60]}"'
    return style


if __name__ == "__main__":
    main()
