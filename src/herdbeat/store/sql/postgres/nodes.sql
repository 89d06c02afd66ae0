-- Statements on nodes in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: gaps
SELECT from_at, until, reason FROM gap WHERE until > :since ORDER BY from_at;

-- name: join_node
INSERT INTO node (host, pid, version, started_at, seen_at, lease_until, labels, works, schema)
VALUES (:host, :pid, :version, :now, :now, herdbeat_now() + :lease, :labels, :works, :schema)
RETURNING id;

-- name: older_nodes
-- Live nodes whose program knows no schema as new as this one.
SELECT id, host, version FROM node
 WHERE schema < :schema AND works = 1 AND stopped_at IS NULL AND lease_until > herdbeat_now()
 ORDER BY id;

-- name: set_node_origin
UPDATE node SET boot_id = :boot_id, namespace = :namespace, process_start = :start WHERE id = :node;

-- name: list_neighbours
-- Nodes of this machine and these namespaces: only among those does a pid mean the same process.
SELECT id, pid, process_start FROM node
 WHERE stopped_at IS NULL AND lease_until > herdbeat_now() AND id <> :node
   AND boot_id = :boot_id AND namespace = :namespace;

-- name: give_up_nodes
-- Their processes have ended. As at the end of a lease, one in the middle of a write is skipped, and tried again: the
-- server may not have noticed yet that its client is gone. A lease that ends with the node marks it as dead.
UPDATE node SET stopped_at = ended.at, lease_until = ended.at
  FROM (SELECT id, least(lease_until, herdbeat_now()) AS at FROM node
         WHERE id = ANY (:nodes::bigint[]) AND stopped_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED) AS ended
 WHERE node.id = ended.id;

-- name: lock_join
-- Only the first node to join detects a gap; others wait here.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: join'));

-- name: lock_rescue
SELECT pg_advisory_xact_lock(hashtext('herdbeat: rescue'));

-- name: last_seen_at
-- Until when any node could run anything: the time from then until now is the gap.
SELECT max(coalesce(stopped_at, lease_until)) FROM node WHERE works = 1;

-- name: renew_node
UPDATE node SET seen_at = :now, lease_until = herdbeat_now() + :lease
 WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: leave_node
UPDATE node SET seen_at = :now, stopped_at = least(:now, lease_until) WHERE id = :node AND stopped_at IS NULL;

-- name: assert_lease
-- The first statement of every write by a node: it waits for a rescue that has locked the node's row, and then finds no
-- row.
UPDATE node SET writes = :writes WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: last_write
-- Waits for a transaction of this node that is still open on a lost connection.
SELECT writes FROM node WHERE id = :node FOR UPDATE;

-- name: give_up_dead_nodes
-- Exclusively: a node in the middle of a write is skipped, and checked again by the next rescue. It held its runs until
-- its lease was over.
UPDATE node SET stopped_at = lease_until
 WHERE id IN (SELECT id FROM node WHERE stopped_at IS NULL AND lease_until <= herdbeat_now() AND id <> :node
               ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: move_nodes_back
-- The clock moved back: a dead node whose lease or end lies in the future would count as alive until then. Live nodes
-- renew theirs; one in the middle of a write is left alone.
UPDATE node SET seen_at = least(seen_at, :now::bigint), lease_until = least(lease_until, herdbeat_now() + :lease::bigint),
                stopped_at = CASE WHEN stopped_at > :now::bigint THEN :now::bigint ELSE stopped_at END
 WHERE id IN (SELECT id FROM node
               WHERE seen_at > :now::bigint OR stopped_at > :now::bigint
                  OR lease_until > herdbeat_now() + :lease::bigint
               ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: end_abandoned_sessions
-- Sessions of herdbeat that hold locks and have waited too long for the next message of their client: it was stopped, or
-- its machine is gone. Between pipelined messages a session is not idle, so idle_in_transaction_session_timeout does not
-- end it. A session without a transaction id holds no row locks: it only reads.
WITH abandoned AS MATERIALIZED (    -- a fence: the end of a session must not be a condition beside the others
     SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND usename = current_user AND application_name LIKE 'herdbeat%'
        AND backend_xid IS NOT NULL AND wait_event = 'ClientRead' AND pid <> pg_backend_pid()
        AND state_change < clock_timestamp() - :idle::bigint * interval '1 ms')
SELECT pid FROM abandoned WHERE pg_terminate_backend(pid);

-- name: drop_nodes
-- Requests for runs that ended without seeing them are deleted, too.
WITH unheard AS (
     DELETE FROM stop_request
      WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.id = stop_request.run_id AND run.status = 'running'))
DELETE FROM node
 WHERE stopped_at < (SELECT max(coalesce(stopped_at, lease_until)) FROM node)
   AND stopped_at < least(:before::bigint, (SELECT claimed_at FROM run ORDER BY id LIMIT 1));

-- name: list_nodes
-- It lived at least until it claimed the newest run.
SELECT id, host, pid, version, started_at,
       greatest(seen_at, (SELECT claimed_at FROM run
                           WHERE run.id = (SELECT max(id) FROM run) AND run.node_id = node.id)) AS seen_at,
       stopped_at, lease_until, labels, works,
       (SELECT count(*) FROM run WHERE status = 'running' AND node_id = node.id) AS running
  FROM node
 WHERE :now IS NULL OR (stopped_at IS NULL AND lease_until > herdbeat_now())
 ORDER BY id DESC LIMIT :limit;
