-- Gauges of `/metrics`, all in one look.

-- name: fleet_gauges
SELECT (SELECT count(*) FROM schedule WHERE removed_at IS NULL),
       (SELECT count(*) FROM schedule
         WHERE removed_at IS NULL AND ((paused = 1 AND (paused_until IS NULL OR paused_until > :now)) OR {is_in_window})),
       (SELECT count(*) FROM schedule WHERE removed_at IS NULL AND quarantine IS NOT NULL),
       (SELECT count(*) FROM beat WHERE outcome = 'pending'),
       (SELECT count(*) FROM run WHERE status = 'running'),
       (SELECT count(*) FROM hint WHERE ended_at IS NULL AND expires_at > :now);

-- name: set_node_metrics
INSERT INTO node_metrics (node_id, at, data) VALUES (:node, :now, :data)
    ON CONFLICT (node_id) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: drop_node_metrics
DELETE FROM node_metrics WHERE at < :before;
