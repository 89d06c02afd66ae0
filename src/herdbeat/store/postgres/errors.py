"""PostgreSQL's errors as StoreUnavailable: one sentence, and what to do.

Nothing here ever repeats a URL: it may hold a password.
"""

from contextlib import suppress

import psycopg
from psycopg import conninfo, errors

from herdbeat.errors import HerdbeatError, StoreLocked, StoreUnavailable
from herdbeat.redaction import redact_store_url
from herdbeat.store.location import UNREADABLE_URL_MESSAGE, URL_FORMAT_HINT

_SERVER_ERROR_CLASSES = ("08", "53", "57", "58", "40", "55", "25", "F0", "XX")
"""Classes of SQLSTATE about the server, the connection or a lock, not about the statement."""

_HINTS = {
    "28P01": "Check the user and password in store:, or set the password in PGPASSWORD.",
    "28000": "Check the user in store: and the access rules of the server (pg_hba.conf).",
    "3D000": "Create the database (createdb), or use another one in store:.",
    "53300": "The server has no free connections: raise its max_connections, or use a connection pooler.",
    "53100": "Free disk space on the server.",
    "25006": "The server is read-only (a replica, or during a failover). Wait, or use the primary in store:.",
    "57014": "The server took too long: another session may hold a lock (see pg_stat_activity), or it is overloaded.",
    "57P03": "The server is starting or stopping. Try again when it is ready.",
    "42501": "Grant the user permission to create tables in this database.",
}
_CODES_BY_TEXT = {"password": "28P01", "does not exist": "3D000", "too many": "53300", "read-only": "25006"}
"""For errors without a code, as those of connecting."""


def display_url(url: str) -> str:
    """Return a store's URL without its password."""
    return redact_store_url(url) or "postgresql://…"


def is_statement_error(error: psycopg.Error) -> bool:
    """Whether only the statement is at fault. All else is about the server: nothing of the transaction can stand."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is not None and not error.sqlstate.startswith(_SERVER_ERROR_CLASSES)


def is_rejected_by_server(error: psycopg.Error) -> bool:
    """Whether the server itself refused the transaction. Any other error may have come after the commit.

    A server that was shut down reported that in answer to a COMMIT which it had done. Taken for a refusal, this left
    the runs of a whole claim to a node that did not know of them.
    """
    return error.diag.severity_nonlocalized == "ERROR"


def is_retryable(error: psycopg.Error) -> bool:
    """Whether it was a deadlock or a serialization failure: the same transaction may succeed next time."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def to_store_unavailable(location: str, error: psycopg.Error) -> StoreUnavailable:
    """Return StoreLocked after a wait for a lock: the server cancels a statement that has waited for too long."""
    kind = StoreLocked if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled) else StoreUnavailable
    return kind(f"{location}: {summarize_error(error)}", hint=suggest_fix(error))


def summarize_error(error: psycopg.Error) -> str:
    """Return its first meaningful line, without the driver's prefix and without a full stop."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[0] if error.diag.message_primary else lines[-1] if "FATAL" in lines[-1] else lines[0]
    return last.rpartition("FATAL:")[2].rpartition(" failed: ")[2].strip().rstrip(".")


def suggest_fix(error: psycopg.Error) -> str:
    codes = [code for pattern, code in _CODES_BY_TEXT.items() if pattern in str(error)]
    known = [_HINTS[code] for code in (error.sqlstate, *codes) if code in _HINTS]
    return known[0] if known else "Check that the server is running and reachable from this machine."


def check_url(url: str) -> HerdbeatError | None:
    """Return the error of a URL that the driver cannot parse, or would parse differently than intended."""
    with suppress(psycopg.ProgrammingError):
        conninfo.conninfo_to_dict(url)
        if redact_store_url(url):
            return None
    return StoreUnavailable(UNREADABLE_URL_MESSAGE, hint=URL_FORMAT_HINT)
