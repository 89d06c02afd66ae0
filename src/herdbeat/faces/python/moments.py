"""What Python callers hand us as times, made certain."""

from datetime import UTC, datetime

from herdbeat.errors import TimeParseError


def require_aware(moment: datetime) -> datetime:
    """The same instant in UTC. A naive datetime is refused: nobody can know which instant it means."""
    if moment.tzinfo is None:
        raise TimeParseError(
            f"{moment.isoformat()} has no time zone.",
            moment.isoformat(),
            hint="Pass an aware datetime, for example datetime(2026, 4, 1, 9, 0, tzinfo=UTC).",
        )
    return moment.astimezone(UTC)
