"""The files of one reading: each is opened once, and stays known for places and code frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from herdbeat.config.places import display_path, is_file
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.text import read_text
from herdbeat.config.variables import expand_variables
from herdbeat.config.yaml_tree import parse_yaml
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode


@dataclass(slots=True)
class FileReader:
    """Opens files for one reading. `base` is the folder that messages count paths from."""

    base: Path
    environ: Mapping[str, str]
    diagnostics: Diagnostics
    _trees: dict[Path, ConfigNode | None] = field(default_factory=dict)
    _broken: set[Path] = field(default_factory=set)

    def tree(
        self, path: Path, reference_location: SourceLocation | None = None, *, is_foreign: bool = False
    ) -> ConfigNode | None:
        """The file as a tree with variables filled in; None after its problem was reported."""
        if is_foreign:
            self.diagnostics.foreign_files.add(self.display_name(path))
        if path not in self._trees:
            self._trees[path] = self._read_tree(path, reference_location)
        return self._trees[path]

    def is_broken(self, path: Path) -> bool:
        """True if the file has a tree, but not all of it: a key stood there twice, or was no text."""
        return path in self._broken

    def text(self, path: Path, reference_location: SourceLocation | None = None) -> str | None:
        """The file as text; a missing file is a problem of the line that names it."""
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
        text = self.text(path, reference_location)
        tree = parse_yaml(text, self.display_name(path), self.diagnostics) if text is not None else None
        if self.diagnostics.error_count > errors_before:
            self._broken.add(path)
        return expand_variables(tree, self.environ) if tree is not None else None
