-- Runs that happen on an engine, and what they have printed until their node has read it.
CREATE TABLE remote_run (
    run_id      INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    executor    TEXT    NOT NULL,
    state       TEXT    NOT NULL,          -- submitted, taken, ended
    start_by    INTEGER NOT NULL,
    nonce       TEXT    NOT NULL DEFAULT '',
    place       TEXT    NOT NULL DEFAULT '',
    token       TEXT    NOT NULL DEFAULT '',   -- hash of the one-run token
    lease_until INTEGER,
    extended    INTEGER NOT NULL DEFAULT 0,
    stop_reason TEXT    NOT NULL DEFAULT '',
    result      TEXT    NOT NULL DEFAULT '',
    job         TEXT    NOT NULL DEFAULT '',   -- for herdbeat exec; forgotten when the run has ended
    claim       TEXT    NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL
);
CREATE INDEX remote_run_open ON remote_run (executor, run_id) WHERE state <> 'ended';
CREATE TABLE remote_log (
    run_id   INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    text     TEXT    NOT NULL,
    PRIMARY KEY (run_id, sequence)
) WITHOUT ROWID;
