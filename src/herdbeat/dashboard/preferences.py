"""What a visitor has chosen, kept in cookies: theme, time zone, keys. The server renders it, so nothing flashes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.errors import HerdbeatError
from herdbeat.timestamps import parse_zone

THEME_COOKIE = "herdbeat_theme"
ZONE_COOKIE = "herdbeat_zone"
BROWSER_ZONE_COOKIE = "herdbeat_browser_zone"
KEYS_COOKIE = "herdbeat_keys"
SEEN_COOKIE = "herdbeat_seen"
NOTICE_COOKIE = "herdbeat_notice"
COOKIE_AGE = timedelta(days=365)


class ZoneChoice(StrEnum):
    FLEET = "fleet"
    BROWSER = "browser"
    UTC = "utc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """`theme` is empty while the system decides. `seen_run` is the newest run that the visitor has looked at."""

    theme: str = ""
    zone_choice: ZoneChoice = ZoneChoice.FLEET
    browser_zone: ZoneInfo | None = None
    has_keys: bool = True
    seen_run: int = 0

    @classmethod
    def read(cls, cookies: Mapping[str, str]) -> "Preferences":
        """A cookie with an unknown value counts as absent."""
        theme, zone = cookies.get(THEME_COOKIE, ""), cookies.get(ZONE_COOKIE, "")
        seen = cookies.get(SEEN_COOKIE, "")
        return cls(
            theme=theme if theme in ("light", "dark") else "",
            zone_choice=ZoneChoice(zone) if zone in set(ZoneChoice) else ZoneChoice.FLEET,
            browser_zone=_read_zone(cookies.get(BROWSER_ZONE_COOKIE, "")),
            has_keys=cookies.get(KEYS_COOKIE) != "off",
            seen_run=int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 16 else 0,
        )

    def select_zone(self, fleet_zone: tzinfo) -> tzinfo:
        """Return the zone of every time on the page. A browser that has not sent its zone gets that of the fleet."""
        if self.zone_choice is ZoneChoice.UTC:
            return UTC
        if self.zone_choice is ZoneChoice.BROWSER and self.browser_zone is not None:
            return self.browser_zone
        return fleet_zone


def _read_zone(name: str) -> ZoneInfo | None:
    if not name or len(name) > 60:
        return None
    try:
        return parse_zone(name.replace("%2F", "/"))
    except HerdbeatError:
        return None


def format_clock(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return `14:04:20 CET` today, `Fri 27 Mar 09:00 CET` otherwise. Every absolute time names its zone."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    clock = f"{local:%H:%M:%S}" if local.date() == today or local.second else f"{local:%H:%M}"
    zone_name = local.tzname() or ""
    if local.date() == today:
        return f"{clock} {zone_name}"
    date = f"{local:%a %d %b}" if local.year == today.year else f"{local:%a %d %b %Y}"
    return f"{date} {clock} {zone_name}"
