"""Files of one load: read within limits, parsed once, `${NAME}` filled in.

Variables are filled in after parsing, because a password with a colon or a quote must not be able to change the
structure of the file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.locate import HERDCTL_FILE_NAMES, display_path, is_file, path_exists
from herdbeat.config.nodes import PUBLIC_KEYS, ConfigNode
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.references import REFERENCE, list_variables
from herdbeat.error_codes import Code
from herdbeat.errors import Severity, SourceLocation
from herdbeat.redaction import find_secrets, is_distinctive, is_secret_name, register_secrets

MAX_FILE_BYTES = 1024 * 1024
"""Bytes. A fleet of eight thousand schedules fits; a log that was named by mistake does not."""

_CONTROL_CHARACTER_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_text(path: Path, display_name: str) -> str:
    """Return the text of a file. Raises ValidationError if it is missing, unreadable, too large or not UTF-8 text."""
    where = SourceLocation(file=display_name, line=1, column=1)
    try:
        if path.exists() and not path.is_file():
            # Opening a folder fails by itself; opening a pipe would block for ever.
            message = f'"{display_name}" is not a regular file.'
            raise ValidationError(Code.UNREADABLE_FILE, message, "Give the path of a file.", where)
        # One byte too many is enough to know that a file is too large, without reading all of it.
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        is_link = path.is_symlink()
        message = f'"{display_name}" is a broken symbolic link.' if is_link else f'There is no file "{display_name}".'
        raise ValidationError(Code.FILE_NOT_FOUND, message, "Correct the path.", where) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f'"{display_name}" cannot be read: {reason}.'
        hint = "Fix the path or its permissions."
        raise ValidationError(Code.UNREADABLE_FILE, message, hint, where) from error
    if len(data) > MAX_FILE_BYTES:
        message = f'"{display_name}" is larger than 1 MiB.'
        hint = "Split it: move agents into separate files and refer to them with path:."
        raise ValidationError(Code.YAML_LIMIT, message, hint, where)
    return _decode(data, where)


def _decode(data: bytes, where: SourceLocation) -> str:
    try:
        # A byte order mark at the start is an editor's habit and harmless.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        message = f"The file is not UTF-8: byte 0x{data[error.start]:02x} cannot be read."
        hint = "Save it as UTF-8."
        raise ValidationError(Code.UNREADABLE_FILE, message, hint, _locate_after(before, where)) from error
    text = text.replace("\r\n", "\n")
    if match := _CONTROL_CHARACTER_PATTERN.search(text):
        message = f"The file contains a control character (U+{ord(match[0]):04X})."
        hint = "Remove it, or write it as an escape sequence in a quoted string."
        raise ValidationError(Code.YAML_SYNTAX, message, hint, _locate_after(text[: match.start()], where))
    return text


def _locate_after(before: str, where: SourceLocation) -> SourceLocation:
    line = before.count("\n") + 1
    return SourceLocation(file=where.file, line=line, column=len(before.rpartition("\n")[2]) + 1)


# `${NAME}` and `${NAME:-default}`; `$${NAME}` is the text `${NAME}`.

_UNCLOSED_PATTERN = re.compile(r"(?<!\$)(?P<start>\$\{[A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\Z")
_ASSIGNMENT_PATTERN = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*")
_COMMENT_PATTERN = re.compile(r"\s+#.*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def expand_variables(node: ConfigNode, environ: Mapping[str, str]) -> ConfigNode:
    """Return the tree with every variable filled in. One that is not set is only noted on its node.

    Reading that value reports it. So a variable that only an ignored block needs spoils nothing.
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
    secret_parts: list[str] = []

    def substitute(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        value: str | None = environ.get(match["name"], match["default"])
        if value is None:
            undefined.append(match["name"])
            return match[0]
        # A default is written in the file for all to read, unless its name says that it is a secret.
        if value and (match["name"] in environ or is_secret_name(match["name"])):
            secret_parts.append(value)
        return value

    if unclosed := _UNCLOSED_PATTERN.search(text):
        return replace(node, undefined_variable=unclosed["start"])
    substituted = REFERENCE.sub(substitute, text)
    if undefined:
        return replace(node, undefined_variable=undefined[0])
    if not REFERENCE.search(text):
        return node
    names = " ".join(list_variables(text))
    return replace(node, value=substituted, variable_names=names, secret_parts=tuple(secret_parts), written=text)


def find_tree_secrets(tree: ConfigNode) -> set[str]:
    """Return what must not be shown of a file: what came from the environment, and what its position says is secret."""
    secrets = find_secrets(tree.to_data())
    for _, node in tree.walk():
        key = node.location.path.rpartition(".")[2].partition("[")[0]
        if node.secret_parts and key not in PUBLIC_KEYS:
            names = f"{key} {node.variable_names}"
            secrets |= {part for part in node.secret_parts if is_distinctive(part, names)}
    return secrets


def merge_dotenv(
    environ: Mapping[str, str], file: Path, display_name: str, diagnostics: Diagnostics
) -> Mapping[str, str]:
    """Return the environment, completed by the `.env` file. A variable that is really set wins.

    A file that exists and cannot be read is a warning: "the variable is not set" alone would send people to a file in
    which it is.
    """
    if not path_exists(file):
        return environ
    try:
        text = read_text(file, display_name)
    except ValidationError as error:
        diagnostics.add(error, ConfigNode(None, SourceLocation(file=display_name, line=1, column=1)), Severity.WARNING)
        return environ
    return parse_dotenv(text) | dict(environ)


def read_environment(home: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a fleet: that of the process, completed by the `.env` beside the fleet file."""
    try:
        text = (Path(home) / ".env").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return environ
    return parse_dotenv(text) | dict(environ)


class LiveEnvironment(Mapping[str, str]):
    """The same as it is at each access: a `.env` that was edited takes effect with the next run."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self._file = Path(home) / ".env"
        self._environ = environ
        self._stamp: tuple[int, int, int] | None = None
        self._dotenv: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._environ[name] if name in self._environ else self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._read(), **self._environ})

    def __len__(self) -> int:
        return len({**self._read(), **self._environ})

    def _read(self) -> Mapping[str, str]:
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._dotenv, self._stamp = parse_dotenv(self._file.read_text(encoding="utf-8")), stamp
        except (OSError, ValueError):
            self._dotenv, self._stamp = {}, None
        return self._dotenv


