-- Statements on deliveries in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: add_deliveries
INSERT INTO outbox (message_id, channel, kind, name, spec, payload, run_id, host, is_once, created_at)
SELECT message_id, channel, kind, name, spec, payload, run_id, host, is_once, :now
  FROM :rows AS given (message_id text, channel text, kind text, name text, spec text, payload text, run_id bigint,
                       host text, is_once integer)
    ON CONFLICT DO NOTHING;

-- name: due_deliveries
-- What another node has just taken is left to it.
SELECT {delivery_columns} FROM outbox
 WHERE id IN ({due_delivery_ids}) AND state = 'pending' AND next_at <= :now
 ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: lease_deliveries
UPDATE outbox SET state = CASE is_once WHEN 1 THEN 'started' ELSE 'pending' END, attempts = attempts + 1,
                  next_at = :until, fence = :fence
  FROM :rows AS given (id bigint) WHERE outbox.id = given.id;
