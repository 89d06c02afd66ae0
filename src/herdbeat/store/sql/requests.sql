-- What a person may ask of single beats and runs: to let the next pass, to call off, to run again, to fill in.

-- name: use_skips
UPDATE schedule SET skips = max(skips - (value ->> 1), 0) FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: waiting_of
SELECT json_group_array(json_array(
           id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by))
  FROM (SELECT * FROM beat
         WHERE outcome = 'pending' AND schedule_id IN (SELECT value FROM json_each(:rows)) ORDER BY id);

-- name: mark_retries
UPDATE run SET source = 'retry', origin = value ->> 1 FROM json_each(:rows) WHERE run.id = value ->> 0;

-- name: last_backfill
SELECT coalesce(max(CAST(substr(dedup_id, instr(dedup_id, '#') + 1) AS INTEGER)), 0)
  FROM beat WHERE schedule_id = :id AND dedup_id >= 'backfill:' AND dedup_id < 'backfill;';
