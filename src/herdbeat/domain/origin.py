"""Where a target or a schedule comes from: its place in a file, or the way in by which somebody made it."""

from enum import StrEnum

from herdbeat.errors import SourceLocation


class CreatedVia(StrEnum):
    """Ways in beside the files. What came by one of them stays when the files are applied."""

    CLI = "cli"
    API = "api"
    MCP = "mcp"
    APPLY = "apply"  # one file by itself, which is not part of the fleet's files: "apply deploy.yml:1:1"


def is_unmanaged(origin: str) -> bool:
    """Whether somebody made it, beside the files. A place always ends in its line and column, so it is no bare word."""
    return origin.partition(" ")[0] in _CREATED_VIA_VALUES


Origin = SourceLocation | CreatedVia
_CREATED_VIA_VALUES = frozenset(way.value for way in CreatedVia)
