-- The ledger. Times are whole microseconds, UTC; the views at the end show them readable.
-- A partial index on wake_at is the timer: cost follows what is due, not what exists.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE target (
    id             INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL UNIQUE,
    kind           TEXT    NOT NULL,
    spec           TEXT    NOT NULL,
    revision       INTEGER NOT NULL DEFAULT 1,
    origin         TEXT    NOT NULL DEFAULT '',
    max_concurrent INTEGER NOT NULL,
    running        INTEGER NOT NULL DEFAULT 0,
    removed_at     INTEGER
);

-- Trigger and policies: what deciding needs. A million schedules that say the same share one row.
CREATE TABLE plan (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

CREATE TABLE schedule (
    id              INTEGER PRIMARY KEY,
    target_id       INTEGER NOT NULL REFERENCES target (id),
    name            TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    plan_id         INTEGER NOT NULL REFERENCES plan (id),
    brief           TEXT    NOT NULL,             -- prompt, work source, session: what a run needs
    revision        INTEGER NOT NULL DEFAULT 1,
    origin          TEXT    NOT NULL DEFAULT '',
    enabled         INTEGER NOT NULL DEFAULT 1,   -- what the file says
    disabled_by     TEXT,                         -- who switched it off by hand
    quarantine      TEXT,                         -- why it cannot be decided
    created_at      INTEGER NOT NULL,
    removed_at      INTEGER,
    -- the decision that stands
    next_run_at     INTEGER,
    next_due_at     INTEGER,
    next_source     TEXT,
    next_origin     TEXT    NOT NULL DEFAULT '',
    next_trace      TEXT,
    wake_at         INTEGER,
    -- what it was decided from
    anchor_at       INTEGER NOT NULL,
    settled_until   INTEGER NOT NULL,
    is_new          INTEGER NOT NULL DEFAULT 1,
    failures        INTEGER NOT NULL DEFAULT 0,
    runs            INTEGER NOT NULL DEFAULT 0,
    running         INTEGER NOT NULL DEFAULT 0,
    waiting         INTEGER NOT NULL DEFAULT 0,   -- pending clock beats
    hinted          INTEGER NOT NULL DEFAULT 0,   -- hints that have not ended
    tail_id         INTEGER,                      -- the newest beat, if it can grow: a row of skips or misses
    tail            TEXT,                         -- its outcome and reason
    arm             INTEGER NOT NULL DEFAULT 1,
    paused          INTEGER NOT NULL DEFAULT 0,
    paused_until    INTEGER,
    paused_by       TEXT    NOT NULL DEFAULT '',
    paused_reason   TEXT    NOT NULL DEFAULT '',
    -- what people ask for
    last_started_at INTEGER,
    last_run_at     INTEGER,
    last_status     TEXT,
    last_error      TEXT,
    UNIQUE (target_id, name)
);
CREATE INDEX schedule_wake ON schedule (wake_at, id) WHERE wake_at IS NOT NULL;

CREATE TABLE beat (
    id           INTEGER PRIMARY KEY,
    schedule_id  INTEGER NOT NULL REFERENCES schedule (id),
    target_id    INTEGER NOT NULL,
    dedup_id     TEXT    NOT NULL,
    due_at       INTEGER NOT NULL,
    last_due_at  INTEGER NOT NULL,
    count        INTEGER NOT NULL DEFAULT 1,
    outcome      TEXT    NOT NULL,
    reason       TEXT    NOT NULL DEFAULT '',
    source       TEXT    NOT NULL,
    origin       TEXT    NOT NULL DEFAULT '',
    trace        TEXT,
    payload      TEXT,
    priority     INTEGER NOT NULL DEFAULT 0,
    attempt      INTEGER NOT NULL DEFAULT 1,
    wake_at      INTEGER,                         -- when somebody has to look at a waiting beat
    created_at   INTEGER NOT NULL,
    settled_at   INTEGER,
    redelivered  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (schedule_id, dedup_id)
);
CREATE INDEX beat_wake ON beat (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX beat_waiting ON beat (target_id, priority DESC, due_at, id) WHERE outcome = 'pending';
CREATE INDEX beat_time ON beat (due_at);

CREATE TABLE run (
    id          INTEGER PRIMARY KEY,
    beat_id     INTEGER NOT NULL REFERENCES beat (id),
    schedule_id INTEGER NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 1,
    status      TEXT    NOT NULL,
    node_id     INTEGER NOT NULL,
    claimed_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    code        INTEGER,
    error       TEXT,
    response    TEXT,
    summary     TEXT,
    usage       TEXT,
    session     TEXT,
    log         TEXT
);
CREATE INDEX run_beat ON run (beat_id);
CREATE INDEX run_open ON run (node_id) WHERE status = 'running';
CREATE INDEX run_schedule ON run (schedule_id, id);

CREATE TABLE hint (
    id          INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL REFERENCES schedule (id),
    origin      TEXT    NOT NULL,
    every       INTEGER,
    at          INTEGER,
    reason      TEXT    NOT NULL DEFAULT '',
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    ended_by    TEXT
);
CREATE INDEX hint_active ON hint (schedule_id) WHERE ended_at IS NULL;

CREATE TABLE node (
    id          INTEGER PRIMARY KEY,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    version     TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,                 -- the last moment it is known to have lived
    stopped_at  INTEGER
);

-- Time in which no node could run anything: what makes a beat missed instead of late.
CREATE TABLE gap (
    id      INTEGER PRIMARY KEY,
    from_at INTEGER NOT NULL,
    until   INTEGER NOT NULL,
    reason  TEXT    NOT NULL
);

CREATE TABLE change (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    what     TEXT    NOT NULL,
    subject  TEXT    NOT NULL DEFAULT '',
    before   TEXT,
    after    TEXT
);

CREATE VIEW readable_beat AS
SELECT beat.id, target.name || '/' || schedule.name AS schedule,
       strftime('%Y-%m-%dT%H:%M:%fZ', beat.due_at / 1e6, 'unixepoch') AS due_at,
       beat.outcome, beat.reason, beat.count, beat.source, beat.dedup_id
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id;

CREATE VIEW readable_schedule AS
SELECT schedule.id, target.name || '/' || schedule.name AS schedule, schedule.kind,
       strftime('%Y-%m-%dT%H:%M:%fZ', schedule.next_run_at / 1e6, 'unixepoch') AS next_run_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', schedule.wake_at / 1e6, 'unixepoch') AS wake_at,
       schedule.next_source, schedule.failures, schedule.running
  FROM schedule JOIN target ON target.id = schedule.target_id;
