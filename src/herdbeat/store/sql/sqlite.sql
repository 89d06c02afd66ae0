-- Each statement takes a whole batch and answers with one JSON array: one step in, one step out. The driver lets go
-- of Python's lock at every step, and would wait for it as often. A batch comes as one JSON array, or where it is hot
-- and has no foreign text in it, as bound values (store/batch.py).

-- name: standing
-- A part of other statements: a schedule as it stands, in the order of store/standing.py. What few schedules have (a
-- hint, a pause, a row of skips to grow …) comes in an array of its own, or not at all.
json_array(
           id, target_id, target || '/' || name, plan_id, revision, enabled, next_run_at, next_due_at, next_source,
           next_origin, wake_at, anchor_at, settled_until, is_new, failures, runs, running, waiting,
           CASE WHEN hinted OR paused OR skips OR arm <> 1 OR tail_id IS NOT NULL OR disabled_by IS NOT NULL
                     OR quarantine IS NOT NULL
                THEN json_array(
                    disabled_by, arm, paused, paused_until, paused_by, paused_reason, tail_id, tail, quarantine, skips,
                    json((SELECT json_group_array(json_array(origin, every, at, reason, expires_at, created_at))
                            FROM hint WHERE schedule_id = found.id AND ended_at IS NULL))) END);

-- name: due_schedules
SELECT json_group_array({standing})
  FROM (SELECT schedule.*, target.name AS target
          FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE schedule.wake_at <= :now
         ORDER BY schedule.wake_at, schedule.id
         LIMIT :limit) AS found;

-- name: due_beside
-- The same while a crowd of some targets is in the way. It stands in the index and has to be passed each time, so the
-- caller says from when on there is anything else.
SELECT json_group_array({standing})
  FROM (SELECT schedule.*, target.name AS target
          FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE schedule.wake_at BETWEEN :since AND :now
           AND schedule.target_id NOT IN (SELECT value FROM json_each(:rows))
         ORDER BY schedule.wake_at, schedule.id
         LIMIT :limit) AS found;

-- name: some_schedules
SELECT json_group_array({standing})
  FROM (SELECT schedule.*, target.name AS target
          FROM json_each(:rows) AS wanted
          JOIN schedule ON schedule.id = wanted.value
          JOIN target ON target.id = schedule.target_id) AS found;

-- name: due_beats
-- Waiting beats that somebody has to look at: room came, a retry or a paced catch-up is due, an event arrived.
SELECT json_group_array(json_array(
           id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by))
  FROM (SELECT * FROM beat WHERE wake_at <= :now ORDER BY wake_at, id LIMIT :limit);

-- name: paced_beats
-- How many of these schedules' beats wait for their pace, and for nothing else.
SELECT json_group_array(json_array(schedule_id, number))
  FROM (SELECT schedule_id, count(*) AS number FROM beat
         WHERE outcome = 'pending' AND reason = 'catch-up' AND schedule_id IN (SELECT value FROM json_each(:rows))
         GROUP BY schedule_id);

-- name: rooms
SELECT json_group_array(json_array(id, max_concurrent, running,
           EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending')))
  FROM target WHERE id IN (SELECT value FROM json_each(:rows));

-- name: pace
-- When the last beat that waits for its place in the pace may start, and from when on a place is free.
SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL AND outcome = 'pending' AND reason = 'catch-up'
         ORDER BY wake_at DESC LIMIT 1),
       (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'paced_until');

-- name: next_wake
SELECT min(at) FROM (SELECT (SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) AS at
                     UNION ALL
                     SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1));

-- name: add_beats
-- Ignored where the dedup id exists already: the caller compares the count and looks which.
INSERT OR IGNORE INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, count, outcome, reason, source,
                            origin, payload, priority, wake_at, created_at, settled_at, trace)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       (SELECT next_trace FROM schedule WHERE id = value ->> 1)
  FROM json_each(:rows);

-- name: start_beats
-- The same for one instant that starts at once, the way of nearly every beat (store/plain.py).
WITH given (id, schedule_id, target_id, dedup_id, due_at, source, priority, created_at) AS (VALUES :rows)
INSERT OR IGNORE INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, outcome, source, priority,
                            created_at, trace)
SELECT id, schedule_id, target_id, dedup_id, due_at, due_at, 'running', source, priority, created_at,
       (SELECT next_trace FROM schedule WHERE schedule.id = given.schedule_id)
  FROM given WHERE id IS NOT NULL;

-- name: known_beats
SELECT json_group_array(json_array(beat.schedule_id, beat.dedup_id, beat.id))
  FROM json_each(:rows) JOIN beat ON beat.schedule_id = value ->> 0 AND beat.dedup_id = value ->> 1;

-- name: grow_beats
UPDATE beat SET count = count + (value ->> 1), last_due_at = value ->> 2, settled_at = value ->> 3
  FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: change_beats
