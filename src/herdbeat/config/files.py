"""The files of one reading: each is opened once, and stays known for places and code frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from herdbeat.config.places import is_file, shown_path
from herdbeat.config.report import Misfit, Report
from herdbeat.config.text import read_text
from herdbeat.config.variables import expand
from herdbeat.config.yaml_tree import read_tree
from herdbeat.errors import Place
from herdbeat.located import Located


@dataclass(slots=True)
class Files:
    """Opens files for one reading. `base` is the folder that messages count paths from."""

    base: Path
    environ: Mapping[str, str]
    report: Report
    _trees: dict[Path, Located | None] = field(default_factory=dict)
    _broken: set[Path] = field(default_factory=set)

    def tree(self, path: Path, named_at: Place | None = None, *, is_foreign: bool = False) -> Located | None:
        """The file as a tree with variables filled in; None after its problem was reported."""
        if is_foreign:
            self.report.foreign.add(self.shown(path))
        if path not in self._trees:
            self._trees[path] = self._read_tree(path, named_at)
        return self._trees[path]

    def is_broken(self, path: Path) -> bool:
        """True if the file has a tree, but not all of it: a key stood there twice, or was no text."""
        return path in self._broken

    def text(self, path: Path, named_at: Place | None = None) -> str | None:
        """The file as text; a missing file is a problem of the line that names it."""
        shown = self.shown(path)
        try:
            self.report.sources[shown] = read_text(path, shown)
        except Misfit as error:
            place = named_at if named_at and not is_file(path) else None
            error.where = place or error.where
            self.report.misfit(error, Located(None, Place(file=shown, line=1, column=1)))
            return None
        return self.report.sources[shown]

    def shown(self, path: Path) -> str:
        return shown_path(path, self.base)

    def _read_tree(self, path: Path, named_at: Place | None) -> Located | None:
        mark = self.report.errors
        text = self.text(path, named_at)
        tree = read_tree(text, self.shown(path), self.report) if text is not None else None
        if self.report.errors > mark:
            self._broken.add(path)
        return expand(tree, self.environ) if tree is not None else None
