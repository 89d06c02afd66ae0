-- What agents asked for through our own tools. The hint itself has its time and its end.
CREATE TABLE agent_hint (
    hint_id     INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL,
    run_id      INTEGER NOT NULL,                 -- the run that asked; 0 if none did
    is_wake     INTEGER NOT NULL,
    request     TEXT    NOT NULL,                 -- what was asked for, to recognize a repetition
    note        TEXT    NOT NULL,                 -- what the agent is told when it wakes up
    created_at  INTEGER NOT NULL
);
CREATE INDEX agent_hint_schedule ON agent_hint (schedule_id, created_at);

-- How an agent says that its active run goes. The completion of the run takes it over.
CREATE TABLE run_report (
    run_id INTEGER PRIMARY KEY,
    report TEXT    NOT NULL,
    at     INTEGER NOT NULL
);
