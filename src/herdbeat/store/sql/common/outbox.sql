-- Statements on deliveries that both dialects understand.

-- name: delivery_columns
id, message_id, channel, kind, name, spec, payload, run_id, host, is_once, state, attempts, next_at, fence, created_at,
       ended_at, error;

-- name: due_delivery_ids
-- The oldest due delivery of each channel that is not sending another one.
SELECT min(id) FROM outbox
 WHERE state = 'pending' AND next_at <= :now AND (host IS NULL OR host = :host OR :alone = 1)
   AND channel NOT IN (SELECT channel FROM outbox WHERE state IN ('pending', 'started') AND fence <> 0 AND next_at > :now)
 GROUP BY channel;

-- name: end_delivery
UPDATE outbox SET state = :state, next_at = :next_at, fence = 0, error = :error, ended_at = :ended_at
 WHERE id = :id AND fence = :fence AND state IN ('pending', 'started');

-- name: defer_channel
-- What waits behind a delivery that has failed would fail like it.
UPDATE outbox SET next_at = :until
 WHERE channel = :channel AND state = 'pending' AND fence = 0 AND next_at < :until;

-- name: wake_channel
-- The receiver has answered: it gets what it has missed.
UPDATE outbox SET next_at = :now
 WHERE channel = :channel AND state = 'pending' AND fence = 0 AND next_at > :now;

-- name: end_delivery_leases
UPDATE outbox SET next_at = 0, fence = 0 WHERE state = 'pending' AND fence <> 0;

-- name: is_sender_dead
-- A fence below 0 names the node of the sender. Versions before this one have random fences above 0.
(fence < 0 AND NOT EXISTS (SELECT 1 FROM node WHERE node.id = -outbox.fence AND node.stopped_at IS NULL));

-- name: end_leases_of_dead_nodes
UPDATE outbox SET next_at = 0, fence = 0 WHERE state = 'pending' AND {is_sender_dead};

-- name: end_started_deliveries
-- Programs whose node is gone. Nobody knows how far they came, so they are not started again.
UPDATE outbox SET state = 'unknown', fence = 0, ended_at = :now, error = :error
 WHERE state = 'started' AND (next_at <= :now OR :alone = 1 OR {is_sender_dead});

-- name: end_open_deliveries
UPDATE outbox SET state = 'unknown', fence = 0, ended_at = :now, error = :error WHERE state IN ('pending', 'started');

-- name: next_delivery
SELECT min(next_at) FROM outbox
 WHERE state = 'pending' AND (host IS NULL OR host = :host OR :alone = 1);

-- name: drop_deliveries
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE ended_at < :before LIMIT :limit);

-- name: deliveries_of_run
SELECT {delivery_columns} FROM outbox WHERE run_id = :run ORDER BY id;

-- name: list_deliveries
-- The newest first.
SELECT {delivery_columns} FROM outbox
 WHERE (:kind = '' OR kind = :kind) AND (:open = 0 OR state IN ('pending', 'started'))
 ORDER BY id DESC LIMIT :limit;
