-- What only the runs of agents have. Nothing here is written for other runs.
CREATE TABLE agent_run (
    run_id         INTEGER PRIMARY KEY,
    error_code     TEXT    NOT NULL DEFAULT '',
    account        TEXT    NOT NULL DEFAULT '',
    model          TEXT    NOT NULL DEFAULT '',
    answer         TEXT    NOT NULL DEFAULT '',   -- capped; the log has all of it
    quiet          INTEGER NOT NULL DEFAULT 0,
    empty_answer   INTEGER NOT NULL DEFAULT 0,
    turns          INTEGER,
    steps          TEXT    NOT NULL DEFAULT '[]', -- tool calls, as JSON
    steps_left_out INTEGER NOT NULL DEFAULT 0,
    prompt         TEXT    NOT NULL DEFAULT ''    -- as the agent got it, without secrets
);

-- What a run was charged. NULL is unknown, which is not 0.
CREATE TABLE run_cost (
    run_id             INTEGER PRIMARY KEY,
    schedule_id        INTEGER NOT NULL,
    target_id          INTEGER NOT NULL,
    day                TEXT    NOT NULL,          -- of the zone of its schedule
    source             TEXT    NOT NULL,
    usd                REAL,
    input_tokens       INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    output_tokens      INTEGER,
    notional           INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX run_cost_day ON run_cost (day, schedule_id);

-- Conversations that a later run can continue, with the last totals that the CLI has told.
CREATE TABLE session (
    runtime            TEXT    NOT NULL,
    session_id         TEXT    NOT NULL,
    schedule_id        INTEGER NOT NULL,
    host               TEXT    NOT NULL DEFAULT '',
    created_at         INTEGER NOT NULL,
    last_used_at       INTEGER NOT NULL,
    runs               INTEGER NOT NULL DEFAULT 0,
    usd                REAL,
    input_tokens       INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    output_tokens      INTEGER,
    run_id             INTEGER,                   -- the run that uses it, as long as that run is open
    PRIMARY KEY (runtime, session_id)
) WITHOUT ROWID;
CREATE INDEX session_schedule ON session (schedule_id, last_used_at);

-- Logins that have reached their usage limit. A hold is open until it is released, by its end or by a person.
CREATE TABLE account_hold (
    id          INTEGER PRIMARY KEY,
    account     TEXT    NOT NULL,
    model       TEXT    NOT NULL DEFAULT '',      -- empty: the whole account
    began_at    INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    stated      INTEGER NOT NULL DEFAULT 0,       -- the CLI has named the end
    streak      INTEGER NOT NULL DEFAULT 0,       -- holds without a stated end since the last success, this one included
    run_id      INTEGER NOT NULL,                 -- the run that was refused
    text        TEXT    NOT NULL DEFAULT '',
    released_at INTEGER,
    released_by TEXT    NOT NULL DEFAULT ''       -- empty: it ended by itself
);
CREATE UNIQUE INDEX account_hold_open ON account_hold (account, model) WHERE released_at IS NULL;
CREATE INDEX account_hold_account ON account_hold (account, id);

-- The login that the last run of a target used, for targets without `account:`.
CREATE TABLE target_account (
    target_id INTEGER PRIMARY KEY,
    account   TEXT    NOT NULL
);

-- Runs that a person should look at, and who did; a later success acknowledges as `run:<id>`.
CREATE TABLE attention (
    run_id      INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL,
    what        TEXT    NOT NULL,                 -- one text per thing to decide, as JSON
    at          INTEGER NOT NULL,
    acked_by    TEXT,
    acked_at    INTEGER
);
CREATE INDEX attention_open ON attention (schedule_id, run_id) WHERE acked_at IS NULL;

-- How often a usage limit has sent a beat back to wait.
ALTER TABLE beat ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;

-- The end of a `Retry-After`: no run of the schedule before it.
ALTER TABLE schedule ADD COLUMN not_before INTEGER;
