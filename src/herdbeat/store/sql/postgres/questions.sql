-- What questions.sql, finding.sql, looking.sql and names.sql say in SQLite's own words, said in PostgreSQL's. All their
-- other statements serve both.

-- name: list_beats
SELECT beat.id, target.name AS target, schedule.name, beat.due_at, beat.last_due_at, beat.count, beat.outcome, beat.reason,
       beat.source, beat.origin, beat.dedup_id, beat.settled_at,
       (SELECT coalesce(json_agg(run.id ORDER BY run.id), '[]')::text FROM run WHERE run.beat_id = beat.id) AS runs,
       (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1) AS last_status
  FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE beat.id = ANY(:ids)
 ORDER BY beat.id DESC;

-- name: list_runs
SELECT run.id, target.name AS target, schedule.name, beat.id AS beat_id, run.attempt, run.status, run.claimed_at, run.started_at,
       run.finished_at, run.code, run.error, run.summary, run.log,
       coalesce(run.source, beat.source) AS source, coalesce(run.origin, beat.origin) AS origin, beat.due_at, beat.dedup_id,
       coalesce(run.note, '') AS note
  FROM run
  JOIN beat ON beat.id = run.beat_id
  JOIN schedule ON schedule.id = run.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE run.id = ANY(:ids)
 ORDER BY run.id DESC;

-- name: list_nodes
SELECT id, host, pid, version, started_at, seen_at, stopped_at, lease_until, labels, works,
       (SELECT count(*) FROM run WHERE status = 'running' AND node_id = node.id) AS running
  FROM node
 WHERE :now IS NULL OR (stopped_at IS NULL AND lease_until > herdbeat_now())
 ORDER BY id DESC LIMIT :limit;

-- name: schedules_of_ids
SELECT {schedule_columns}
  FROM schedule
  JOIN target ON target.id = schedule.target_id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE schedule.id = ANY(:ids)
 ORDER BY schedule.id;

-- name: briefs_of
SELECT id, brief FROM schedule WHERE id = ANY(:ids);

-- name: targets_of
SELECT id, name, kind, spec, max_concurrent FROM target WHERE id = ANY(:ids);

-- name: output_of
SELECT text FROM run_log WHERE run_id = :id;

-- name: catalogue_version
SELECT value FROM meta WHERE key = 'catalogue';

-- name: list_hints
SELECT hint.id, target.name AS target, schedule.name, hint.origin, hint.every, hint.at, hint.reason, hint.expires_at,
       hint.created_at, hint.ended_at, coalesce(hint.ended_by, '') AS ended_by
  FROM hint
  JOIN schedule ON schedule.id = hint.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE (:ids::bigint[] IS NULL OR hint.schedule_id = ANY(:ids))
   AND (:ended_since IS NULL OR hint.ended_at IS NULL OR hint.ended_at >= :ended_since)
 ORDER BY hint.id DESC
 LIMIT :limit;

-- name: wanted_beats
(:outcome IS NULL OR outcome = :outcome) AND (:since IS NULL OR last_due_at >= :since)
   AND (:until IS NULL OR due_at < :until) AND (:before IS NULL OR id < :before);

-- name: of_target
(:target IS NULL OR schedule_id IN (SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
                                     WHERE target.name = :target));

-- name: beats_of_schedules
SELECT id FROM beat WHERE schedule_id = ANY(:schedules) AND {wanted_beats} ORDER BY id DESC LIMIT :limit;

-- name: wanted_runs
(:declined = 1 OR status <> 'skipped') AND (:status IS NULL OR status = :status) AND (:run IS NULL OR id = :run)
   AND (:beat IS NULL OR beat_id = :beat) AND (:since IS NULL OR claimed_at >= :since)
   AND (:before IS NULL OR id < :before);

-- name: runs_of_schedules
SELECT id FROM run WHERE schedule_id = ANY(:schedules) AND {wanted_runs} ORDER BY id DESC LIMIT :limit;

