-- Signed contents of accepted webhook calls, for a day: the same content under another delivery id is a replay.
-- Understood by programs of schema 10: they accept no calls.
CREATE TABLE webhook_digest (
    schedule_id bigint NOT NULL REFERENCES schedule (id),
    digest      text   COLLATE "C" NOT NULL,
    at          bigint NOT NULL,
    PRIMARY KEY (schedule_id, digest)
);

CREATE INDEX webhook_digest_at ON webhook_digest (at);
