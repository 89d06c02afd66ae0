"""Pages of facts: a headline, lines of a word and a text, and groups of rows below a title."""

from collections.abc import Sequence

from herdbeat.cli.output.terminal import Terminal, display_width, printable


def print_headline(terminal: Terminal, name: str, *parts: str) -> None:
    """The name, and what there is to say about it at once. Parts that do not fit stand below."""
    first = terminal.style(printable(name), "bold")
    for line in fold_parts(terminal, [first, *(each for each in parts if each)], "  "):
        terminal.print(line)


def fold_parts(terminal: Terminal, parts: Sequence[str], indent: str = "") -> list[str]:
    """The parts side by side, in as many lines as they need; those after the first are indented."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}   {part}" if lines else part
        if lines and terminal.columns is not None and display_width(longer) > terminal.columns:
            lines.append(f"{indent}{part}")
        else:
            lines = [*lines[:-1], longer]
    return lines


def print_fields(terminal: Terminal, facts: Sequence[tuple[str, str]]) -> None:
    """A word and its text. Long texts go on below themselves; empty ones are left out."""
    filled = [(word, text) for word, text in facts if text]
    label_width = max((len(word) for word, _ in filled), default=0) + 2
    for word, text in filled:
        first, *others = terminal.wrap(printable(text), " " * (label_width + 2))
        terminal.print(f"  {terminal.style(word, 'dim')}{' ' * (label_width - len(word))}{first.lstrip()}")
        for line in others:
            terminal.print(line)


def print_section(
    terminal: Terminal, title: str, rows: Sequence[Sequence[str]], *, shrink: Sequence[int] = (), colour: str = "bold"
) -> None:
    """A title and its rows, without columns that are empty in all of them. Nothing at all without rows."""
    if not rows:
        return
    kept = [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]
    bare = [[row[index] for index in kept] for row in rows]
    terminal.print()
    terminal.print(terminal.style(title, colour))
    shrinkable = [kept.index(index) for index in shrink if index in kept]
    for line in terminal.format_table(bare, indent="  ", shrink=shrinkable):
        terminal.print(line)
