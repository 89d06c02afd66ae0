-- Statements on nodes in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: gaps
SELECT from_at, until, reason FROM gap WHERE until > :since ORDER BY from_at;

-- name: join_node
INSERT INTO node (host, pid, version, started_at, seen_at, lease_until, labels, works)
VALUES (:host, :pid, :version, :now, :now, herdbeat_now() + :lease, :labels, :works)
RETURNING id;

-- name: only_one_joins
-- Whether there was a gap is seen by the first to come, and by nobody beside it.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: join'));

-- name: last_sign
-- Until when anybody could run anything: what came after it and before now is the gap.
SELECT max(coalesce(stopped_at, lease_until)) FROM node WHERE works = 1;

-- name: renew_node
UPDATE node SET seen_at = :now, lease_until = herdbeat_now() + :lease
 WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: leave_node
UPDATE node SET seen_at = :now, stopped_at = least(:now, lease_until) WHERE id = :node AND stopped_at IS NULL;

-- name: hold_node
-- Every write of a node begins so: it waits for a sweep that is at the node's row, and finds nothing afterwards.
UPDATE node SET writes = :writes WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: last_write
-- Waits until a transaction that is still open somewhere has come to its end.
SELECT writes FROM node WHERE id = :node FOR UPDATE;

-- name: give_up_dead_nodes
-- Exclusively: a node in the middle of a write is let be, and asked for again at the next sweep. It held what it held
-- until its lease was over.
UPDATE node SET stopped_at = lease_until
 WHERE id IN (SELECT id FROM node WHERE stopped_at IS NULL AND lease_until <= herdbeat_now() AND id <> :node
               ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: drop_nodes
-- With them goes word for runs that have ended without hearing of it.
WITH unheard AS (
     DELETE FROM stop_request
      WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.id = stop_request.run_id AND run.status = 'running'))
DELETE FROM node
 WHERE stopped_at < (SELECT max(coalesce(stopped_at, lease_until)) FROM node)
   AND stopped_at < least(:before::bigint, (SELECT claimed_at FROM run ORDER BY id LIMIT 1));

-- name: list_nodes
SELECT id, host, pid, version, started_at, seen_at, stopped_at, lease_until, labels, works,
       (SELECT count(*) FROM run WHERE status = 'running' AND node_id = node.id) AS running
  FROM node
 WHERE :now IS NULL OR (stopped_at IS NULL AND lease_until > herdbeat_now())
 ORDER BY id DESC LIMIT :limit;
