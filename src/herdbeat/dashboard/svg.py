"""A writer of SVG: every name is ours, every value is escaped, nothing needs a `style` attribute or a script."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from xml.sax.saxutils import escape, quoteattr

Attribute = str | float | int | None


class SvgWriter:
    """Collects elements. Attribute names use `_` for `-`, and `class_` for `class`; None leaves one out."""

    def __init__(self, width: float, height: float, label: str, class_: str, *, has_links: bool = False) -> None:
        self._parts: list[str] = []
        box = f"0 0 {format_number(width)} {format_number(height)}"
        role = "group" if has_links else "img"  # nothing inside of an image can be reached
        self._open("svg", class_=class_, viewBox=box, role=role, aria_label=label, preserveAspectRatio="none")

    def add(self, name: str, text: str | None = None, **attributes: Attribute) -> None:
        """Add an element, with its text if it has one."""
        body = "" if text is None else escape(_clean(text))
        self._parts.append(f"<{name}{_format_attributes(attributes)}>{body}</{name}>")

    def add_titled(self, name: str, title: str, **attributes: Attribute) -> None:
        """Add an element with a tooltip, which a screen reader reads too."""
        shape = f"<{name}{_format_attributes(attributes)}>"
        self._parts.append(f"{shape}<title>{escape(_clean(title))}</title></{name}>")

    def add_bar(
        self, state: str, title: str, *, x: float, y: float, width: float, height: float, href: str = ""
    ) -> None:
        """Add a bar with a tooltip and, if it leads somewhere, a link. A timeline has thousands of them."""
        shape = f'<rect class="bar {state}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{height:.0f}" rx="2">'
        bar = f"{shape}<title>{escape(_clean(title))}</title></rect>"
        self._parts.append(f'<a href={quoteattr(href)} tabindex="-1">{bar}</a>' if href else bar)

    @contextmanager
    def link(self, href: str, **attributes: Attribute) -> Iterator[None]:
        """Make what is added inside a link. Without an address it is none."""
        if href:
            self._open("a", href=href, **attributes)
        yield
        if href:
            self._parts.append("</a>")

    def finish(self) -> str:
        return "".join([*self._parts, "</svg>"])

    def _open(self, name: str, **attributes: Attribute) -> None:
        self._parts.append(f"<{name}{_format_attributes(attributes)}>")


def format_number(value: float) -> str:
    """Return a coordinate with at most one digit after the point: golden files stay readable, pages small."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def _format_attributes(attributes: dict[str, Attribute]) -> str:
    return "".join(
        # A number needs no quoting, and most attributes are numbers.
        f" {_attribute_name(name)}={quoteattr(_clean(value))}"
        if isinstance(value, str)
        else f' {_attribute_name(name)}="{format_number(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


@cache
def _attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _clean(text: str) -> str:
    """Return the text without characters that XML does not allow. Names and answers may contain any."""
    if text.isprintable():  # almost always, and a page has thousands of texts
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)
