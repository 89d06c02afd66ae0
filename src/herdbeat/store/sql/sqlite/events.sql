-- Live events in SQLite's own words. Those of the other dialect have the same names.

-- name: ledger_position
-- The newest ids. A file has one writer, so ids are committed in their order.
SELECT coalesce((SELECT max(id) FROM beat), 0), coalesce((SELECT max(id) FROM run), 0),
       coalesce((SELECT max(id) FROM change), 0);

-- name: ledger_horizon
-- No transaction is ever open beside the one that commits.
SELECT 0, 0;
