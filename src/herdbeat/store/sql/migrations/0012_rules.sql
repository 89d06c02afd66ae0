-- What is remembered of each rule of a schedule, and what became of it after the newest run.
CREATE TABLE rule_state (
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    rule        TEXT    NOT NULL,
    matches     INTEGER NOT NULL,
    active      INTEGER NOT NULL,
    fired_at    INTEGER,
    outcome     TEXT    NOT NULL,
    reads       TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    run_id      INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, rule)
) WITHOUT ROWID;
