-- What the planner has analysed, and when it looks at each group again.
CREATE TABLE planner_group (
    name    TEXT    PRIMARY KEY,
    next_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE planner_session (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    group_name    TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    next_at       INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    usd           REAL,
    record        TEXT    NOT NULL      -- reasoning, actions, calls, warnings, error
);
CREATE INDEX planner_session_time ON planner_session (started_at);
