"""`herdbeat next --json`."""

import json

from herdbeat.domain.decision import step_to_json
from herdbeat.faces.cli.next_times import Subject, Window
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.moments import format_moment
from herdbeat.service.instants import Upcoming


def show_json(terminal: Terminal, subject: Subject, window: Window) -> None:
    trigger = subject.trigger
    answer = {
        "from": format_moment(window.start),
        "until": None if window.until is None else format_moment(window.until),
        "timezone": subject.zone.key,
        "trigger": trigger and {"kind": trigger.kind, "description": trigger.describe(), **trigger.options()},
        "items": [_item(each, subject) for each in subject.instants(window)],
        "idle": [
            {"schedule": each.schedule, "standing": each.standing, "reason": each.reason}
            for each in subject.idle(window)
        ],
    }
    terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))


def _item(each: Upcoming, subject: Subject) -> dict[str, object]:
    return {
        "schedule": each.schedule or None,
        "due_at": format_moment(each.due_at),
        "next_run_at": format_moment(each.next_run_at),
        "local": each.next_run_at.astimezone(subject.zone).isoformat(),
        "source": each.source,
        "notes": list(each.notes),
        "steps": [step_to_json(step) for step in each.trace],
    }
