"""The few forms of Markdown that generated pages need."""

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make reference` from the code. Change the code, not this page. -->"


def page(title: str, *parts: str) -> str:
    """A whole page: the notice, its title, and its parts with a blank line between them."""
    return "\n\n".join([NOTICE, f"# {title}", *(part.strip() for part in parts if part.strip())]) + "\n"


def section(title: str, *parts: str, level: int = 2) -> str:
    return "\n\n".join([f"{'#' * level} {title}", *(part.strip() for part in parts if part.strip())])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Bars inside a cell are escaped, for they would start another one."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def codes(texts: Iterable[str]) -> str:
    return " ".join(code(text) for text in texts)


def block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
