-- What only people who look at a fleet ask: many schedules at a glance, one run in full, what overlapped.

-- name: looked_for
-- The state is a net, not the rule: every schedule in that state is in it, and service/states.py decides.
schedule.removed_at IS NULL
   AND (:names IS NULL OR EXISTS (SELECT 1 FROM json_each(:names) AS wanted
                                   WHERE target.name || '/' || schedule.name GLOB wanted.value)
        OR schedule.plan_id IN (SELECT value FROM json_each(:plans)))
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
         ELSE 1 END;

-- name: looked_for_ids
SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE {looked_for} AND (:after IS NULL OR schedule.id > :after)
 ORDER BY schedule.id LIMIT :limit;

-- name: number_looked_for
SELECT count(*) FROM schedule JOIN target ON target.id = schedule.target_id WHERE {looked_for};

-- name: plans_marked
-- Plans are shared, so there are few of them. One that cannot be read has no tags.
SELECT id FROM plan
 WHERE json_valid(text)
   AND (json_extract(text, '$.policies.group') IN (SELECT value FROM json_each(:groups))
        OR EXISTS (SELECT 1 FROM json_each(text, '$.policies.tags') AS tag
                    WHERE tag.value IN (SELECT value FROM json_each(:tags))));

-- name: known_marks
SELECT DISTINCT tag.value FROM plan, json_each(plan.text, '$.policies.tags') AS tag WHERE json_valid(plan.text)
 UNION SELECT json_extract(text, '$.policies.group') FROM plan
        WHERE json_valid(text) AND json_extract(text, '$.policies.group') IS NOT NULL;

-- name: oldest_waiting
SELECT schedule_id, min(due_at) FROM beat
 WHERE outcome = 'pending' AND schedule_id IN (SELECT value FROM json_each(:ids)) GROUP BY schedule_id;

-- name: any_hint
SELECT EXISTS (SELECT 1 FROM hint WHERE ended_at IS NULL);

-- name: clock_beats
-- Their ids begin with their kind and go on with their time, so the index on them has the newest last.
SELECT id FROM beat WHERE schedule_id = :schedule AND dedup_id >= :first AND dedup_id < :last
 ORDER BY dedup_id DESC LIMIT :limit;

-- name: beats_of_newest_runs
SELECT beat_id FROM run WHERE schedule_id = :schedule ORDER BY id DESC LIMIT :limit;

-- name: marks_of
SELECT beat.id, beat.schedule_id, beat.outcome, beat.count,
       (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1)
  FROM beat WHERE beat.id IN (SELECT value FROM json_each(:ids)) ORDER BY beat.due_at, beat.id;

-- name: run_details
SELECT run.response, coalesce(run.usage, '{}') AS usage, coalesce(run.session, '') AS session,
       coalesce(run.note, '') AS note, coalesce(node.host, '') AS host, node.pid, coalesce(node.version, '') AS version
  FROM run LEFT JOIN node ON node.id = run.node_id WHERE run.id = :id;

-- name: target_id
SELECT id, origin, running FROM target WHERE name = :name AND removed_at IS NULL;

-- name: recent_lateness
-- When the last beats of the clock were found, after they were due. Jitter makes them late on purpose.
SELECT beat.created_at - beat.due_at FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
 WHERE beat.id > (SELECT coalesce(max(id), 0) FROM beat) - 200
   AND beat.source IN ('baseline-interval', 'baseline-cron', 'ai-interval', 'ai-oneshot')
   AND beat.outcome IN ('ran', 'running') AND beat.count = 1 AND instr(plan.text, '"jitter"') = 0
 ORDER BY beat.id DESC LIMIT :limit;

-- name: oldest_overdue
SELECT min(wake_at) FROM schedule WHERE wake_at <= :now;

-- name: active_ids
-- Those to which something happened since a moment: every settled beat moves an anchor, every start leaves its time.
SELECT id FROM schedule
 WHERE removed_at IS NULL AND (anchor_at >= :since OR last_started_at >= :since OR running > 0 OR waiting > 0)
 ORDER BY id LIMIT :limit;

-- name: spans
-- What took place since a moment. A run that began before it and is still going belongs to it.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at
  FROM beat LEFT JOIN run ON run.beat_id = beat.id
 WHERE beat.schedule_id IN (SELECT value FROM json_each(:ids))
   AND (+beat.last_due_at >= :since OR +beat.outcome = 'pending'
        OR (run.id IS NOT NULL AND coalesce(run.finished_at, :until) >= :since))
   AND +beat.due_at < :until
 ORDER BY +beat.id DESC LIMIT :limit;

-- name: first_run_since
SELECT id, claimed_at FROM run WHERE id >= :id ORDER BY id LIMIT 1;

-- name: newest_run
SELECT coalesce(max(id), 0) FROM run;

-- name: runs_after
-- For who follows: the runs since the last look, the oldest first.
SELECT id FROM run WHERE id > :after ORDER BY id LIMIT :limit;

-- name: still_running
SELECT id FROM run WHERE status = 'running' AND id IN (SELECT value FROM json_each(:ids));

-- name: data_version
-- Another number as soon as anybody else has changed anything.
SELECT data_version FROM pragma_data_version;
