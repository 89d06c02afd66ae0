-- What hooks and notifications have to send. A row is written in the transaction that makes it true, and stays until the
-- receiver has it. A sender has a row until `next_at`, under its `fence`; a row without a sender waits until then.
-- A row that `is_once` starts a program: it is marked as started before, and never started again.
CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT    NOT NULL UNIQUE,
    channel    TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    spec       TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    run_id     INTEGER,
    host       TEXT,
    is_once    INTEGER NOT NULL DEFAULT 0,
    state      TEXT    NOT NULL DEFAULT 'pending',
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER NOT NULL DEFAULT 0,
    fence      INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    error      TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX outbox_due ON outbox (next_at) WHERE state IN ('pending', 'started');
CREATE INDEX outbox_channel ON outbox (channel, id) WHERE state IN ('pending', 'started');
CREATE INDEX outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (ended_at) WHERE ended_at IS NOT NULL;

-- The hooks of a target as JSON; empty if it has none.
ALTER TABLE target ADD COLUMN hooks TEXT NOT NULL DEFAULT '';
