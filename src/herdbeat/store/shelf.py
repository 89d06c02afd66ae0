"""What a run has to know, read once: targets and briefs, kept until the fleet is changed."""

from collections.abc import Sequence

from herdbeat.domain.brief import Brief
from herdbeat.domain.claim import Claim
from herdbeat.domain.target import Target
from herdbeat.store.reader import Reader

KEPT = 10_000
"""So many of each are remembered; then the memory begins anew."""


class LedgerShelf:
    """Looks things up beside the writer. Used by the event loop's thread alone."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._targets: dict[int, Target] = {}
        self._briefs: dict[tuple[int, int], Brief] = {}

    def fetch(self, claims: Sequence[Claim]) -> None:
        """Read what is missing for these, in two questions however many they are."""
        if max(len(self._targets), len(self._briefs)) > KEPT:
            self.forget()
        targets = {each.target_id for each in claims} - self._targets.keys()
        if targets:
            self._targets |= self._reader.targets(targets)
        missing = {each.schedule_id: each.revision for each in claims if _key(each) not in self._briefs}
        if missing:
            found = self._reader.briefs(missing)
            self._briefs |= {(number, missing[number]): brief for number, brief in found.items()}

    def target(self, target_id: int) -> Target:
        if target_id not in self._targets:
            self._targets |= self._reader.targets([target_id])
        return self._targets[target_id]

    def brief(self, schedule_id: int, revision: int) -> Brief:
        """Of that revision, or a newer one: what is edited while it waits runs with its new words."""
        key = (schedule_id, revision)
        if key not in self._briefs:
            self._briefs[key] = self._reader.briefs([schedule_id])[schedule_id]
        return self._briefs[key]

    def forget(self) -> None:
        """The fleet was changed."""
        self._targets.clear()
        self._briefs.clear()


class SharedShelf(LedgerShelf):
    """The same beside other nodes, any of which may change the fleet."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self._version = ""

    def fetch(self, claims: Sequence[Claim]) -> None:
        """Looked at after the claim, so that no run has older words than its claim has seen."""
        version = self._reader.catalogue_version()
        if version != self._version:
            self.forget()
            self._version = version
        super().fetch(claims)


def _key(claim: Claim) -> tuple[int, int]:
    return claim.schedule_id, claim.revision
