"""`${NAME}` and `${NAME:-default}` in values, filled in after parsing, from the environment and `.env`.

After parsing, because a password with a colon or a quote must not be able to change the file's structure.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from herdbeat.config.find import path_exists
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.text import read_text
from herdbeat.errors import Severity, SourceLocation
from herdbeat.located import ConfigNode

_VARIABLE_PATTERN = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>[^}]*))?\}")
_ASSIGNMENT_PATTERN = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*")
_COMMENT_PATTERN = re.compile(r"\s+#.*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def expand_variables(node: ConfigNode, environ: Mapping[str, str]) -> ConfigNode:
    """The tree with every variable filled in. One that is not set is only noted on its node.

    Whoever reads the value complains. So a variable that only an ignored block needs refuses nothing.
    """
    if isinstance(node.value, dict):
        return replace(node, value={name: expand_variables(child, environ) for name, child in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[expand_variables(child, environ) for child in node.value])
    if not isinstance(node.value, str) or "${" not in node.value:
        return node
    return _expand_text(node, node.value, environ)


def _expand_text(node: ConfigNode, text: str, environ: Mapping[str, str]) -> ConfigNode:
    undefined: list[str] = []

    def substitute(match: re.Match[str]) -> str:
        value: str | None = environ.get(match["name"], match["default"])
        if value is None:
            undefined.append(match["name"])
            return match[0]
        return value

    substituted = _VARIABLE_PATTERN.sub(substitute, text)
    if undefined:
        return replace(node, undefined_variable=undefined[0])
    names = " ".join(match["name"] for match in _VARIABLE_PATTERN.finditer(text))
    return replace(node, value=substituted, variable_names=names) if names else node


def merge_dotenv(
    environ: Mapping[str, str], file: Path, display_name: str, diagnostics: Diagnostics
) -> Mapping[str, str]:
    """The environment, completed by the `.env` file. What is really set wins.

    A file that is there and cannot be read is a warning: "the variable is not set" alone would send
    people to a file in which it is.
    """
    if not path_exists(file):
        return environ
    try:
        text = read_text(file, display_name)
    except ValidationError as error:
        diagnostics.add(error, ConfigNode(None, SourceLocation(file=display_name, line=1, column=1)), Severity.WARNING)
        return environ
    return parse_dotenv(text) | dict(environ)


def parse_dotenv(text: str) -> dict[str, str]:
    """Lines of `NAME=value`, with optional `export`, quotes and comments. Other lines are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _ASSIGNMENT_PATTERN.fullmatch(line):
            found[match["name"]] = _unquote(match["value"])
    return found


def _unquote(value: str) -> str:
    quote = value[:1]
    if quote and quote in "'\"" and (end := value.find(quote, 1)) > 0:
        inner = value[1:end]
        return inner if quote == "'" else re.sub(r"\\(.)", _unescape, inner)
    return "" if value.startswith("#") else _COMMENT_PATTERN.sub("", value)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])