-- name: looked_for
-- The state is a net, not the rule: every schedule in that state is in it, and service/states.py decides.
schedule.removed_at IS NULL
   AND (:names::text[] IS NULL OR target.name || '/' || schedule.name LIKE ANY(:names)
        OR schedule.plan_id = ANY(:plans))
   AND CASE :state
         WHEN 'running'  THEN schedule.running > 0
         WHEN 'disabled' THEN schedule.enabled = 0 OR schedule.disabled_by IS NOT NULL
         WHEN 'paused'   THEN schedule.paused = 1
         WHEN 'late'     THEN schedule.waiting > 0 OR schedule.next_run_at <= :now
         WHEN 'failing'  THEN schedule.failures > 0 OR schedule.quarantine IS NOT NULL
         WHEN 'waiting'  THEN schedule.next_run_at IS NULL AND schedule.kind IN ('webhook', 'chat', 'manual')
         WHEN 'done'     THEN schedule.next_run_at IS NULL
         WHEN 'new'      THEN schedule.last_run_at IS NULL
         WHEN 'ok'       THEN schedule.last_run_at IS NOT NULL AND schedule.failures = 0
         ELSE true END;

-- name: plans_marked
-- Plans are shared, so there are few of them. One that cannot be read has no tags.
SELECT id FROM plan
 WHERE herdbeat_json(text) -> 'policies' ->> 'group' = ANY(:groups)
    OR EXISTS (SELECT 1 FROM json_array_elements_text(herdbeat_json(text) -> 'policies' -> 'tags') AS tag
                WHERE tag = ANY(:tags));

-- name: known_marks
SELECT DISTINCT tag FROM plan, json_array_elements_text(herdbeat_json(text) -> 'policies' -> 'tags') AS tag
 UNION SELECT herdbeat_json(text) -> 'policies' ->> 'group' FROM plan
        WHERE herdbeat_json(text) -> 'policies' ->> 'group' IS NOT NULL;

-- name: oldest_waiting
SELECT schedule_id, min(due_at) FROM beat
 WHERE outcome = 'pending' AND schedule_id = ANY(:ids) GROUP BY schedule_id;

-- name: marks_of
SELECT beat.id, beat.schedule_id, beat.outcome, beat.count,
       (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1)
  FROM beat WHERE beat.id = ANY(:ids) ORDER BY beat.due_at, beat.id;

-- name: recent_lateness
SELECT beat.created_at - beat.due_at FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
 WHERE beat.id > (SELECT coalesce(max(id), 0) FROM beat) - 200
   AND beat.source IN ('baseline-interval', 'baseline-cron', 'ai-interval', 'ai-oneshot')
   AND beat.outcome IN ('ran', 'running') AND beat.count = 1 AND strpos(plan.text, '"jitter"') = 0
 ORDER BY beat.id DESC LIMIT :limit;

-- name: spans
-- What took place since a moment. A run that began before it and is still going belongs to it.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at
  FROM beat LEFT JOIN run ON run.beat_id = beat.id
 WHERE beat.schedule_id = ANY(:ids)
   AND (beat.last_due_at >= :since OR coalesce(run.finished_at, :until) >= :since OR beat.outcome = 'running')
   AND beat.due_at < :until
 ORDER BY beat.id DESC LIMIT :limit;

-- name: still_running
SELECT id FROM run WHERE status = 'running' AND id = ANY(:ids);

-- name: data_version
-- Another number as soon as anybody has changed anything.
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: names_beginning
SELECT target.name, schedule.name, schedule.running, schedule.enabled, schedule.disabled_by, schedule.paused,
       schedule.paused_until, schedule.waiting, schedule.quarantine, schedule.failures, schedule.next_run_at,
       schedule.last_run_at, schedule.kind IN ('webhook', 'chat', 'manual'),
       herdbeat_json(plan.text) -> 'policies' -> 'late_after'
  FROM target
  JOIN schedule ON schedule.target_id = target.id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE target.name >= :target AND target.name < :target_end
   AND schedule.name >= :name AND schedule.name < :name_end AND schedule.removed_at IS NULL
 ORDER BY target.name, schedule.id
 LIMIT :limit;
