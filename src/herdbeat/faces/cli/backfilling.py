"""`herdbeat backfill`: run the instants of a past window now."""

import json
from datetime import datetime
from typing import Any

from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import spoken_duration
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import DECLINED, agreed, elsewhere
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World
from herdbeat.moments import format_moment, parse_moment
from herdbeat.scheduler.backfill import MOST, Window
from herdbeat.service.backfilling import USUAL_MOST, Filling, backfill_for_later, passed_part, plan_backfill
from herdbeat.service.questions import find_schedule

ASKS_ABOVE = 20
LISTED = 10


def backfill(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        record = find_schedule(ledger.opened(), given.words[0])
        window = passed_part(_window(given, ledger), ledger.now)
        instants = plan_backfill(record.plan, record.label, window, _most(given))
        if given.has(flags.DRY_RUN):
            return _show_plan(given, world, ledger, record, instants)
        sentence = f"Runs {counted(len(instants), 'past instant')} of {record.label} now."
        if len(instants) > ASKS_ABOVE and not agreed(given, world, sentence):
            world.terminal.remark("Nothing was changed.")
            return DECLINED
        filling = Filling(
            schedule_id=record.id,
            label=record.label,
            window=window,
            rate=ledger.fleet.catchup_rate,
            who=person(world),
            reason=reason_of(given),
        )
        answer, is_served = _carry_out(ledger, filling)
        _tell(given, world, ledger, answer, is_served=is_served)
        return 0


def _window(given: Given, ledger: Ledger) -> Window:
    start, end = given.value(flags.FROM), given.value(flags.UNTIL)
    if start is None:
        raise UsageError("--from is missing: where does the window begin?", hint="Write for example --from 2026-03-01.")
    until = ledger.now if end is None else read_past(end, ledger.now, ledger.zone)
    return Window(start=read_past(start, ledger.now, ledger.zone), end=until)


def _most(given: Given) -> int:
    text = given.value(flags.MAX)
    if text is None:
        return USUAL_MOST
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and 0 < int(text) <= MOST):
        raise UsageError(f'--max cannot be "{text[:20]}".', hint=f"Write a whole number from 1 to {MOST}.")
    return int(text)


def _carry_out(ledger: Ledger, filling: Filling) -> tuple[dict[str, Any], bool]:
    request = {
        "do": "backfill",
        "schedule": filling.schedule_id,
        "label": filling.label,
        "from": format_moment(filling.window.start),
        "until": format_moment(filling.window.end),
        "who": filling.who,
        "reason": filling.reason,
    }
    return reach(ledger, request, lambda: backfill_for_later(ledger.path, ledger.now, filling))


def _tell(given: Given, world: World, ledger: Ledger, answer: dict[str, Any], *, is_served: bool) -> None:
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({**answer, "served": is_served}, indent=2, ensure_ascii=False))
        return
    name = printable(answer["schedule"])
    first, last = (near_time(parse_moment(answer[key]), ledger.now, ledger.zone) for key in ("first", "last"))
    world.terminal.say(
        f"◷ {name}  backfill #{answer['backfill']}: {counted(answer['count'], 'beat')}, {first} to {last}"
        f"   undo what still waits: herdbeat cancel {name}{elsewhere(given)}"
    )
    spread = parse_moment(answer["last_start_at"]) - ledger.now
    pace = f"spread over {spoken_duration(spread)} (catchup_rate)" if spread.total_seconds() >= 1 else "at once"
    starts = f"They start {pace}, as there is room" if is_served else "They start with the next: herdbeat up"
    world.terminal.remark(f"{starts}. Watch them: herdbeat beats {name} --outcome pending")


def _show_plan(
    given: Given, world: World, ledger: Ledger, record: ScheduleRecord, instants: tuple[datetime, ...]
) -> int:
    if given.has(flags.JSON):
        items = [format_moment(each) for each in instants]
        world.terminal.say(json.dumps({"schedule": record.label, "count": len(items), "instants": items}, indent=2))
        return 0
    for each in instants[:LISTED]:
        world.terminal.say(f"  {near_time(each, ledger.now, ledger.zone)}")
    if len(instants) > LISTED:
        world.terminal.say(f"  … {near_time(instants[-1], ledger.now, ledger.zone)}")
    world.terminal.remark(f"Would run {counted(len(instants), 'instant')} of {record.label}. Nothing was changed.")
    return 0
