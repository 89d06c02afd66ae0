"""Is the ledger well? Everything that can be said without touching it."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.errors import StoreUnavailable, shown
from herdbeat.scheduler.scan import Finding, examine
from herdbeat.store.opening import Audit, audit_at
from herdbeat.store.places import LedgerPlace

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Damage of the file itself, what the scan would mend, and schedules that rest in quarantine."""

    damage: tuple[str, ...]
    findings: tuple[Finding, ...]
    quarantined: tuple[tuple[str, str], ...]

    @property
    def is_well(self) -> bool:
        return not (self.damage or self.findings or self.quarantined)


def check_up(ledger: LedgerPlace, now: datetime) -> Checkup:
    """Never raises for what is in the file: whatever cannot even be asked is damage."""
    audit = audit_at(ledger)
    damage = audit.damage()
    try:
        findings, quarantined = _scanned(audit, now), audit.quarantined()
    except StoreUnavailable as error:
        findings, quarantined = [], []
        damage = damage or [error.message]
    except Exception as error:  # noqa: BLE001 - a damaged file may say anything, and this is who has to say so
        findings, quarantined = [], []
        damage.append(f"it cannot be read through: {type(error).__name__}: {shown(str(error), _LONGEST)}")
    return Checkup(damage=tuple(damage), findings=tuple(findings), quarantined=tuple(quarantined))


def _scanned(audit: Audit, now: datetime) -> list[Finding]:
    found: list[Finding] = []
    after: int | None = 0
    while after is not None:
        suspects = audit.suspects(now, after, only_schedules=after > 0)
        found += audit.peek(lambda tx, suspects=suspects: examine(tx, now, suspects)).findings  # type: ignore[misc]
        after = suspects.last
    return found