UPDATE beat SET outcome = value ->> 1, reason = value ->> 2, wake_at = value ->> 3, attempt = value ->> 4,
                settled_at = value ->> 5
  FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: settle_beats
-- They ran.
WITH given (id) AS (VALUES :rows)
UPDATE beat SET outcome = 'ran', reason = '', wake_at = NULL, settled_at = :now WHERE id IN (SELECT id FROM given);

-- name: add_runs
WITH given (id, beat_id, schedule_id, attempt) AS (VALUES :rows)
INSERT INTO run (id, beat_id, schedule_id, attempt, status, node_id, claimed_at)
SELECT id, beat_id, schedule_id, attempt, 'running', :node, :now FROM given WHERE id IS NOT NULL;

-- name: finish_runs
-- A run that is closed stays closed.
UPDATE run SET status = value ->> 1, started_at = value ->> 2, finished_at = value ->> 3, code = value ->> 4,
               error = value ->> 5, response = value ->> 6, summary = value ->> 7, usage = value ->> 8,
               session = value ->> 9, log = value ->> 10, note = value ->> 11
  FROM json_each(:rows)
 WHERE run.id = value ->> 0 AND run.status = 'running';

-- name: succeed_runs
-- The same for a success that has nothing to tell.
WITH given (id, started_at) AS (VALUES :rows)
UPDATE run SET status = 'succeeded', started_at = given.started_at, finished_at = :now
  FROM given WHERE run.id = given.id AND run.status = 'running';

-- name: open_runs
SELECT json_group_array(json_array(run.id, run.beat_id, run.schedule_id, run.attempt, beat.target_id,
                                   coalesce(run.source, beat.source), beat.due_at, beat.dedup_id))
  FROM run JOIN beat ON beat.id = run.beat_id WHERE run.status = 'running' AND run.id IN (SELECT value FROM json_each(:rows));

-- name: orphaned_runs
SELECT json_group_array(id) FROM run WHERE status = 'running' AND node_id <> :node;

-- name: start_paced
-- An interval stands still while it runs: its next time is decided by the finish.
WITH given (id, due_at) AS (VALUES :rows)
UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL, running = running + 1, tail_id = NULL,
                    last_started_at = :now, settled_until = max(settled_until, given.due_at)
  FROM given WHERE schedule.id = given.id;

-- name: count_schedules
UPDATE schedule SET running = running + (value ->> 1), waiting = waiting + (value ->> 2),
                    last_started_at = coalesce(:started, last_started_at)
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: change_schedules
UPDATE schedule
   SET next_run_at = value ->> 1, next_due_at = value ->> 2, next_source = value ->> 3, next_origin = value ->> 4,
       next_trace = coalesce(value ->> 5, next_trace), wake_at = value ->> 6, anchor_at = value ->> 7, settled_until = value ->> 8,
       is_new = value ->> 9, failures = value ->> 10, runs = value ->> 11, running = value ->> 12, waiting = value ->> 13,
       tail_id = value ->> 14, tail = value ->> 15, last_started_at = coalesce(value ->> 16, last_started_at),
       last_run_at = coalesce(value ->> 17, last_run_at), last_status = coalesce(value ->> 18, last_status),
       last_error = CASE WHEN value ->> 18 IS NULL THEN last_error ELSE value ->> 19 END,
       quarantine = value ->> 20
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: go_on
-- The same for a schedule that its success has decided again, and nothing else.
WITH given (id, at, source, trace, runs, running, now) AS (VALUES :rows)
UPDATE schedule
   SET next_run_at = given.at, next_due_at = given.at, wake_at = given.at, next_source = given.source,
       next_origin = '', next_trace = given.trace, runs = given.runs, running = given.running, anchor_at = given.now,
       last_run_at = given.now, is_new = 0, failures = 0, last_status = 'succeeded', last_error = NULL,
       quarantine = NULL
  FROM given WHERE schedule.id = given.id;

-- name: move_rooms
WITH given (id, more) AS (VALUES :rows)
UPDATE target SET running = running + given.more FROM given WHERE target.id = given.id;

-- name: end_one_shots
UPDATE hint SET ended_at = :now, ended_by = 'consumed'
  FROM json_each(:rows)
 WHERE hint.schedule_id = value ->> 0 AND hint.at <= value ->> 1 AND hint.ended_at IS NULL;

-- name: gaps
SELECT json_group_array(json_array(from_at, until, reason))
  FROM (SELECT * FROM gap WHERE until > :since ORDER BY from_at);

-- name: last_ids
SELECT (SELECT coalesce(max(id), 0) FROM beat), (SELECT coalesce(max(id), 0) FROM run);

-- name: take_fleet_name
INSERT INTO meta (key, value) VALUES ('fleet', :fleet)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value;

-- name: add_plans
INSERT OR IGNORE INTO plan (text) SELECT value FROM json_each(:rows);

-- name: known_plans
SELECT json_group_array(json_array(plan.text, plan.id)) FROM json_each(:rows) JOIN plan ON plan.text = value;

