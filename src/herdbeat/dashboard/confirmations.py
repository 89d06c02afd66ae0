"""The confirmation page before a change of many schedules, or one that cannot be undone. It works without scripts."""

from collections.abc import Sequence

from fastapi import Response
from fastapi.responses import HTMLResponse

from herdbeat.dashboard.app import FormContext
from herdbeat.dashboard.render import render

MAX_LISTED = 20
_OWN_FIELDS = frozenset({"csrf_token", "return_to", "confirmed"})


def show_confirmation(
    context: FormContext, *, question: str, note: str, labels: Sequence[str], command_line: str
) -> Response:
    """Return a page with the same form once more, which then counts as confirmed."""
    page = render(
        "confirm.html",
        context.frame,
        question=question,
        note=note,
        labels=labels[:MAX_LISTED],
        left_out=max(0, len(labels) - MAX_LISTED),
        command_line=command_line,
        fields=[(name, value) for name, value in context.fields if name not in _OWN_FIELDS],
        action=context.action,
        back=context.return_to,
    )
    return HTMLResponse(page)
