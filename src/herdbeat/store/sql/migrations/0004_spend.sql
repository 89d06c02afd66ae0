-- What a schedule with a budget has used on one day of its zone, the estimates of its open runs included.
CREATE TABLE spend (
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    day         TEXT    NOT NULL,
    runs        INTEGER NOT NULL DEFAULT 0,
    tokens      INTEGER NOT NULL DEFAULT 0,
    usd         REAL    NOT NULL DEFAULT 0,
    PRIMARY KEY (schedule_id, day)
) WITHOUT ROWID;

-- What was set aside for an open run. Its finish takes this back and puts in what the run has really used.
CREATE TABLE reservation (
    run_id      INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL,
    day         TEXT    NOT NULL,
    tokens      INTEGER NOT NULL,
    usd         REAL    NOT NULL
);

-- What we have to say about a run, such as a precheck that is broken.
ALTER TABLE run ADD COLUMN note TEXT;

-- Which schedules a node may run, beside those that do not care: a JSON array of labels.
ALTER TABLE node ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
