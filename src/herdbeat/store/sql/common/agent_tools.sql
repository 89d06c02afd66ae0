-- Statements on what agents say through our own tools. Both dialects understand them.

-- name: newest_hint
SELECT max(id) FROM hint WHERE schedule_id = :schedule AND origin = :origin AND ended_at IS NULL;

-- name: add_agent_hint
INSERT INTO agent_hint (hint_id, schedule_id, run_id, is_wake, request, note, created_at)
VALUES (:hint, :schedule, :run, :is_wake, :request, :note, :now)
ON CONFLICT (hint_id) DO UPDATE
   SET schedule_id = excluded.schedule_id, run_id = excluded.run_id, is_wake = excluded.is_wake,
       request = excluded.request, note = excluded.note, created_at = excluded.created_at;

-- name: drop_agent_hints
DELETE FROM agent_hint WHERE schedule_id = :schedule AND created_at < :before;

-- name: active_agent_hints
-- The same moment of creation, because the id of a hint that was dropped may be another hint's.
SELECT hint.id, hint.every, hint.at, hint.expires_at, hint.reason, agent_hint.run_id, agent_hint.request, agent_hint.note
  FROM agent_hint JOIN hint ON hint.id = agent_hint.hint_id AND hint.schedule_id = agent_hint.schedule_id
   AND hint.created_at = agent_hint.created_at
 WHERE agent_hint.schedule_id = :schedule AND hint.ended_at IS NULL AND hint.expires_at > :now
 ORDER BY hint.id;

-- name: count_wakes
SELECT count(*) FROM agent_hint WHERE schedule_id = :schedule AND is_wake = 1 AND created_at >= :since;

-- name: end_hint
UPDATE hint SET ended_at = :now, ended_by = :by WHERE id = :hint AND schedule_id = :schedule AND ended_at IS NULL;

-- name: find_hint
SELECT origin, every, at, reason, expires_at, created_at
  FROM hint
 WHERE id = :hint AND schedule_id = :schedule AND ended_at IS NULL AND expires_at > :now;

-- name: notes_of_run
-- The wake that the beat of a run has used up: both were written in one transaction, at one moment.
SELECT agent_hint.note, agent_hint.run_id
  FROM run JOIN beat ON beat.id = run.beat_id
  JOIN agent_hint ON agent_hint.schedule_id = run.schedule_id AND agent_hint.is_wake = 1
  JOIN hint ON hint.id = agent_hint.hint_id AND hint.created_at = agent_hint.created_at
   AND hint.ended_by = 'consumed' AND hint.ended_at = beat.created_at
 WHERE run.id = :run
 ORDER BY hint.at DESC
 LIMIT 1;

-- name: event_of_run
SELECT beat.payload FROM run JOIN beat ON beat.id = run.beat_id WHERE run.id = :run AND beat.payload IS NOT NULL;

-- name: set_run_report
INSERT INTO run_report (run_id, report, at) VALUES (:run, :report, :now)
ON CONFLICT (run_id) DO UPDATE SET report = excluded.report, at = excluded.at;

-- name: drop_run_reports
DELETE FROM run_report WHERE at < :before AND run_id <> :run;

-- name: run_report
SELECT report FROM run_report WHERE run_id = :run;

-- name: run_key
-- What the tokens of runs are made with.
SELECT value FROM meta WHERE key = 'run_key';

-- name: set_run_key
INSERT INTO meta (key, value) VALUES ('run_key', :value) ON CONFLICT (key) DO NOTHING;
