-- Incoming webhook calls: statements that both dialects understand.

-- name: wake_held_events
-- A schedule that is released starts the events that came while it was held.
UPDATE beat SET wake_at = :now
 WHERE schedule_id = :schedule AND outcome = 'pending' AND reason IN ('paused', 'disabled');

-- name: drop_webhook_digests
DELETE FROM webhook_digest
 WHERE (schedule_id, digest) IN (SELECT schedule_id, digest FROM webhook_digest WHERE at < :before LIMIT :limit);
