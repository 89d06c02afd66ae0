"""A schedule's trigger keys -> its Trigger."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.keys.schedule import AT, CRON, INTERVAL, TYPE
from herdbeat.config.report import Misfit, Report
from herdbeat.config.settings import Settings
from herdbeat.config.tables import Key
from herdbeat.config.wording import key_name, without_value
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import HerdbeatError
from herdbeat.located import Located
from herdbeat.triggers import Chat, Cron, Delay, Interval, Manual, Webhook

_KEY_OF: dict[TriggerKind, Key[str]] = {
    TriggerKind.INTERVAL: INTERVAL,
    TriggerKind.CRON: CRON,
    TriggerKind.DELAY: AT,
}
_EVENTS = {TriggerKind.WEBHOOK: Webhook, TriggerKind.CHAT: Chat, TriggerKind.MANUAL: Manual}
_START = datetime(2026, 1, 1, tzinfo=UTC)
_HORIZON = _START + timedelta(days=366 * 41)
_HOW = 'Add every: 5m, cron: "0 9 * * *", at: a date and time, or type: manual.'


def trigger_kind(node: Located, report: Report) -> TriggerKind | None:
    """The kind that `type` names, or that the one trigger key implies; None after a problem was reported."""
    written = [kind for kind, key in _KEY_OF.items() if node.child(key.name) is not None]
    kind = TYPE.of(node)
    if kind is not None:
        _note_idle_keys(node, TriggerKind(kind), report)
        return TriggerKind(kind)
    if len(written) == 1:
        return written[0]
    if not written:
        report.error(Code.MISSING_KEY, "The schedule has no trigger.", node.label, _HOW)
        return None
    first, second = (node.find((_KEY_OF[each].name,)) for each in written[:2])
    message = f'"{key_name(first)}" and "{key_name(second)}" exclude each other.'
    report.error(Code.CONFLICTING_KEYS, message, second.label, "Keep the one you mean.")
    return None


def read_trigger(settings: Settings, kind: TriggerKind, zone: ZoneInfo, report: Report) -> Trigger | None:
    """The trigger; None after its problem was reported at the value that is wrong."""
    if kind in _EVENTS:
        return _EVENTS[kind]()
    key = _KEY_OF[kind]
    child = settings.node.child(key.name)
    if child is None:
        hint = f"Add {key.name}: {key.meaning[0].lower()}{key.meaning[1:]}"
        report.error(Code.MISSING_KEY, f'Type {kind} needs "{key.name}".', settings.node.label, hint)
        return None
    try:
        written = settings.take(key, "")
        return _parsed(written, kind, zone)
    except HerdbeatError as error:
        report.misfit(without_value(error, child, key.shape.expected()), child)
    return None


def _parsed(written: str, kind: TriggerKind, zone: ZoneInfo) -> Trigger:
    match kind:
        case TriggerKind.INTERVAL:
            return Interval.parse(written)
        case TriggerKind.CRON:
            return Cron.parse(written, zone)
        case _:
            return Delay.parse(written)


def _note_idle_keys(node: Located, kind: TriggerKind, report: Report) -> None:
    for other, key in _KEY_OF.items():
        child = node.child(key.name)
        if other is not kind and child is not None:
            report.warning(
                Code.NOT_SERVED,
                f'"{key_name(child)}" has no effect: the schedule is of type {kind}.',
                child.label,
                "Remove it, or change the type.",
            )


def refuse_outside_hours(trigger: Trigger, hours: ActiveHours | None) -> None:
    """Raise if a cron schedule never falls into its active hours.

    Looks at the first instant after each opening of the window: for a year of openings, and for
    rarer expressions until every combination of leap year and weekday has come by.
    """
    if hours is None or trigger.kind is not TriggerKind.CRON:
        return
    moment = _START
    for _ in range(370):
        found = trigger.next_time(None, _opening(moment, hours) - timedelta(seconds=1))
        if found is None or found > _HORIZON:
            break
        if hours.contains(found):
            return
        moment = found
    raise Misfit(
        Code.NEVER_FIRES,
        f"It never fires inside its active hours {hours}.",
        hint="Widen active_hours, or move the cron expression into them.",
    )


def _opening(moment: datetime, hours: ActiveHours) -> datetime:
    """The next time the window opens, strictly after the moment."""
    local = moment.astimezone(hours.zone)
    opens = datetime.combine(local.date(), hours.opens, hours.zone)
    if opens.astimezone(UTC) <= moment:
        opens = datetime.combine(local.date() + timedelta(days=1), hours.opens, hours.zone)
    return opens.astimezone(UTC)
