-- Incoming webhook calls: statements of SQLite only.

-- name: known_webhook_digests
SELECT json_group_array(json_array(webhook_digest.schedule_id, webhook_digest.digest))
  FROM json_each(:rows)
  JOIN webhook_digest ON webhook_digest.schedule_id = value ->> 0 AND webhook_digest.digest = value ->> 1
 WHERE webhook_digest.at >= :since;

-- name: add_webhook_digests
INSERT INTO webhook_digest (schedule_id, digest, at)
SELECT value ->> 0, value ->> 1, :now FROM json_each(:rows) WHERE true
    ON CONFLICT (schedule_id, digest) DO UPDATE SET at = excluded.at;

-- name: queued_events
SELECT json_group_array(json_array(schedule_id, number))
  FROM (SELECT schedule_id, count(*) AS number FROM beat
         WHERE outcome = 'pending' AND source IN ('webhook', 'chat', 'rule-trigger') AND schedule_id IN (SELECT value FROM json_each(:rows))
         GROUP BY schedule_id);
