-- What is remembered of each rule of a schedule, and what became of it after the newest run.
-- Understood by programs of schema 6: they evaluate no rules.
CREATE TABLE rule_state (
    schedule_id bigint  NOT NULL REFERENCES schedule (id),
    rule        text    COLLATE "C" NOT NULL,
    matches     integer NOT NULL,
    active      integer NOT NULL,
    fired_at    bigint,
    outcome     text    NOT NULL,
    reads       text    NOT NULL,
    error       text    NOT NULL,
    run_id      bigint  NOT NULL,
    at          bigint  NOT NULL,
    PRIMARY KEY (schedule_id, rule)
);
