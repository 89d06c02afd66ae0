-- Word for the node that has a run which somebody elsewhere wants to end. The node takes it up, and clears it away.
-- Understood by programs of schema 2: they never look.
CREATE TABLE stop_request (
    run_id  bigint  PRIMARY KEY,
    node_id bigint  NOT NULL,
    why     text    NOT NULL,
    force   integer NOT NULL DEFAULT 0
);
CREATE INDEX stop_request_node ON stop_request (node_id);
