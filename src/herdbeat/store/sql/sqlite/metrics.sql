-- Counters of nodes: statements of SQLite only.

-- name: live_node_metrics
-- Only the newest node of a file can be alive.
SELECT node.id, node.host, node_metrics.data
  FROM node_metrics JOIN node ON node.id = node_metrics.node_id
 WHERE node.stopped_at IS NULL AND node.id = (SELECT max(id) FROM node)
 ORDER BY node.id LIMIT :limit;
