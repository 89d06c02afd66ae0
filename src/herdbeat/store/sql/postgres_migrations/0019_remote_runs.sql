-- Runs that happen on an engine, and what they have printed until their node has read it.
-- Understood by programs of schema 16: a target with an executor is refused while they run.
CREATE TABLE remote_run (
    run_id      bigint  PRIMARY KEY,
    name        text    NOT NULL UNIQUE,
    executor    text    NOT NULL,
    state       text    NOT NULL,
    start_by    bigint  NOT NULL,
    nonce       text    NOT NULL DEFAULT '',
    place       text    NOT NULL DEFAULT '',
    token       text    NOT NULL DEFAULT '',
    lease_until bigint,
    extended    integer NOT NULL DEFAULT 0,
    stop_reason text    NOT NULL DEFAULT '',
    result      text    NOT NULL DEFAULT '',
    job         text    NOT NULL DEFAULT '',
    claim       text    NOT NULL DEFAULT '',
    created_at  bigint  NOT NULL
);
CREATE INDEX remote_run_open ON remote_run (executor, run_id) WHERE state <> 'ended';
CREATE TABLE remote_log (
    run_id   bigint  NOT NULL,
    sequence integer NOT NULL,
    text     text    NOT NULL,
    PRIMARY KEY (run_id, sequence)
);
