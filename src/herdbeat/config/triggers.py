"""A schedule's trigger keys -> its Trigger."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.keys.schedule import AT, CRON, INTERVAL, TYPE
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.settings import SectionReader
from herdbeat.config.tables import Field
from herdbeat.config.wording import key_name, redact_value
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import HerdbeatError
from herdbeat.located import ConfigNode
from herdbeat.triggers import Chat, Cron, Delay, Interval, Manual, Webhook

_KEY_BY_KIND: dict[TriggerKind, Field[str]] = {
    TriggerKind.INTERVAL: INTERVAL,
    TriggerKind.CRON: CRON,
    TriggerKind.DELAY: AT,
}
_EVENT_TRIGGERS = {TriggerKind.WEBHOOK: Webhook, TriggerKind.CHAT: Chat, TriggerKind.MANUAL: Manual}
_SEARCH_START = datetime(2026, 1, 1, tzinfo=UTC)
_SEARCH_END = _SEARCH_START + timedelta(days=366 * 41)
_MISSING_TRIGGER_HINT = 'Add every: 5m, cron: "0 9 * * *", at: a date and time, or type: manual.'


def detect_trigger_kind(node: ConfigNode, diagnostics: Diagnostics) -> TriggerKind | None:
    """The kind that `type` names, or that the one trigger key implies; None after a problem was reported."""
    written = [kind for kind, key in _KEY_BY_KIND.items() if node.child(key.name) is not None]
    kind = TYPE.get(node)
    if kind is not None:
        _warn_unused_trigger_keys(node, TriggerKind(kind), diagnostics)
        return TriggerKind(kind)
    if len(written) == 1:
        return written[0]
    if not written:
        diagnostics.error(Code.MISSING_KEY, "The schedule has no trigger.", node.report_location, _MISSING_TRIGGER_HINT)
        return None
    first, second = (node.find((_KEY_BY_KIND[each].name,)) for each in written[:2])
    message = f'"{key_name(first)}" and "{key_name(second)}" exclude each other.'
    diagnostics.error(Code.CONFLICTING_KEYS, message, second.report_location, "Keep the one you mean.")
    return None


def build_trigger(
    settings: SectionReader, kind: TriggerKind, zone: ZoneInfo, diagnostics: Diagnostics
) -> Trigger | None:
    """The trigger; None after its problem was reported at the value that is wrong."""
    if kind in _EVENT_TRIGGERS:
        return _EVENT_TRIGGERS[kind]()
    key = _KEY_BY_KIND[kind]
    child = settings.node.child(key.name)
    if child is None:
        hint = f"Add {key.name}: {key.meaning[0].lower()}{key.meaning[1:]}"
        diagnostics.error(Code.MISSING_KEY, f'Type {kind} needs "{key.name}".', settings.node.report_location, hint)
        return None
    try:
        written = settings.get(key, "")
        return _parse_trigger(written, kind, zone)
    except HerdbeatError as error:
        diagnostics.add(redact_value(error, child, key.field_type.describe()), child)
    return None


def _parse_trigger(written: str, kind: TriggerKind, zone: ZoneInfo) -> Trigger:
    match kind:
        case TriggerKind.INTERVAL:
            return Interval.parse(written)
        case TriggerKind.CRON:
            return Cron.parse(written, zone)
        case _:
            return Delay.parse(written)


def _warn_unused_trigger_keys(node: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics) -> None:
    for other, key in _KEY_BY_KIND.items():
        child = node.child(key.name)
        if other is not kind and child is not None:
            diagnostics.warning(
                Code.NOT_SERVED,
                f'"{key_name(child)}" has no effect: the schedule is of type {kind}.',
                child.report_location,
                "Remove it, or change the type.",
            )


def require_reachable_active_hours(trigger: Trigger, hours: ActiveHours | None) -> None:
    """Raise if a cron schedule never falls into its active hours.

    Looks at the first instant after each opening of the window: for a year of openings, and for
    rarer expressions until every combination of leap year and weekday has come by.
    """
    if hours is None or trigger.kind is not TriggerKind.CRON:
        return
    moment = _SEARCH_START
    for _ in range(370):
        found = trigger.next_time(None, _next_opening(moment, hours) - timedelta(seconds=1))
        if found is None or found > _SEARCH_END:
            break
        if hours.contains(found):
            return
        moment = found
    raise ValidationError(
        Code.NEVER_FIRES,
        f"It never fires inside its active hours {hours}.",
        hint="Widen active_hours, or move the cron expression into them.",
    )


def _next_opening(moment: datetime, hours: ActiveHours) -> datetime:
    """The next time the window opens, strictly after the moment."""
    local = moment.astimezone(hours.zone)
    opens = datetime.combine(local.date(), hours.opens, hours.zone)
    if opens.astimezone(UTC) <= moment:
        opens = datetime.combine(local.date() + timedelta(days=1), hours.opens, hours.zone)
    return opens.astimezone(UTC)
