"""Targets and run specs, read once for many runs, and kept until the fleet changes."""

from collections.abc import Mapping, Sequence

from herdbeat.domain.run import Claim
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import Target
from herdbeat.domain.trigger import is_chat_id, is_manual_id, is_webhook_id
from herdbeat.redaction import register_secrets, register_variables
from herdbeat.store.reader import Reader

MAX_CACHED_SPECS = 10_000
"""Entries of each kind; beyond that the cache is cleared."""


class SpecCache:
    """Reads beside the writer. Used by the event loop's thread alone."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._targets: dict[int, Target] = {}
        self._run_specs: dict[tuple[int, int], RunSpec] = {}
        self._event_data: dict[int, str | None] = {}

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Read what is missing for these claims, in two queries however many they are."""
        if max(len(self._targets), len(self._run_specs)) > MAX_CACHED_SPECS:
            self.clear()
        targets = {each.target_id for each in claims} - self._targets.keys()
        if targets:
            self._targets |= self._reader.targets(targets)
        missing = {each.schedule_id: each.revision for each in claims if _cache_key(each) not in self._run_specs}
        if missing:
            specs = self._reader.run_specs(missing)
            self._run_specs |= {(number, missing[number]): spec for number, spec in specs.items()}
        for each in claims:
            if not each.source.is_clock and _has_event(each.dedup_id):
                self._event_data[each.beat_id] = self._reader.beat_data(each.beat_id)

    def target(self, target_id: int) -> Target:
        if target_id not in self._targets:
            self._targets |= self._reader.targets([target_id])
        return self._targets[target_id]

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec:
        """Return the spec of that revision, or a newer one: a schedule edited while its beat waits runs as edited."""
        key = (schedule_id, revision)
        if key not in self._run_specs:
            self._run_specs[key] = self._reader.run_specs([schedule_id])[schedule_id]
        return self._run_specs[key]

    def event_data(self, beat_id: int) -> str | None:
        """Return what came with a beat, as JSON. It is kept from `prefetch` until it is asked for, once."""
        if beat_id not in self._event_data:
            return self._reader.beat_data(beat_id)
        return self._event_data.pop(beat_id)

    def wake_data(self, run_id: int) -> str | None:
        return self._reader.wake_data(run_id)

    def clear(self) -> None:
        self._targets.clear()
        self._run_specs.clear()


class VersionedSpecCache(SpecCache):
    """The same in a ledger that other nodes share, any of which may change the fleet."""

    def __init__(self, reader: Reader, environ: Mapping[str, str]) -> None:
        super().__init__(reader)
        self._environ = environ
        self._version = ""

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Check the version after the claim, so that no run has an older spec than its claim has seen."""
        version = self._reader.fleet_version()
        if version != self._version:
            self.clear()
            register_variables(self._reader.variables(), self._environ)
            register_secrets(self._reader.old_secrets())
            self._version = version
        super().prefetch(claims)


def _has_event(dedup_id: str) -> bool:
    """Whether something came with a beat: a call, a message, or the words of a person."""
    return is_webhook_id(dedup_id) or is_manual_id(dedup_id) or is_chat_id(dedup_id)


def _cache_key(claim: Claim) -> tuple[int, int]:
    return claim.schedule_id, claim.revision
