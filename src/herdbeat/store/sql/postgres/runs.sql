-- Statements on runs in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: next_run_ids
SELECT nextval('run_id_seq') FROM generate_series(1, :number::integer);

-- name: add_runs
INSERT INTO run (id, beat_id, schedule_id, attempt, status, node_id, claimed_at)
SELECT id, beat_id, schedule_id, attempt, 'running', :node, :now
  FROM :rows AS given (id bigint, beat_id bigint, schedule_id bigint, attempt integer);

-- name: finish_runs
UPDATE run SET status = given.status, started_at = given.started_at,
               finished_at = given.finished_at, code = given.code, error = given.error, response = given.response,
               summary = given.summary, usage = given.usage, session = given.session, log = given.log,
               note = given.note
  FROM :rows AS given (id bigint, status text, started_at bigint, finished_at bigint, code bigint, error text,
                       response text, summary text, usage text, session text, log text, note text)
 WHERE run.id = given.id AND run.status = 'running';

-- name: keep_output
INSERT INTO run_log (run_id, text) SELECT run_id, text FROM :rows AS given (run_id bigint, text text)
    ON CONFLICT (run_id) DO UPDATE SET text = excluded.text;

-- name: finish_succeeded_runs
UPDATE run SET status = 'succeeded', started_at = given.started_at, finished_at = :now
  FROM :rows AS given (id bigint, started_at bigint) WHERE run.id = given.id AND run.status = 'running';

-- name: open_runs
SELECT run.id, run.beat_id, run.schedule_id, run.attempt, beat.target_id, coalesce(run.source, beat.source),
       EXISTS (SELECT 1 FROM reservation WHERE reservation.run_id = run.id), beat.limited,
       EXISTS (SELECT 1 FROM work_claim WHERE work_claim.run_id = run.id)
  FROM :rows AS given (id bigint) JOIN run ON run.id = given.id JOIN beat ON beat.id = run.beat_id
 WHERE run.status = 'running';

-- name: orphaned_runs
-- Open runs of nodes that have stopped or lost their lease.
SELECT run.id FROM run LEFT JOIN node ON node.id = run.node_id
 WHERE run.status = 'running' AND run.node_id <> :node AND (node.id IS NULL OR node.stopped_at IS NOT NULL)
 ORDER BY run.id LIMIT :limit;

-- name: unfinished_runs
SELECT id FROM run WHERE status = 'running' ORDER BY id LIMIT :limit;

-- name: runs_of_beats
SELECT run.id, run.claimed_at, coalesce(run.finished_at, run.claimed_at)
  FROM :rows AS given (id bigint) JOIN beat ON beat.id = given.id JOIN run ON run.beat_id = beat.id
 WHERE beat.outcome IN ('ran', 'skipped', 'missed', 'merged');

-- name: drop_runs
WITH printed AS (DELETE FROM run_log WHERE run_id IN (SELECT id FROM :rows AS given (id bigint)))
DELETE FROM run WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND status <> 'running';

-- name: mark_retries
UPDATE run SET source = 'retry', origin = given.origin
  FROM :rows AS given (id bigint, origin text) WHERE run.id = given.id;

-- name: last_usage
-- Of the newest `:limit` runs, those that reported their usage.
SELECT given.id,
       (SELECT coalesce(json_agg(usage::json), '[]')
          FROM (SELECT usage FROM run WHERE run.schedule_id = given.id ORDER BY id DESC LIMIT :limit) AS newest
         WHERE usage IS NOT NULL)
  FROM :rows AS given (id bigint);

-- name: upsert_stop_requests
-- A part of the next two: requests for the nodes that have these runs. A second request forces if either does.
asked AS (
     INSERT INTO stop_request (run_id, node_id, why, force)
     SELECT id, node_id, :why, :force::integer FROM meant
         ON CONFLICT (run_id) DO UPDATE SET force = greatest(stop_request.force, excluded.force))
SELECT schedule_id, id FROM meant ORDER BY id;

-- name: request_stop_of_schedules
WITH meant AS (
     SELECT run.id, run.node_id, run.schedule_id FROM run
      WHERE run.status = 'running' AND run.node_id <> :node
        AND run.schedule_id IN (SELECT id FROM :rows AS given (id bigint))),
     {upsert_stop_requests};

-- name: request_stop_of_runs
WITH meant AS (
     SELECT run.id, run.node_id, run.schedule_id FROM run
      WHERE run.status = 'running' AND run.node_id <> :node
        AND run.id IN (SELECT id FROM :rows AS given (id bigint))),
     {upsert_stop_requests};

-- name: list_stop_requests
SELECT run_id, why, force FROM stop_request WHERE node_id = :node;

-- name: ack_stop_requests
-- Requests that were carried out, and those for runs that have ended.
DELETE FROM stop_request
 WHERE node_id = :node
   AND (run_id = ANY(:taken::bigint[])
        OR NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_id AND run.status = 'running'));

-- name: notify_outputs
-- Only while they run or were stopped from outside: a run that ends by itself stores its final output when it
-- completes, so a run that is being completed is skipped. A node that lost its lease writes nothing.
WITH given AS (SELECT * FROM unnest(:runs::bigint[], :texts::text[]) AS given (run_id, text)),
     ours AS MATERIALIZED (
     SELECT run.id FROM run JOIN node ON node.id = run.node_id
      WHERE run.id IN (SELECT run_id FROM given) AND run.status IN ('running', 'cancelled', 'interrupted')
        AND node.stopped_at IS NULL AND node.lease_until > (SELECT herdbeat_now())
        FOR SHARE OF run SKIP LOCKED)
INSERT INTO run_log (run_id, text) SELECT run_id, text FROM given JOIN ours ON ours.id = given.run_id
    ON CONFLICT (run_id) DO UPDATE SET text = excluded.text;

-- name: output_of
SELECT text FROM run_log WHERE run_id = :id;

-- name: matches_run_filter
(:declined = 1 OR status <> 'skipped') AND (:status IS NULL OR status = :status) AND (:run IS NULL OR id = :run)
   AND (:beat IS NULL OR beat_id = :beat) AND (:since IS NULL OR claimed_at >= :since)
   AND (:before IS NULL OR id < :before);

-- name: runs_of_schedules
SELECT id FROM run WHERE schedule_id = ANY(:schedules) AND {matches_run_filter} ORDER BY id DESC LIMIT :limit;
