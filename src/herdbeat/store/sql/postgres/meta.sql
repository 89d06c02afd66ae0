-- Statements on the table `meta`, settings, advisory locks and NOTIFY, in PostgreSQL's own words.

-- name: in_ids
-- A part of other statements: whether a column is in a list of ids.
= ANY(:ids);

-- name: lock_catchup_cursor
-- The last lock of a claim that catches up: its holder waits for no other lock.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: pace'));

-- name: catchup_cursor
SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL AND outcome = 'pending' AND reason = 'catch-up'
         ORDER BY wake_at DESC LIMIT 1),
       (SELECT value::bigint FROM meta WHERE key = 'paced_until');

-- name: start_slot_cursor
-- When the last schedule that waits for its place may start, and from when on a place is free.
SELECT (SELECT max(next_run_at) FROM schedule WHERE next_due_at <= :now AND next_run_at > :now),
       (SELECT value::bigint FROM meta WHERE key = 'placed_until');

-- name: lock_fleet_limit
-- Locked only if the whole fleet has a limit. The next node sees the new runs after this transaction has ended.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: fleet limit'));

-- name: bump_catalogue_version
INSERT INTO meta (key, value) VALUES ('catalogue', '1')
    ON CONFLICT (key) DO UPDATE SET value = meta.value::bigint + 1;

-- name: lock_apply
SELECT pg_advisory_xact_lock(hashtext('herdbeat: apply'));

-- name: lock_request
SELECT pg_advisory_xact_lock(hashtext('herdbeat: request'), hashtext(:request));

-- name: database_time
SELECT herdbeat_now();

-- name: claim_fleet_name
INSERT INTO meta (key, value) VALUES ('fleet', :fleet) ON CONFLICT (key) DO NOTHING;

-- name: settings
-- Set for every transaction, because a pooler may hand out another connection each time. Plans are made once, for index
-- scans: a plan made while the tables were empty would go on scanning them when they are full.
SELECT set_config('statement_timeout', :statement, true), set_config('lock_timeout', :lock, true),
       set_config('idle_in_transaction_session_timeout', :idle, true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true);

-- name: notify_nodes
SELECT pg_notify('herdbeat', '');

-- name: lost_rows
-- Rows that point at nothing.
SELECT 'run ' || run.id || ' has no beat' FROM run LEFT JOIN beat ON beat.id = run.beat_id WHERE beat.id IS NULL
 UNION ALL
SELECT 'beat ' || beat.id || ' has no schedule'
  FROM beat LEFT JOIN schedule ON schedule.id = beat.schedule_id WHERE schedule.id IS NULL
 LIMIT :limit;

-- name: test_write
-- More than a page can hold: a row that fits into an existing page does not test the disk.
INSERT INTO meta (key, value) SELECT 'tried by doctor', string_agg(md5(number::text), '') FROM generate_series(1, 1000) AS number;

-- name: catalogue_version
SELECT value FROM meta WHERE key = 'catalogue';

-- name: data_version
-- A number that differs after every write.
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
