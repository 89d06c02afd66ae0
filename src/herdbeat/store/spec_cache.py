"""What a run has to know, read once: targets and briefs, kept until the fleet is changed."""

from collections.abc import Sequence

from herdbeat.domain.run import Claim
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import Target
from herdbeat.store.reader import Reader

MAX_CACHED_SPECS = 10_000
"""So many of each are remembered; then the memory begins anew."""


class SpecCache:
    """Looks things up beside the writer. Used by the event loop's thread alone."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._targets: dict[int, Target] = {}
        self._run_specs: dict[tuple[int, int], RunSpec] = {}

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Read what is missing for these, in two questions however many they are."""
        if max(len(self._targets), len(self._run_specs)) > MAX_CACHED_SPECS:
            self.clear()
        targets = {each.target_id for each in claims} - self._targets.keys()
        if targets:
            self._targets |= self._reader.targets(targets)
        missing = {each.schedule_id: each.revision for each in claims if _cache_key(each) not in self._run_specs}
        if missing:
            found = self._reader.run_specs(missing)
            self._run_specs |= {(number, missing[number]): brief for number, brief in found.items()}

    def target(self, target_id: int) -> Target:
        if target_id not in self._targets:
            self._targets |= self._reader.targets([target_id])
        return self._targets[target_id]

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
        """Of that revision, or a newer one: what is edited while it waits runs with its new words."""
        key = (schedule_id, revision)
        if key not in self._run_specs:
            self._run_specs[key] = self._reader.run_specs([schedule_id])[schedule_id]
        return self._run_specs[key]

    def clear(self) -> None:
        """The fleet was changed."""
        self._targets.clear()
        self._run_specs.clear()


class VersionedSpecCache(SpecCache):
    """The same beside other nodes, any of which may change the fleet."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self._version = ""

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Looked at after the claim, so that no run has older words than its claim has seen."""
        version = self._reader.fleet_version()
        if version != self._version:
            self.clear()
            self._version = version
        super().prefetch(claims)


def _cache_key(claim: Claim) -> tuple[int, int]:
    return claim.schedule_id, claim.revision
