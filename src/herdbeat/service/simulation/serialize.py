"""A simulation as JSON."""

from dataclasses import asdict
from zoneinfo import ZoneInfo

from herdbeat.service.serialize import JsonObject
from herdbeat.service.simulation.report import SimulationReport
from herdbeat.timestamps import format_timestamp


def serialize_simulation(report: SimulationReport) -> JsonObject:
    zone: ZoneInfo = report.zone
    return {
        "fleet": report.fleet,
        "from": format_timestamp(report.start),
        "until": format_timestamp(report.until),
        "seed": report.seed,
        "timezone": str(zone),
        "schedules": [asdict(each) for each in report.schedules],
        "totals": asdict(report.totals),
        "collisions": [
            {"at": format_timestamp(each.at), "starts": each.starts, "schedules": list(each.schedules)}
            for each in report.collisions
        ],
        "odd_nights": [
            {"at": format_timestamp(each.at), "schedule": each.schedule, "timezone": each.zone, "note": each.note}
            for each in report.odd_nights
        ],
        "days": [
            {"day": each.day.isoformat(), "starts_by_hour": list(each.starts), "cost_usd": each.cost_usd}
            for each in report.days
        ],
    }
