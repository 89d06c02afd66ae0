"""docs/reference/problems.md: every code with its title, its cause and its fix."""

from herdbeat.error_codes import Code
from scripts import markdown

_INTRO = """\
Every problem has a code: a word that never changes, for scripts and for searching. `herdbeat validate --json` gives it
as `code`, together with `detail` (what happened), `hint` (what to do), `file`, `line`, `column`, `path`
(the keys that lead there, for people) and `pointer` (the same as a JSON Pointer into the file). The messages themselves
may become better from one version to the next.

Each code below has an address of its own: `problems.html#unknown_key`.
"""


def page() -> str:
    return markdown.page("Problems", _INTRO, *(_section(code) for code in Code))


def _section(code: Code) -> str:
    meaning = code.info
    return markdown.section(markdown.code(code), f"**{meaning.title}.** {meaning.cause}", f"*Mend:* {meaning.fix}")
