"""`herdbeat next --json`."""

import json

from herdbeat.domain.decision import step_to_json
from herdbeat.faces.cli.next_times import TimeRange, UpcomingSource
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.moments import format_timestamp
from herdbeat.service.instants import UpcomingRun


def show_upcoming_json(terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> None:
    trigger = source.trigger
    answer = {
        "from": format_timestamp(time_range.start),
        "until": None if time_range.until is None else format_timestamp(time_range.until),
        "timezone": source.zone.key,
        "trigger": trigger and {"kind": trigger.kind, "description": trigger.describe(), **trigger.options()},
        "items": [_instant_object(each, source) for each in source.instants(time_range)],
        "idle": [
            {"schedule": each.schedule, "standing": each.cause, "reason": each.reason}
            for each in source.idle(time_range)
        ],
    }
    terminal.print(json.dumps(answer, indent=2, ensure_ascii=False))


def _instant_object(each: UpcomingRun, source: UpcomingSource) -> dict[str, object]:
    return {
        "schedule": each.schedule or None,
        "due_at": format_timestamp(each.due_at),
        "next_run_at": format_timestamp(each.next_run_at),
        "local": each.next_run_at.astimezone(source.zone).isoformat(),
        "source": each.source,
        "notes": list(each.notes),
        "steps": [step_to_json(step) for step in each.trace],
    }
