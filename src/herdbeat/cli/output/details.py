"""Pages of facts as lines: a headline, labelled fields, and sections of rows below a title."""

from collections.abc import Iterator, Sequence

from herdbeat.cli.output.terminal import Terminal, display_width, printable


def headline(terminal: Terminal, name: str, *parts: str) -> list[str]:
    """Return the name and its parts. Empty parts are left out; those that do not fit continue below."""
    first = terminal.style(printable(name), "bold")
    return fold_parts(terminal, [first, *(part for part in parts if part)], indent="  ")


def fold_parts(terminal: Terminal, parts: Sequence[str], *, indent: str = "", separator: str = "   ") -> list[str]:
    """Return the parts side by side, in as many lines as they need; lines after the first are indented."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines else part
        if lines and terminal.columns is not None and display_width(longer) > terminal.columns:
            lines.append(f"{indent}{part}")
        else:
            lines[-1:] = [longer]
    return lines


def field_lines(terminal: Terminal, fields: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a label and its text a line. Long texts continue below themselves; empty ones are left out."""
    filled = [(label, text) for label, text in fields if text]
    label_width = max((len(label) for label, _ in filled), default=0) + 2
    for label, text in filled:
        first, *others = terminal.wrap(printable(text), " " * (label_width + 2))
        yield f"  {terminal.style(label, 'dim')}{' ' * (label_width - len(label))}{first.lstrip()}"
        yield from others


def section_lines(
    terminal: Terminal, title: str, rows: Sequence[Sequence[str]], *, shrink: Sequence[int] = ()
) -> Iterator[str]:
    """Yield a title and its rows, without columns that are empty in all of them. Nothing at all without rows."""
    if not rows:
        return
    kept = filled_columns(rows)
    yield ""
    yield terminal.style(title, "bold")
    shrinkable = [kept.index(index) for index in shrink if index in kept]
    yield from terminal.format_table(select_columns(rows, kept), indent="  ", shrink=shrinkable)


def filled_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the indexes of the columns in which at least one row has a text."""
    return [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]


def select_columns(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    return [[row[index] for index in columns] for row in rows]