def parse_dotenv(text: str) -> dict[str, str]:
    """Return the variables of `NAME=value` lines, with optional `export`, quotes and comments; ignore other lines."""
    variables: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").split("\n"):  # not at U+2028, which may stand in a value
        if match := _ASSIGNMENT_PATTERN.fullmatch(line):
            variables[match["name"]] = _unquote(match["value"])
    return variables


def _unquote(value: str) -> str:
    quote = value[:1]
    if quote and quote in "'\"" and (end := value.find(quote, 1)) > 0:
        inner = value[1:end]
        return inner if quote == "'" else re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), inner)
    return "" if value.startswith("#") else _COMMENT_PATTERN.sub("", value)


@dataclass(slots=True)
class FileReader:
    """Reads each file of one load once. Messages name files relative to `base`."""

    base: Path
    environ: Mapping[str, str]
    diagnostics: Diagnostics
    _trees: dict[Path, ConfigNode | None] = field(default_factory=dict)
    _broken: set[Path] = field(default_factory=set)

    def read_tree(
        self, path: Path, reference_location: SourceLocation | None = None, *, is_foreign: bool = False
    ) -> ConfigNode | None:
        """Return the file as a tree with variables filled in; None after its problem was reported."""
        if is_foreign:
            self.diagnostics.foreign_files.add(self.display_name(path))
        if path not in self._trees:
            self._trees[path] = self._read_tree(path, reference_location)
        return self._trees[path]

    def is_broken(self, path: Path) -> bool:
        """Return whether the tree of a file is incomplete, because a key was there twice or was no text."""
        return path in self._broken

    def read_text(self, path: Path, reference_location: SourceLocation | None = None) -> str | None:
        """Return the file as text; None after its problem was reported, at the line that names it if it is missing."""
        display_name = self.display_name(path)
        try:
            self.diagnostics.sources[display_name] = read_text(path, display_name)
        except ValidationError as error:
            location = reference_location if reference_location and not is_file(path) else None
            error.where = location or error.where
            self.diagnostics.add(error, ConfigNode(None, SourceLocation(file=display_name, line=1, column=1)))
            return None
        return self.diagnostics.sources[display_name]

    def display_name(self, path: Path) -> str:
        return display_path(path, self.base)

    def _read_tree(self, path: Path, reference_location: SourceLocation | None) -> ConfigNode | None:
        errors_before = self.diagnostics.error_count
        text = self.read_text(path, reference_location)
        may_be_empty = path.name in HERDCTL_FILE_NAMES
        name = self.display_name(path)
        tree = parse_yaml(text, name, self.diagnostics, may_be_empty=may_be_empty) if text is not None else None
        if self.diagnostics.error_count > errors_before:
            self._broken.add(path)
        if tree is None:
            return None
        tree = expand_variables(tree, self.environ)
        register_secrets(find_tree_secrets(tree))
        return tree
