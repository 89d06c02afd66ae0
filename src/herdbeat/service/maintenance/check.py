"""Is the ledger well? Everything that can be said without touching it."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.errors import StoreUnavailable, truncate_for_message
from herdbeat.scheduler.repair.consistency import Inconsistency, inspect
from herdbeat.store.location import LedgerAudit, StoreLocation, open_audit

_MAX_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInspection:
    """Damage of the file itself, what the scan would mend, and schedules that rest in quarantine."""

    damage: tuple[str, ...]
    findings: tuple[Inconsistency, ...]
    quarantined: tuple[tuple[str, str], ...]

    @property
    def is_healthy(self) -> bool:
        return not (self.damage or self.findings or self.quarantined)


def inspect_ledger(ledger: StoreLocation, now: datetime) -> LedgerInspection:
    """Never raises for what is in the file: whatever cannot even be asked is damage."""
    audit = open_audit(ledger)
    damage = audit.damage()
    try:
        findings, quarantined = _find_inconsistencies(audit, now), audit.quarantined()
    except StoreUnavailable as error:
        findings, quarantined = [], []
        damage = damage or [error.message]
    except Exception as error:  # noqa: BLE001 - a damaged file may say anything, and this is who has to say so
        findings, quarantined = [], []
        damage.append(
            f"it cannot be read through: {type(error).__name__}: {truncate_for_message(str(error), _MAX_ERROR_CHARS)}"
        )
    return LedgerInspection(damage=tuple(damage), findings=tuple(findings), quarantined=tuple(quarantined))


def _find_inconsistencies(audit: LedgerAudit, now: datetime) -> list[Inconsistency]:
    found: list[Inconsistency] = []
    after: int | None = 0
    while after is not None:
        suspects = audit.find_inconsistencies(now, after, only_schedules=after > 0)
        found += audit.read_transaction(lambda tx, suspects=suspects: inspect(tx, now, suspects)).findings  # type: ignore[misc]
        after = suspects.last
    return found
