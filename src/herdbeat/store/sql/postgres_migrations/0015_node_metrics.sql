-- Counters of the nodes that share a ledger, written by each every few seconds. A table of its own: every write of a
-- node updates its row in `node`, which must stay small.
-- Understood by programs of schema 14: their nodes have no row here.
CREATE TABLE node_metrics (
    node_id bigint PRIMARY KEY,
    at      bigint NOT NULL,
    data    text   NOT NULL
);
