-- Statements on the table `meta`, and parts of others, in SQLite's own words.

-- name: in_ids
-- A part of other statements: whether a column is in a list of ids.
IN (SELECT value FROM json_each(:ids));

-- name: catchup_cursor
-- When the last beat that waits for a catch-up slot may start, and from when on a slot is free.
SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL AND outcome = 'pending' AND reason = 'catch-up'
         ORDER BY wake_at DESC LIMIT 1),
       (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'paced_until');

-- name: start_slot_cursor
-- When the last schedule that waits for its place may start, and from when on a place is free.
SELECT (SELECT max(next_run_at) FROM schedule WHERE next_due_at <= :now AND next_run_at > :now),
       (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'placed_until');

-- name: last_ids
SELECT (SELECT id FROM last_id WHERE kind = 'beat'), (SELECT id FROM last_id WHERE kind = 'run');

-- name: claim_fleet_name
INSERT INTO meta (key, value) VALUES ('fleet', :fleet)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value;

-- name: data_version
-- A number that differs after every write by another connection.
SELECT data_version FROM pragma_data_version;
