-- The hot side of the ledger for PostgreSQL, under the names of sqlite.sql. `:rows AS given (column type, …)` stands
-- for a whole batch: it becomes unnest() of one array per column (store/postgres/statements.py).
--
-- Locks are taken in one order: targets by id, then schedules by id, then what belongs to them. A claim never waits for
-- a lock while it holds one, so that no two nodes can wait for each other.

-- name: standing
-- A part of other statements: a schedule as it stands, in the order of store/standing.py.
found.id, found.target_id, target.name || '/' || found.name, found.plan_id, found.revision, found.enabled,
       found.next_run_at, found.next_due_at, found.next_source, found.next_origin, found.wake_at, found.anchor_at,
       found.settled_until, found.is_new, found.failures, found.runs, found.running, found.waiting,
       CASE WHEN hinted > 0 OR paused > 0 OR skips > 0 OR arm <> 1 OR tail_id IS NOT NULL OR disabled_by IS NOT NULL
                 OR quarantine IS NOT NULL
            THEN json_build_array(
                disabled_by, arm, paused, paused_until, paused_by, paused_reason, tail_id, tail, quarantine, skips,
                (SELECT coalesce(json_agg(json_build_array(origin, every, at, reason, expires_at, created_at)
                                          ORDER BY hint.id), '[]')
                   FROM hint WHERE schedule_id = found.id AND ended_at IS NULL)) END;

-- name: due_time
-- The node's time or the database's, whichever is earlier: a node whose clock is wrong is never early.
(SELECT least(:now, herdbeat_now()));

-- name: may_be_here
-- What is for nodes with another label is theirs, as long as there is one; else somebody has to say that there is none.
(plan.runs_on IS NULL OR plan.runs_on = ANY(:labels::text[]) OR NOT EXISTS (
            SELECT 1 FROM node WHERE stopped_at IS NULL AND works = 1 AND lease_until > (SELECT herdbeat_now())
               AND node.labels::jsonb ? plan.runs_on));

-- name: targets_due
-- How many are due, and those of their targets that nobody else is at.
WITH due AS MATERIALIZED (
     SELECT schedule.target_id FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at <= {due_time} AND {may_be_here} ORDER BY wake_at, schedule.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: targets_due_beside
WITH due AS MATERIALIZED (
     SELECT schedule.target_id FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at >= :since AND wake_at <= {due_time} AND {may_be_here}
        AND NOT schedule.target_id = ANY(:beside::bigint[])
      ORDER BY wake_at, schedule.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: targets_of_due_beats
WITH due AS MATERIALIZED (
     SELECT beat.target_id FROM beat
       JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
      WHERE beat.wake_at <= {due_time} AND {may_be_here} ORDER BY beat.wake_at, beat.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: first_target_due
-- The first of what is due, when others are at all of it.
SELECT target_id FROM schedule WHERE wake_at <= {due_time} ORDER BY wake_at, id LIMIT 1;

-- name: lock_targets
SELECT id FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_targets_of_schedules
SELECT id FROM target
 WHERE id IN (SELECT target_id FROM schedule JOIN :rows AS given (id bigint) USING (id))
 ORDER BY id FOR NO KEY UPDATE;

-- name: lock_schedules
SELECT id FROM schedule WHERE id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_targets_of_runs
SELECT id FROM target
 WHERE id IN (SELECT target_id FROM :rows AS given (id bigint)
                JOIN run ON run.id = given.id JOIN beat ON beat.id = run.beat_id)
 ORDER BY id FOR NO KEY UPDATE;

-- name: lock_schedules_of_runs
SELECT id FROM schedule
 WHERE id IN (SELECT run.schedule_id FROM :rows AS given (id bigint) JOIN run ON run.id = given.id)
 ORDER BY id FOR NO KEY UPDATE;

-- name: take_due
-- In the order of the index, and no further than the limit: `IS TRUE` keeps PostgreSQL from beginning with the targets,
-- one of which may have a hundred thousand schedules.
WITH found AS MATERIALIZED (
     SELECT schedule.* FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at >= :since AND wake_at <= {due_time} AND {may_be_here}
        AND (schedule.target_id IN (SELECT id FROM :rows AS given (id bigint))) IS TRUE
      ORDER BY wake_at, schedule.id LIMIT :limit
        FOR NO KEY UPDATE OF schedule SKIP LOCKED)
SELECT {standing}
  FROM found JOIN target ON target.id = found.target_id
 ORDER BY found.wake_at, found.id;

-- name: take_due_beats
-- Under the locks of their targets. A schedule that somebody else is at keeps its beats for the next turn.
SELECT beat.id, beat.schedule_id FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
 WHERE beat.wake_at <= {due_time} AND beat.target_id IN (SELECT id FROM :rows AS given (id bigint)) AND {may_be_here}
 ORDER BY beat.wake_at, beat.id LIMIT :limit
   FOR NO KEY UPDATE OF schedule, beat SKIP LOCKED;

-- name: some_schedules
SELECT {standing}
  FROM :rows AS given (id bigint) JOIN schedule AS found ON found.id = given.id
  JOIN target ON target.id = found.target_id
 ORDER BY found.wake_at, found.id;

-- name: schedules_of_runs
SELECT {standing}
  FROM schedule AS found JOIN target ON target.id = found.target_id
 WHERE found.id IN (SELECT run.schedule_id FROM :rows AS given (id bigint) JOIN run ON run.id = given.id)
 ORDER BY found.wake_at, found.id;

-- name: some_beats
SELECT beat.id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by
  FROM beat JOIN :rows AS given (id bigint) USING (id)
 WHERE outcome = 'pending' ORDER BY wake_at, beat.id;

-- name: paced_beats
SELECT schedule_id, count(*) FROM beat
 WHERE outcome = 'pending' AND reason = 'catch-up' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint))
 GROUP BY schedule_id;

-- name: rooms
SELECT id, max_concurrent, running,
       EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending')
  FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: only_one_paces
-- The last lock of a turn that catches something up: whoever has it waits for nobody.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: pace'));

-- name: pace
SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL AND outcome = 'pending' AND reason = 'catch-up'
         ORDER BY wake_at DESC LIMIT 1),
       (SELECT value::bigint FROM meta WHERE key = 'paced_until');

