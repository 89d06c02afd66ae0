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
 WHERE beat.outcome = 'pending' AND beat.source IN ('webhook', 'chat', 'rule-trigger')
 GROUP BY beat.schedule_id;

-- name: add_refused_calls
INSERT INTO refused_call (at, schedule, peer, size, status, reason, detail)
SELECT at, schedule, peer, size, status, reason, detail
  FROM :rows AS given (at bigint, schedule text, peer text, size bigint, status bigint, reason text, detail text);

-- name: drop_refused_calls
-- Of each schedule the newest stay, and so many of all.
DELETE FROM refused_call
 WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS place,
                                     row_number() OVER (PARTITION BY schedule ORDER BY id DESC) AS place_of_schedule
                                FROM refused_call) AS ranked
               WHERE place > :most OR place_of_schedule > :most_of_schedule);

-- name: list_refused_calls
SELECT at, schedule, peer, size, status, reason, detail FROM refused_call ORDER BY id;
