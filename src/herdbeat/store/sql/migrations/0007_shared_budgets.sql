-- Budgets that several schedules share: of a target, or of the whole fleet (holder 0). A schedule's own is in its plan.
CREATE TABLE budget (
    scope     TEXT    NOT NULL,
    holder_id INTEGER NOT NULL,
    text      TEXT    NOT NULL,
    PRIMARY KEY (scope, holder_id)
) WITHOUT ROWID;

-- What whoever has a budget has used on one day, the estimates of open runs included. It was a schedule only.
CREATE TABLE spend_of_holder (
    scope     TEXT    NOT NULL,
    holder_id INTEGER NOT NULL,
    day       TEXT    NOT NULL,
    runs      INTEGER NOT NULL DEFAULT 0,
    tokens    INTEGER NOT NULL DEFAULT 0,
    usd       REAL    NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, holder_id, day)
) WITHOUT ROWID;
INSERT INTO spend_of_holder SELECT 'schedule', schedule_id, day, runs, tokens, usd FROM spend;
DROP TABLE spend;
ALTER TABLE spend_of_holder RENAME TO spend;

-- What was set aside for an open run, once for everybody whose budget it counts for.
CREATE TABLE reservation_of_holder (
    run_id    INTEGER NOT NULL,
    scope     TEXT    NOT NULL,
    holder_id INTEGER NOT NULL,
    day       TEXT    NOT NULL,
    tokens    INTEGER NOT NULL,
    usd       REAL    NOT NULL,
    PRIMARY KEY (run_id, scope)
) WITHOUT ROWID;
INSERT INTO reservation_of_holder SELECT run_id, 'schedule', schedule_id, day, tokens, usd FROM reservation;
DROP TABLE reservation;
ALTER TABLE reservation_of_holder RENAME TO reservation;
