-- The items that runs have taken from work sources. A row is written before the source is asked: a node that dies leaves
-- no item that nobody knows of. It is an outbox, too: a run that has ended leaves its report here until the source has it.
-- `used` is 1 if the claim used up one of the item's attempts, and 2 if it was the last one.
CREATE TABLE work_claim (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    source       TEXT    NOT NULL,
    item         TEXT    NOT NULL,
    marker       TEXT    NOT NULL UNIQUE,
    schedule_id  INTEGER NOT NULL,
    run_id       INTEGER NOT NULL,
    attempt      INTEGER NOT NULL DEFAULT 1,
    max_attempts INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    data         TEXT    NOT NULL DEFAULT '{}',
    spec         TEXT    NOT NULL DEFAULT '{}',
    host         TEXT,
    remembers    INTEGER NOT NULL DEFAULT 0,
    claimed_at   INTEGER NOT NULL,
    offered_at   INTEGER,
    ended_at     INTEGER,
    used         INTEGER NOT NULL DEFAULT 0,
    report       TEXT,
    reason       TEXT    NOT NULL DEFAULT '',
    tries        INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX work_claim_open ON work_claim (source, item) WHERE state IN ('claiming', 'claimed', 'ran');
CREATE INDEX work_claim_item ON work_claim (source, item, id);
CREATE INDEX work_claim_run ON work_claim (run_id);
CREATE INDEX work_claim_due ON work_claim (next_at) WHERE state IN ('claiming', 'claimed', 'ran');
