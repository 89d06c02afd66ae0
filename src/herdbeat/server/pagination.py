"""Lists: keyset cursors, and the three formats of a list (JSON, JSON lines, CSV)."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal, Protocol, TypeVar

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.error_codes import Code
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.server.auth import get_authenticator
from herdbeat.server.problems import HttpError
from herdbeat.service.queries.selectors import FoundCount
from herdbeat.service.serialize import JsonObject, serialize_page

MAX_LIMIT = 200
JSON_LINES = "application/jsonl"
CSV = "text/csv"

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows of a page")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before", examples=["7f3k"])]
ListFormat = Annotated[
    Literal["json", "jsonl", "csv"] | None, Query(alias="format", description="Overrides the Accept header")
]

CountRows = Annotated[
    Literal["approx"] | None,
    Query(description="Adds `count`, exact up to 10,000 rows, and `count_is_exact` to a list in JSON"),
]

LIST_CONTENT: dict[int | str, dict[str, object]] = {
    200: {"content": {"application/json": {}, JSON_LINES: {}, CSV: {}}, "description": "A page"}
}


class RowWithId(Protocol):
    """A row whose id is the cursor to the rows after it."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=RowWithId)


def parse_cursor(text: str | None) -> int | None:
    """Raises UsageError for a text that no page has given."""
    number = None if text is None else parse_short_id(text)
    if text is not None and (number is None or number >= 1 << 62):
        message = f'"{truncate_for_message(text)}" is not a cursor.'
        raise UsageError(message, hint="Use the next_cursor of the previous page.")
    return number


def render_rows(
    request: Request,
    rows: Sequence[R],
    limit: int,
    to_object: Callable[[R], JsonObject],
    list_format: str | None,
    count: FoundCount | None = None,
) -> Response:
    """Return a page of rows. There is one more than `limit` if there is another page."""
    page = rows[:limit]
    cursor = format_short_id(page[-1].id) if len(rows) > limit else None
    return render_list(request, [to_object(each) for each in page], cursor, list_format, count)


def render_list(
    request: Request,
    items: list[JsonObject],
    cursor: str | None,
    list_format: str | None,
    count: FoundCount | None = None,
) -> Response:
    headers = {} if cursor is None else {"Link": f'<{_build_next_page_url(request, cursor)}>; rel="next"'}
    match list_format or _choose_format(request):
        case "jsonl":
            text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
            return Response(text, media_type=JSON_LINES, headers=headers)
        case "csv":
            return Response(_format_csv(items), media_type=f"{CSV}; charset=utf-8", headers=headers)
        case _:
            return JSONResponse(serialize_page(items, cursor, count), headers=headers)


def _build_next_page_url(request: Request, cursor: str) -> str:
    """Return the address of the next page as the client reaches it: a proxy changes scheme, host and base path."""
    settings = get_authenticator(request).settings
    if not settings.public_url:
        return str(request.url.include_query_params(cursor=cursor))
    path = request.scope["path"].removeprefix(settings.base_path)
    query = request.url.include_query_params(cursor=cursor).query
    return f"{settings.public_url.rstrip('/')}{path}?{query}"


def _choose_format(request: Request) -> str:
    accept = request.headers.get("accept", "*/*").lower()
    types = [part.partition(";")[0].strip() for part in accept.split(",")]
    for media_type in types:
        if media_type in (JSON_LINES, "application/x-ndjson"):
            return "jsonl"
        if media_type == CSV:
            return "csv"
        if media_type in ("application/json", "application/*", "*/*", ""):
            return "json"
    if "text/html" in types:
        return "json"
    raise HttpError(406, Code.NOT_ACCEPTABLE, f'"{truncate_for_message(accept)}" is not a format of this list.')


def _format_csv(items: Iterable[JsonObject]) -> str:
    """Return one column per key; what is no plain value stands as JSON in its cell."""
    rows = list(items)
    out = io.StringIO()
    writer = csv.writer(out)
    if rows:
        writer.writerow(rows[0])
    for row in rows:
        writer.writerow([_format_cell(value) for value in row.values()])
    return out.getvalue()


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A spreadsheet would execute a cell that begins like a formula.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
