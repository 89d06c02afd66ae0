-- Refused webhook calls of all servers that share the ledger: the newest, without their bodies. No node writes here.
-- Understood by programs of schema 16: they keep theirs in files of their own.
CREATE TABLE refused_call (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint  NOT NULL,
    schedule text    NOT NULL,
    peer     text    NOT NULL,
    size     bigint  NOT NULL,
    status   integer NOT NULL,
    reason   text    NOT NULL,
    detail   text    NOT NULL
);
