-- What the server needs. A token is a random text that a program shows; only its hash is kept.
CREATE TABLE token (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL UNIQUE,
    scope      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT    NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT    NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX token_in_force ON token (name) WHERE revoked_at IS NULL;

-- The result of each command that was given an id. A command that arrives twice is answered from here.
CREATE TABLE request (
    id     TEXT    PRIMARY KEY,
    at     INTEGER NOT NULL,
    result TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX request_at ON request (at);
