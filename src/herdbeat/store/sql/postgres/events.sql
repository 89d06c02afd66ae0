-- Live events in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: ledger_position
-- The newest ids that were ever given, also by transactions that are still open.
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('beat', 'id')), 0),
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('run', 'id')), 0),
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('change', 'id')), 0);

-- name: ledger_horizon
-- The oldest open transaction, and the next one. Asked after the position: whoever was given an id by then is older.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
