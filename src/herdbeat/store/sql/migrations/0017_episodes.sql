-- What channels are told of: a condition of a subject, from its beginning to its end. While it is open, it exists once.
CREATE TABLE episode (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    channel       TEXT    NOT NULL,
    condition     TEXT    NOT NULL,
    subject       TEXT    NOT NULL,
    detail        TEXT    NOT NULL DEFAULT '',
    began_at      INTEGER NOT NULL,
    opened_at     INTEGER NOT NULL,
    schedule_id   INTEGER,
    clear_since   INTEGER,
    ended_at      INTEGER,
    told_at       INTEGER,
    end_told_at   INTEGER,
    acked_by      TEXT    NOT NULL DEFAULT '',
    snoozed_until INTEGER
);
CREATE UNIQUE INDEX episode_open ON episode (channel, condition, subject) WHERE ended_at IS NULL;
CREATE INDEX episode_untold ON episode (ended_at) WHERE ended_at IS NOT NULL AND end_told_at IS NULL;
