-- Statements on deliveries in SQLite's own words. Those of the other dialect have the same names.

-- name: add_deliveries
INSERT INTO outbox (message_id, channel, kind, name, spec, payload, run_id, host, is_once, created_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, :now
  FROM json_each(:rows) WHERE true
    ON CONFLICT DO NOTHING;

-- name: due_deliveries
SELECT json_group_array(json_array({delivery_columns}))
  FROM (SELECT * FROM outbox WHERE id IN ({due_delivery_ids}) ORDER BY id LIMIT :limit);

-- name: lease_deliveries
UPDATE outbox SET state = CASE is_once WHEN 1 THEN 'started' ELSE 'pending' END, attempts = attempts + 1,
                  next_at = :until, fence = :fence
 WHERE id IN (SELECT value FROM json_each(:rows));
