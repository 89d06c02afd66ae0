-- What agents asked for through our own tools. The hint itself has its time and its end.
-- Understood by programs of schema 7: they offer agents no tools.
CREATE TABLE agent_hint (
    hint_id     bigint  PRIMARY KEY,
    schedule_id bigint  NOT NULL,
    run_id      bigint  NOT NULL,
    is_wake     integer NOT NULL,
    request     text    NOT NULL,
    note        text    NOT NULL,
    created_at  bigint  NOT NULL
);
CREATE INDEX agent_hint_schedule ON agent_hint (schedule_id, created_at);

-- How an agent says that its active run goes. The completion of the run takes it over.
CREATE TABLE run_report (
    run_id bigint PRIMARY KEY,
    report text   NOT NULL,
    at     bigint NOT NULL
);
