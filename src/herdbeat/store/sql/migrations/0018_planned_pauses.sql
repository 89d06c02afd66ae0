-- Times in which schedules are paused, written down before they begin. A schedule counts its open ones in `planned`.
CREATE TABLE planned_pause (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    selection  TEXT    NOT NULL,
    from_at    INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    by         TEXT    NOT NULL DEFAULT '',
    reason     TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    ended_by   TEXT    NOT NULL DEFAULT ''
);
-- The schedules that a planned pause holds. Its end is here, too: a person may resume one of them earlier.
CREATE TABLE paused_schedule (
    schedule_id INTEGER NOT NULL,
    pause_id    INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    is_open     INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (schedule_id, pause_id)
) WITHOUT ROWID;
CREATE INDEX paused_schedule_of ON paused_schedule (pause_id);
ALTER TABLE schedule ADD COLUMN planned INTEGER NOT NULL DEFAULT 0;
