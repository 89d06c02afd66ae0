-- Counters of nodes: statements of PostgreSQL only.

-- name: live_node_metrics
SELECT node.id, node.host, node_metrics.data
  FROM node_metrics JOIN node ON node.id = node_metrics.node_id
 WHERE node.stopped_at IS NULL AND node.lease_until > herdbeat_now()
 ORDER BY node.id LIMIT :limit;