-- name: targets
SELECT json_group_array(json_array(id, name, kind, spec, origin, max_concurrent))
  FROM target WHERE removed_at IS NULL;

-- name: add_targets
INSERT INTO target (name, kind, spec, origin, max_concurrent)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows) WHERE true
    ON CONFLICT (name) DO UPDATE
   SET kind = excluded.kind, spec = excluded.spec, origin = excluded.origin, max_concurrent = excluded.max_concurrent,
       revision = revision + 1, removed_at = NULL;

-- name: ids_of_targets
SELECT json_group_array(json_array(target.name, target.id)) FROM json_each(:rows) JOIN target ON target.name = value;

-- name: change_targets
UPDATE target SET kind = value ->> 2, spec = value ->> 3, origin = value ->> 4, max_concurrent = value ->> 5,
                  revision = revision + 1
  FROM json_each(:rows) WHERE target.id = value ->> 0;

-- name: remove_targets
UPDATE target SET removed_at = :now FROM json_each(:rows) WHERE target.id = value;

-- name: schedules_of
SELECT json_group_array(json_array(id, target_id, name, kind, plan_id, brief, origin, enabled))
  FROM schedule WHERE removed_at IS NULL AND target_id IN (SELECT value FROM json_each(:rows));

-- name: add_schedules
-- A removed schedule of the same name comes back with its history; the mark keeps its past from firing again.
INSERT INTO schedule (target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source,
                      next_origin, next_trace, wake_at, created_at, anchor_at, settled_until)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, :now, :now, :now
  FROM json_each(:rows) WHERE true
    ON CONFLICT (target_id, name) DO UPDATE
   SET kind = excluded.kind, plan_id = excluded.plan_id, brief = excluded.brief, origin = excluded.origin,
       enabled = excluded.enabled, next_run_at = excluded.next_run_at, next_due_at = excluded.next_due_at,
       next_source = excluded.next_source, next_origin = excluded.next_origin, next_trace = excluded.next_trace,
       wake_at = excluded.wake_at, anchor_at = :now, settled_until = :now, is_new = 1, failures = 0, runs = 0,
       arm = arm + 1, revision = revision + 1, quarantine = NULL, removed_at = NULL, skips = 0;

-- name: edit_schedules
UPDATE schedule
   SET kind = value ->> 3, plan_id = value ->> 4, brief = value ->> 5, origin = value ->> 6, enabled = value ->> 7,
       next_run_at = value ->> 8, next_due_at = value ->> 9, next_source = value ->> 10, next_origin = value ->> 11,
       next_trace = coalesce(value ->> 12, next_trace), wake_at = value ->> 13, settled_until = :now, revision = revision + 1,
       quarantine = NULL
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: move_schedules
UPDATE schedule SET origin = value ->> 1 FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: remove_schedules
UPDATE schedule SET removed_at = :now, next_run_at = NULL, next_due_at = NULL, wake_at = NULL, waiting = 0
  FROM json_each(:rows) WHERE schedule.id = value;

-- name: join_node
INSERT INTO node (host, pid, version, started_at, seen_at, labels)
VALUES (:host, :pid, :version, :now, :now, :labels);

-- name: node_number
SELECT max(id) FROM node;

-- name: last_sign
-- When anything was last known to live: what came after it and before now is the gap. A node says so every few seconds,
-- but it also lived when it claimed its last run: a node killed after six seconds was said to be down since its start.
SELECT max(at) FROM (SELECT max(coalesce(stopped_at, seen_at)) AS at FROM node
                     UNION ALL
                     SELECT claimed_at FROM run WHERE id = (SELECT max(id) FROM run));

-- name: renew_node
UPDATE node SET seen_at = :now WHERE id = :node;

-- name: leave_node
UPDATE node SET seen_at = :now, stopped_at = :now WHERE id = :node;

-- name: pull_back
-- The clock was put back: marks and anchors that lie in the future come back to now. What really started
-- stays blocked by its dedup id.
UPDATE schedule SET anchor_at = min(anchor_at, :now), settled_until = min(settled_until, :now), wake_at = :now,
                    next_run_at = NULL, next_due_at = NULL
 WHERE (anchor_at > :now OR settled_until > :now) AND removed_at IS NULL AND quarantine IS NULL AND running = 0 AND waiting = 0;

-- name: expire_waiting
-- What waits of a schedule that is no longer there. A beat that has a run already is `ran`.
UPDATE beat SET outcome = CASE WHEN attempt > 1 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 THEN '' ELSE 'expired' END, wake_at = NULL, settled_at = :now
 WHERE outcome = 'pending' AND schedule_id IN (SELECT value FROM json_each(:rows));

-- name: end_older_hints
UPDATE hint SET ended_at = :now,
                ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE 'replaced' END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now OR (:is_pace AND every IS NOT NULL AND (origin = :rank OR origin LIKE :rank || ':%')));
