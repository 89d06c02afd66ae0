"""The channels of a fleet, read for what they want to be told."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from herdbeat.config.schema.formats import parse_hours
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.notification import RECOVERED, ChannelRules, ConditionKind
from herdbeat.domain.policies import ActiveHours
from herdbeat.durations import parse_duration

DEFAULT_CONDITIONS = (
    *(ConditionKind.MISSED, ConditionKind.FAILING, ConditionKind.NEEDS_YOU, ConditionKind.NODE_LOST),
    RECOVERED,
)


def read_channels(fleet: Fleet) -> tuple[ChannelRules, ...]:
    """Return the rules of all channels. They are valid: loading the file has checked them."""
    return tuple(_read_rules(name, spec, fleet.zone) for name, spec in (fleet.notify or {}).items())


def _read_rules(name: str, spec: Mapping[str, object], zone: ZoneInfo) -> ChannelRules:
    listed = spec.get("conditions")
    conditions = [str(each) for each in listed] if isinstance(listed, list | tuple) else list(DEFAULT_CONDITIONS)
    only = spec.get("only")
    selected = only if isinstance(only, Mapping) else {}
    return ChannelRules(
        name=name,
        conditions=frozenset(ConditionKind(each) for each in conditions if each != RECOVERED),
        tells_end=RECOVERED in conditions,
        failing_after=int(str(spec.get("failing_after", 1))),
        tags=_names(selected.get("tags")),
        targets=_names(selected.get("targets")),
        schedules=_names(selected.get("schedules")),
        quiet_hours=_read_hours(spec.get("quiet_hours"), zone),
        digest=str(spec.get("digest") or ""),
        group_within=parse_duration(str(spec.get("group_within", "30s"))),
    )


def _names(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list | tuple) else frozenset()


def _read_hours(written: object, zone: ZoneInfo) -> ActiveHours | None:
    if written is None:
        return None
    opens, closes = parse_hours(str(written))
    return ActiveHours(opens=opens, closes=closes, zone=zone)
