-- Signed contents of accepted webhook calls, for a day: the same content under another delivery id is a replay.
CREATE TABLE webhook_digest (
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    digest      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, digest)
) WITHOUT ROWID;

CREATE INDEX webhook_digest_at ON webhook_digest (at);