-- name: only_one_claims
-- Asked only where the whole fleet has a limit. Seen by the next one after the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: fleet limit'));

-- name: next_wake
SELECT least((SELECT wake_at FROM schedule JOIN plan ON plan.id = schedule.plan_id
               WHERE wake_at IS NOT NULL AND {may_be_here} ORDER BY wake_at LIMIT 1),
             (SELECT beat.wake_at FROM beat
                JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
               WHERE beat.wake_at IS NOT NULL AND {may_be_here} ORDER BY beat.wake_at LIMIT 1));

-- name: beat_numbers
SELECT nextval('beat_id_seq') FROM generate_series(1, :number::integer);

-- name: run_numbers
SELECT nextval('run_id_seq') FROM generate_series(1, :number::integer);

-- name: both_numbers
SELECT nextval('beat_id_seq'), nextval('run_id_seq') FROM generate_series(1, :number::integer);

-- name: add_beats
-- Nothing where the dedup id exists already: the caller compares the count and looks which.
INSERT INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, count, outcome, reason, source, origin,
                  payload, priority, wake_at, created_at, settled_at, trace)
SELECT given.id, given.schedule_id, given.target_id, dedup_id, due_at, last_due_at, number, outcome, reason, source,
       given.origin, payload, priority, given.wake_at, given.created_at, settled_at, schedule.next_trace
  FROM :rows AS given (id bigint, schedule_id bigint, target_id bigint, dedup_id text, due_at bigint,
                       last_due_at bigint, number integer, outcome text, reason text, source text, origin text,
                       payload text, priority integer, wake_at bigint, created_at bigint, settled_at bigint)
  JOIN schedule ON schedule.id = given.schedule_id
    ON CONFLICT (schedule_id, dedup_id) DO NOTHING;

-- name: start_beats
-- The same for one instant that starts at once, the way of nearly every beat (store/plain.py).
INSERT INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, outcome, source, priority, created_at, trace)
SELECT given.id, given.schedule_id, given.target_id, dedup_id, due_at, due_at, 'running', source, priority,
       given.created_at, schedule.next_trace
  FROM :rows AS given (id bigint, schedule_id bigint, target_id bigint, dedup_id text, due_at bigint, source text,
                       priority integer, created_at bigint)
  JOIN schedule ON schedule.id = given.schedule_id
    ON CONFLICT (schedule_id, dedup_id) DO NOTHING;

-- name: known_beats
SELECT beat.schedule_id, beat.dedup_id, beat.id
  FROM :rows AS given (schedule_id bigint, dedup_id text)
  JOIN beat ON beat.schedule_id = given.schedule_id AND beat.dedup_id = given.dedup_id;

