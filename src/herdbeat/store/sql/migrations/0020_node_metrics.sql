-- Counters of the nodes that share a ledger, written by each every few seconds. A ledger in a file has one node, which
-- is asked directly.
CREATE TABLE node_metrics (
    node_id INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    data    TEXT    NOT NULL
);
