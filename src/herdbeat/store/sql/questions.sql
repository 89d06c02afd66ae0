-- What faces ask. Read-only connections run these; they never hold up the writer.

-- name: list_beats
SELECT beat.id, target.name AS target, schedule.name, beat.due_at, beat.last_due_at, beat.count, beat.outcome, beat.reason,
       beat.source, beat.origin, beat.dedup_id, beat.settled_at,
       (SELECT json_group_array(run.id) FROM run WHERE run.beat_id = beat.id) AS runs,
       (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1) AS last_status
  FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE beat.id IN (SELECT value FROM json_each(:ids))
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
 WHERE run.id IN (SELECT value FROM json_each(:ids))
 ORDER BY run.id DESC;

-- name: schedule_columns
schedule.id, target.name AS target, schedule.name, plan.text AS plan, schedule.origin, schedule.enabled,
       schedule.disabled_by, schedule.quarantine, schedule.next_run_at, schedule.next_due_at, schedule.next_source,
       schedule.next_origin, schedule.next_trace, schedule.anchor_at, schedule.is_new, schedule.failures, schedule.running,
       schedule.waiting, schedule.paused, schedule.paused_until, schedule.paused_by, schedule.paused_reason,
       schedule.last_started_at, schedule.last_run_at, schedule.last_status, schedule.last_error, target.max_concurrent AS target_room,
       target.running AS target_running, schedule.skips, schedule.skips_by, schedule.skips_reason, schedule.runs;

-- name: list_schedules
SELECT {schedule_columns}
  FROM schedule
  JOIN target ON target.id = schedule.target_id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE schedule.removed_at IS NULL
   AND (:target IS NULL OR target.name = :target)
   AND (:name IS NULL OR schedule.name = :name)
   AND (:after IS NULL OR schedule.id > :after)
 ORDER BY schedule.id
 LIMIT :limit;

-- name: schedules_of_ids
SELECT {schedule_columns}
  FROM schedule
  JOIN target ON target.id = schedule.target_id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE schedule.id IN (SELECT value FROM json_each(:ids))
 ORDER BY schedule.id;

-- name: trace_of_beat
SELECT trace FROM beat WHERE id = :id;

-- name: beat_at
-- The beat that holds an instant: its own row, or the range it fell into.
SELECT beat.id FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND schedule.name = :name AND beat.due_at <= :at AND beat.last_due_at >= :at
 ORDER BY beat.source = 'backfill', beat.due_at DESC LIMIT 1;

-- name: list_nodes
-- A file has one node, which holds it by a lock: the newest is the only one that may be alive.
SELECT id, host, pid, version, started_at, seen_at, stopped_at, NULL AS lease_until, labels, 1 AS works,
       (SELECT count(*) FROM run WHERE status = 'running' AND node_id = node.id) AS running
  FROM node
 WHERE :now IS NULL OR (stopped_at IS NULL AND id = (SELECT max(id) FROM node))
 ORDER BY id DESC LIMIT :limit;

-- name: spent_on
SELECT runs, tokens, usd FROM spend WHERE scope = :scope AND holder_id = :holder AND day = :day;

-- name: budgets_around
-- Those that a schedule shares: of its target, and of the fleet.
SELECT scope, holder_id, text FROM budget
 WHERE scope = 'fleet' OR holder_id = (SELECT target_id FROM schedule WHERE id = :schedule);

-- name: last_usage_of
SELECT usage FROM (SELECT usage FROM run WHERE schedule_id = :schedule ORDER BY id DESC LIMIT :limit)
 WHERE usage IS NOT NULL;

-- name: list_gaps
SELECT from_at, until, reason FROM gap WHERE until >= :since ORDER BY from_at;

-- name: output_of
-- A file has one node, and what its runs have printed lies beside it.
SELECT NULL WHERE :id IS NULL;

-- name: briefs_of
SELECT json_group_array(json_array(id, brief)) FROM schedule WHERE id IN (SELECT value FROM json_each(:ids));

-- name: targets_of
SELECT json_group_array(json_array(id, name, kind, spec, max_concurrent))
  FROM target WHERE id IN (SELECT value FROM json_each(:ids));

-- name: open_run_ids
SELECT id FROM run WHERE status = 'running' ORDER BY +id LIMIT :limit;

-- name: waiting_beat_ids
-- Beats that are due and have not started. A retry waits by choice, and the past of a backfill is not late: neither is
-- among them.
SELECT id FROM beat
 WHERE outcome = 'pending' AND due_at <= :now AND reason <> 'retry' AND source <> 'backfill' ORDER BY +due_at LIMIT :limit;

-- name: near_names
-- Names worth comparing with a mistyped one: all of a small fleet; those of a large one would take seconds.
SELECT target.name, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL
   AND (:limit >= (SELECT count(*) FROM schedule)
        OR substr(target.name, 1, 2) = substr(:word, 1, 2) OR substr(schedule.name, -3) = substr(:word, -3)
        OR (substr(target.name, 1, 1) = substr(:word, 1, 1)
            AND length(target.name || schedule.name) BETWEEN length(:word) - 3 AND length(:word) + 10))
 LIMIT :limit;

-- name: failing_ids
SELECT id FROM schedule WHERE (failures > 0 OR quarantine IS NOT NULL) AND removed_at IS NULL ORDER BY id LIMIT :limit;

-- name: held_ids
SELECT id FROM schedule WHERE (paused = 1 OR disabled_by IS NOT NULL) AND removed_at IS NULL ORDER BY id LIMIT :limit;

-- name: overdue_ids
SELECT id FROM schedule
 WHERE wake_at <= :now AND next_run_at <= :now AND next_source <> 'paused' ORDER BY wake_at LIMIT :limit;

-- name: soonest_ids
-- The end of a pause is no run.
SELECT id FROM schedule
 WHERE wake_at IS NOT NULL AND next_run_at > :now AND next_source <> 'paused' ORDER BY wake_at LIMIT :limit;

-- name: number_of_schedules
SELECT count(*) FROM schedule WHERE removed_at IS NULL;

-- name: neighbours
-- The newest beat that was due before a moment, and the oldest after it.
SELECT (SELECT beat.id FROM beat WHERE schedule_id = :schedule AND due_at <= :at ORDER BY due_at DESC LIMIT 1),
       (SELECT beat.id FROM beat WHERE schedule_id = :schedule AND due_at > :at ORDER BY due_at LIMIT 1);

-- name: list_changes
-- The newest first. A target's name also means what was changed about its schedules.
SELECT id, at, who, what, subject, before, after
  FROM change
 WHERE (:subject IS NULL OR subject = :subject OR (subject >= :subject || '/' AND subject < :subject || '0'))
   AND (:since IS NULL OR at >= :since)
   AND (:before IS NULL OR id < :before)
 ORDER BY id DESC
 LIMIT :limit;

-- name: list_hints
SELECT hint.id, target.name AS target, schedule.name, hint.origin, hint.every, hint.at, hint.reason, hint.expires_at,
       hint.created_at, hint.ended_at, coalesce(hint.ended_by, '') AS ended_by
  FROM hint
  JOIN schedule ON schedule.id = hint.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE (:ids IS NULL OR hint.schedule_id IN (SELECT value FROM json_each(:ids)))
   AND (:ended_since IS NULL OR hint.ended_at IS NULL OR hint.ended_at >= :ended_since)
 ORDER BY hint.id DESC
 LIMIT :limit;
