"""What PostgreSQL says when something is wrong, as our errors: one calm sentence, and what to do.

Nothing here ever repeats a URL: it may hold a password.
"""

import psycopg
from psycopg import conninfo, errors

from herdbeat.errors import HerdbeatError, StoreUnavailable
from herdbeat.store.places import UNREADABLE, URL_FORM, shown_url

_AWAY = ("08", "53", "57", "58", "40", "55", "25", "F0", "XX")
"""Classes of SQLSTATE that are about the server, the connection or somebody else's lock, and not about the work."""

_MENDS = {
    "28P01": "Look at the user and the password in store:, or give the password in PGPASSWORD.",
    "28000": "Look at the user in store:, and at what the server lets in (pg_hba.conf).",
    "3D000": "Make the database first (createdb), or name another one in store:.",
    "53300": "The server has no connection left: raise its max_connections, or use a pooler.",
    "53100": "Make room on the server's disk.",
    "25006": "The server takes no writes (a replica, or being moved). Wait, or name in store: the one that does.",
    "57P03": "The server is starting or stopping.",
    "42501": "Give the user the right to make tables in this database.",
}


def place_of(url: str) -> str:
    """A store's URL for people: without its password."""
    return shown_url(url) or "postgresql://…"


def is_about_the_work(error: psycopg.Error) -> bool:
    """Whether only what was to be written is at fault. All else is about where: nobody's work can stand then."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is not None and not error.sqlstate.startswith(_AWAY)


def is_refused(error: psycopg.Error) -> bool:
    """The server's own no to a transaction. Everything else may have come after its yes.

    A server that was shut down said so to who waited for the answer to a COMMIT, and had done it. Taken for a no, this
    left the runs of a whole turn to a node that knew nothing of them.
    """
    return error.diag.severity_nonlocalized == "ERROR"


def is_worth_repeating(error: psycopg.Error) -> bool:
    """Two that waited for each other: the one that was sent away has only to come again."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def unavailable(place: str, error: psycopg.Error) -> StoreUnavailable:
    return StoreUnavailable(f"{place}: {said(error)}", hint=mend(error))


def said(error: psycopg.Error) -> str:
    """The first line of it that says something, without the driver's preface and without a full stop."""
    words = error.diag.message_primary or str(error).strip() or type(error).__name__
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    last = lines[0] if error.diag.message_primary else lines[-1] if "FATAL" in lines[-1] else lines[0]
    return last.rpartition("FATAL:")[2].rpartition(" failed: ")[2].strip().rstrip(".")


def mend(error: psycopg.Error) -> str:
    if error.sqlstate in _MENDS:
        return _MENDS[error.sqlstate]
    words = str(error)
    for code, pattern in (
        ("28P01", "password"),
        ("3D000", "does not exist"),
        ("53300", "too many"),
        ("25006", "read-only"),
    ):
        if pattern in words:
            return _MENDS[code]
    return "Look whether the server runs, and can be reached from here."


def malformed(url: str) -> HerdbeatError | None:
    """What is wrong with a URL that the driver cannot even read, or would read otherwise than it was meant."""
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return _unreadable()
    return None if shown_url(url) else _unreadable()


def _unreadable() -> StoreUnavailable:
    return StoreUnavailable(UNREADABLE, hint=URL_FORM)
