"""Policies of a validated schedule, every default resolved for its kind of trigger and target."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode, mark_references
from herdbeat.config.provenance import SectionReader, build_value
from herdbeat.config.schema import policies as keys
from herdbeat.config.schema.formats import HoursWindow
from herdbeat.config.schema.schedule import ANCHOR
from herdbeat.config.schema.table import Field
from herdbeat.domain.policies import ActiveHours, Policies
from herdbeat.domain.references import keep_references
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation
from herdbeat.timestamps import format_timestamp


def build_policies(settings: SectionReader, zone: ZoneInfo, adapt: tuple[Mapping[str, object], ...]) -> Policies:
    """Return all policies. The section was validated: nothing here fails."""
    values = settings.read(key for key in keys.POLICIES if key is not keys.TIMEZONE)
    hours = values["active_hours"]
    if isinstance(hours, HoursWindow):
        values["active_hours"] = ActiveHours(opens=hours.opens, closes=hours.closes, zone=zone)
    precheck = settings.node.child(keys.PRECHECK.name)
    if precheck is not None and precheck.value:
        argv = keys.PRECHECK.field_type.read(mark_references(precheck))
        values["precheck"], values["variables"] = keep_references(argv)
    return build_value(Policies, values | {"zone": zone, "adapt": adapt})


def build_default_policies(zone: ZoneInfo, trigger: TriggerKind, target: TargetKind) -> Policies:
    """Return the policies of a schedule that sets none."""
    empty_section = ConfigNode({}, SourceLocation(file="", line=0, column=0))
    return build_policies(SectionReader(empty_section, "", kinds=(trigger, target)), zone, ())


def warn_unused_policies(written: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    """Warn of keys that this kind of schedule never reads. `written` has no defaults: those are for other kinds."""
    unused_keys: list[Field[object]] = [] if kind.waits_for_event else [keys.DEDUP, keys.WHEN]
    unused_keys += [] if kind is TriggerKind.INTERVAL else [keys.FIRST_RUN, ANCHOR]
    for key in unused_keys:
        child = written.child(key.name)
        if child is not None:
            message = f'"{key.name}" has no effect on {"an" if kind is TriggerKind.INTERVAL else "a"} {kind} schedule.'
            diagnostics.warning(Code.NOT_SERVED, message, child.report_location, "Remove it.")


def check_crossed_limits(settings: SectionReader, diagnostics: Diagnostics) -> None:
    """Report limits that no instant can meet."""
    shortest, longest = keys.MIN_INTERVAL.get(settings.node), keys.MAX_INTERVAL.get(settings.node)
    if shortest and longest and shortest > longest:
        message = (
            f'min_interval "{format_duration(shortest)}" is greater than max_interval "{format_duration(longest)}".'
        )
        hint = "Lower min_interval or raise max_interval."
        diagnostics.error(Code.LIMITS_CROSSED, message, _find_key_location(settings, "min_interval"), hint)
    start, end = keys.STARTS_AT.get(settings.node), keys.ENDS_AT.get(settings.node)
    if start and end and start >= end:
        message = f'ends_at is "{format_timestamp(end)}", which is before starts_at "{format_timestamp(start)}".'
        diagnostics.error(
            Code.LIMITS_CROSSED, message, _find_key_location(settings, "ends_at"), "Change one of the two times."
        )


def _find_key_location(settings: SectionReader, name: str) -> SourceLocation:
    return settings.node.find((name,)).location
