"""A simulation as one HTML file that needs nothing else: a map of the hours, the cost of the days, the schedules."""

from collections.abc import Iterator
from html import escape

from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.service.simulation.report import SimulatedSchedule, SimulationReport, SimulationTotals

CELL_WIDTH, CELL_HEIGHT, LABEL_WIDTH, BAR_WIDTH = 24, 16, 92, 160
_TOP = 22

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
.start { fill: #1a7f5a; } .cost { fill: #b7791f; } .empty { fill: currentColor; opacity: .06; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: right; padding: .2rem .5rem; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
"""


def render_simulation(report: SimulationReport) -> str:
    """Return the page. Every text of the fleet is escaped."""
    title = f"Simulation of {_text(report.fleet)}"
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
    )
    return "\n".join([head, f"<h1>{title}</h1>", *_parts(report), "</body></html>", ""])


def _parts(report: SimulationReport) -> Iterator[str]:
    start, until = (f"{at.astimezone(report.zone):%a %d %b %Y %H:%M}" for at in (report.start, report.until))
    yield f"<p>{start} to {until} ({_text(str(report.zone))}), seed {report.seed}</p>"
    yield "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in _totals(report)) + "</dl>"
    yield "<h2>Starts per hour, cost per day</h2>"
    yield _draw_days(report)
    if report.collisions:
        yield "<h2>Most starts in one second</h2><ul>"
        for shared in report.collisions:
            names = _text(", ".join(shared.schedules))
            more = shared.starts - len(shared.schedules)
            names += f" and {more:,} more" if more else ""
            yield f"<li>{shared.at.astimezone(report.zone):%a %d %b %H:%M:%S}: {shared.starts:,} ({names})</li>"
        yield "</ul>"
    if report.odd_nights:
        yield "<h2>Odd nights</h2><ul>"
        for odd in report.odd_nights:
            yield f"<li>{odd.at.astimezone(report.zone):%a %d %b %H:%M} {_text(odd.schedule)}: {_text(odd.note)}</li>"
        yield "</ul>"
    yield "<h2>Schedules</h2>"
    yield _table(report)


def _totals(report: SimulationReport) -> Iterator[tuple[str, str]]:
    totals = report.totals
    yield "runs", f"{totals.runs:,} for {totals.beats:,} beats; {totals.failed:,} failed"
    yield "not run", f"{totals.missed:,} missed, {totals.skipped:,} skipped, {totals.merged:,} merged"
    yield "cost", format_total_cost(totals)
    yield "lateness", f"{totals.late_runs:,} starts waited, at most {totals.late_max_s:,.0f} s"
    yield "capacity", f"at most {totals.most_active:,} at once; {totals.capacity_waits:,} waited for their target"
    yield "collisions", f"{totals.collision_seconds:,} seconds with several starts"
    yield "budget days", f"{totals.budget_days:,}"
    yield "usage limits", f"reached {totals.usage_limit_holds:,} times, {totals.usage_limit_hold_s / 3600:,.1f} h held"


def _draw_days(report: SimulationReport) -> str:
    busiest = max((max(day.starts) for day in report.days), default=0) or 1
    dearest = max((day.cost_usd for day in report.days), default=0.0) or 1.0
    width = LABEL_WIDTH + 24 * CELL_WIDTH + BAR_WIDTH
    height = _TOP + len(report.days) * CELL_HEIGHT
    label = f"Starts per hour, at most {busiest}, and cost per day"
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    parts += [f'<text x="{LABEL_WIDTH + hour * CELL_WIDTH}" y="14">{hour:02}</text>' for hour in range(0, 24, 3)]
    parts.append(f'<text x="{LABEL_WIDTH + 24 * CELL_WIDTH + 8}" y="14">cost, at most {format_usd(dearest)}</text>')
    for row, day in enumerate(report.days):
        y = _TOP + row * CELL_HEIGHT
        parts.append(f'<text x="0" y="{y + 12}">{day.day:%a %d %b}</text>')
        for hour, starts in enumerate(day.starts):
            x = LABEL_WIDTH + hour * CELL_WIDTH
            shade = (
                'class="empty"' if not starts else f'class="start" fill-opacity="{0.2 + 0.8 * starts / busiest:.2f}"'
            )
            tooltip = f"<title>{day.day:%a %d %b} {hour:02}:00: {starts:,} starts</title>"
            box = f'x="{x}" y="{y}" width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT - 2}"'
            parts.append(f"<rect {box} {shade}>{tooltip}</rect>")
        bar = (BAR_WIDTH - 16) * day.cost_usd / dearest
        x = LABEL_WIDTH + 24 * CELL_WIDTH + 8
        tooltip = f"<title>{day.day:%a %d %b}: {format_usd(day.cost_usd)}</title>"
        box = f'x="{x}" y="{y}" width="{bar:.1f}" height="{CELL_HEIGHT - 2}"'
        parts.append(f'<rect class="cost" {box}>{tooltip}</rect>')
    return "".join([*parts, "</svg>"])


def _table(report: SimulationReport) -> str:
    headings = ("schedule", "beats", "runs", "failed", "missed", "skipped", "cost", "late", "longest wait", "figures")
    rows = "".join(_row(each) for each in report.schedules)
    return f"<table><tr>{''.join(f'<th>{each}</th>' for each in headings)}</tr>{rows}</table>"


def _row(each: SimulatedSchedule) -> str:
    counts = (each.beats, each.runs, each.failed, each.missed, each.skipped)
    cells = [_text(each.schedule), *(f"{count:,}" for count in counts), format_usd(each.cost_usd)]
    cells += [f"{each.late_runs:,}", f"{each.late_max_s:,.0f} s", each.profile]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def format_usd(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:,.2f}"


def format_total_cost(totals: SimulationTotals) -> str:
    """An unknown cost is not 0, so the sum says whose is missing."""
    missing = f", unknown for {format_count(totals.unknown_costs, 'schedule')}" if totals.unknown_costs else ""
    return format_usd(totals.cost_usd) + missing


def _text(text: str) -> str:
    return escape(printable(text))
