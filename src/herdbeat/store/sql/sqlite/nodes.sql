-- Statements on nodes in SQLite's own words. Those of the other dialect have the same names.

-- name: gaps
SELECT json_group_array(json_array(from_at, until, reason))
  FROM (SELECT * FROM gap WHERE until > :since ORDER BY from_at);

-- name: join_node
INSERT INTO node (host, pid, version, started_at, seen_at, labels)
VALUES (:host, :pid, :version, :now, :now, :labels);

-- name: newest_node_id
SELECT max(id) FROM node;

-- name: last_seen_at
-- When any node was last known to be alive: the time from then until now is the gap. A node renews this every few
-- seconds, but it was also alive when it claimed its last run: a node killed after six seconds was once reported as
-- down since its start.
SELECT max(at) FROM (SELECT max(coalesce(stopped_at, seen_at)) AS at FROM node
                     UNION ALL
                     SELECT claimed_at FROM run WHERE id = (SELECT max(id) FROM run));

-- name: renew_node
UPDATE node SET seen_at = :now WHERE id = :node;

-- name: leave_node
UPDATE node SET seen_at = :now, stopped_at = :now WHERE id = :node;

-- name: move_nodes_back
-- The clock moved back: a node that was last seen in the future would hide that nothing ran until then.
UPDATE node SET seen_at = min(seen_at, :now), stopped_at = min(stopped_at, :now)
 WHERE seen_at > :now OR stopped_at > :now;

-- name: drop_nodes
-- Run ids rise with time: a node that was gone before the oldest run has none in the ledger. A node that died counts as
-- gone when the next one joined.
DELETE FROM node
 WHERE id < (SELECT max(id) FROM node)
   AND coalesce(stopped_at, (SELECT min(started_at) FROM node AS after WHERE after.id > node.id))
       < min(:before, coalesce((SELECT claimed_at FROM run ORDER BY id LIMIT 1), :before));

-- name: list_nodes
-- A file has one node, which locks it: only the newest can be alive. It lived at least until it claimed the newest run:
-- the timeline once drew a run into the time after the node was "last seen".
SELECT id, host, pid, version, started_at,
       max(seen_at, coalesce((SELECT claimed_at FROM run
                               WHERE run.id = (SELECT max(id) FROM run) AND run.node_id = node.id), 0)) AS seen_at,
       stopped_at, NULL AS lease_until, labels, 1 AS works,
       (SELECT count(*) FROM run WHERE status = 'running' AND node_id = node.id) AS running
  FROM node
 WHERE :now IS NULL OR (stopped_at IS NULL AND id = (SELECT max(id) FROM node))
 ORDER BY id DESC LIMIT :limit;
