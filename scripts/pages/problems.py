"""docs/reference/problems.md: every code with its title, its cause and its fix."""

from herdbeat.error_codes import Code
from scripts import markdown

_INTRO = """\
Every problem has a stable code, for scripts and for searching. `herdbeat validate --json` prints it as `code`, together
with `detail` (what happened), `hint` (how to fix it), `file`, `line`, `column`, `path` (the keys that lead to the
value, for people) and `pointer` (the same as a JSON Pointer into the file). Codes never change; the wording of messages
can.

Each code has its own anchor: `problems.html#unknown_key`.
"""


def page() -> str:
    return markdown.page("Problems", _INTRO, *(_section(code) for code in Code))


def _section(code: Code) -> str:
    meaning = code.info
    return markdown.section(markdown.code(code), f"**{meaning.title}.** {meaning.cause}", f"*Fix:* {meaning.fix}")
