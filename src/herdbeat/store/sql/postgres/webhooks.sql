-- Incoming webhook calls: statements of PostgreSQL only.

-- name: known_webhook_digests
SELECT webhook_digest.schedule_id, webhook_digest.digest
  FROM :rows AS given (schedule_id bigint, digest text)
  JOIN webhook_digest ON webhook_digest.schedule_id = given.schedule_id AND webhook_digest.digest = given.digest
 WHERE webhook_digest.at >= :since;

-- name: add_webhook_digests
INSERT INTO webhook_digest (schedule_id, digest, at)
SELECT schedule_id, digest, :now FROM :rows AS given (schedule_id bigint, digest text)
    ON CONFLICT (schedule_id, digest) DO UPDATE SET at = excluded.at;

-- name: queued_events
SELECT beat.schedule_id, count(*)
  FROM :rows AS given (schedule_id bigint) JOIN beat ON beat.schedule_id = given.schedule_id
 WHERE beat.outcome = 'pending' AND beat.source IN ('webhook', 'chat')
 GROUP BY beat.schedule_id;
