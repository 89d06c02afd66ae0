"""A folder with configuration files, and the result of loading it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from zoneinfo import ZoneInfo

from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.config.provenance import ResolvedValue
from herdbeat.domain.fleet import Fleet
from herdbeat.error_codes import Code

SYSTEM_ZONE = ZoneInfo("America/New_York")


@dataclass
class ConfigFolder:
    """Write files into it, then load it. `environ` is the whole environment."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text), encoding="utf-8")

    def read(self, files: Mapping[str, str] | str, start: str = "") -> LoadResult:
        """Write the files (a text alone is herdbeat.yaml) and load the folder, or the file named by `start`.

        Warnings of keys that do not act yet are left out: they come and go with the keys, and have tests of their own.
        """
        result = self.read_all(files, start)
        return replace(result, problems=tuple(each for each in result.problems if each.code is not Code.NOT_YET))

    def read_all(self, files: Mapping[str, str] | str, start: str = "") -> LoadResult:
        self.write({"herdbeat.yaml": files} if isinstance(files, str) else files)
        return try_load_fleet(self.path / start, environ=self.environ, system_zone=SYSTEM_ZONE, base=self.path)

    def fleet(self, files: Mapping[str, str] | str) -> Fleet:
        """Return the fleet of files that must have no errors."""
        result = self.read(files)
        assert result.errors == ()
        assert result.fleet is not None
        return result.fleet

    def values(self, files: Mapping[str, str] | str) -> dict[str, ResolvedValue]:
        return {value.path: value for value in self.read(files).values}