-- name: grow_beats
UPDATE beat SET count = count + given.more, last_due_at = given.last_due_at, settled_at = given.settled_at
  FROM :rows AS given (id bigint, more integer, last_due_at bigint, settled_at bigint) WHERE beat.id = given.id;

-- name: change_beats
UPDATE beat SET outcome = given.outcome, reason = given.reason, wake_at = given.wake_at, attempt = given.attempt,
                settled_at = given.settled_at
  FROM :rows AS given (id bigint, outcome text, reason text, wake_at bigint, attempt integer, settled_at bigint)
 WHERE beat.id = given.id;

-- name: settle_beats
-- They ran.
UPDATE beat SET outcome = 'ran', reason = '', wake_at = NULL, settled_at = :now
  FROM :rows AS given (id bigint) WHERE beat.id = given.id;

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

-- name: succeed_runs
UPDATE run SET status = 'succeeded', started_at = given.started_at, finished_at = :now
  FROM :rows AS given (id bigint, started_at bigint) WHERE run.id = given.id AND run.status = 'running';

-- name: open_runs
SELECT run.id, run.beat_id, run.schedule_id, run.attempt, beat.target_id, coalesce(run.source, beat.source),
       beat.due_at, beat.dedup_id
  FROM :rows AS given (id bigint) JOIN run ON run.id = given.id JOIN beat ON beat.id = run.beat_id
 WHERE run.status = 'running';

-- name: start_paced
-- An interval stands still while it runs: its next time is decided by the finish.
UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL, running = running + 1, tail_id = NULL,
                    last_started_at = :now, settled_until = greatest(settled_until, given.due_at)
  FROM :rows AS given (id bigint, due_at bigint) WHERE schedule.id = given.id;

-- name: count_schedules
UPDATE schedule SET running = schedule.running + given.running, waiting = schedule.waiting + given.waiting,
                    last_started_at = coalesce(:started, last_started_at)
  FROM :rows AS given (id bigint, running integer, waiting integer) WHERE schedule.id = given.id;

-- name: change_schedules
UPDATE schedule
   SET next_run_at = given.next_run_at, next_due_at = given.next_due_at, next_source = given.next_source,
       next_origin = given.next_origin, next_trace = coalesce(given.next_trace, schedule.next_trace),
       wake_at = given.wake_at, anchor_at = given.anchor_at, settled_until = given.settled_until,
       is_new = given.is_new, failures = given.failures, runs = given.runs, running = given.running,
       waiting = given.waiting, tail_id = given.tail_id, tail = given.tail,
       last_started_at = coalesce(given.last_started_at, schedule.last_started_at),
       last_run_at = coalesce(given.last_run_at, schedule.last_run_at),
       last_status = coalesce(given.last_status, schedule.last_status),
       last_error = CASE WHEN given.last_status IS NULL THEN schedule.last_error ELSE given.last_error END,
       quarantine = given.quarantine
  FROM :rows AS given (id bigint, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint, anchor_at bigint, settled_until bigint, is_new integer,
                       failures integer, runs integer, running integer, waiting integer, tail_id bigint, tail text,
                       last_started_at bigint, last_run_at bigint, last_status text, last_error text, quarantine text)
 WHERE schedule.id = given.id;

-- name: go_on
-- The same for a schedule that its success has decided again, and nothing else.
UPDATE schedule
   SET next_run_at = given.at, next_due_at = given.at, wake_at = given.at, next_source = given.source,
       next_origin = '', next_trace = given.trace, runs = given.runs, running = given.running, anchor_at = given.now,
       last_run_at = given.now, is_new = 0, failures = 0, last_status = 'succeeded', last_error = NULL,
       quarantine = NULL
  FROM :rows AS given (id bigint, at bigint, source text, trace text, runs integer, running integer, now bigint)
 WHERE schedule.id = given.id;

-- name: move_rooms
UPDATE target SET running = running + given.more FROM :rows AS given (id bigint, more integer) WHERE target.id = given.id;

-- name: end_one_shots
UPDATE hint SET ended_at = :now, ended_by = 'consumed'
  FROM :rows AS given (schedule_id bigint, due_at bigint)
 WHERE hint.schedule_id = given.schedule_id AND hint.at <= given.due_at AND hint.ended_at IS NULL;

-- name: end_older_hints
UPDATE hint SET ended_at = :now,
                ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE 'replaced' END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now
        OR (:is_pace = 1 AND every IS NOT NULL AND (origin = :rank OR starts_with(origin, :rank || ':'))));
