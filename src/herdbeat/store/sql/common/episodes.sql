-- Statements on episodes that both dialects understand.

-- name: episode_columns
id, channel, condition, subject, detail, began_at, opened_at, schedule_id, clear_since, ended_at, told_at, end_told_at, acked_by,
       snoozed_until;

-- name: is_live_episode
(ended_at IS NULL OR end_told_at IS NULL);

-- name: drop_episodes
DELETE FROM episode WHERE id IN (SELECT id FROM episode WHERE ended_at < :before AND end_told_at IS NOT NULL LIMIT :limit);

-- name: list_episodes
-- The open ones first, then the newest.
SELECT {episode_columns} FROM episode WHERE (:open = 0 OR ended_at IS NULL)
 ORDER BY CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END, id DESC LIMIT :limit;

-- name: failing_rows
SELECT schedule.id, target.name, schedule.name, schedule.failures, coalesce(schedule.last_error, ''),
       coalesce(schedule.last_run_at, schedule.last_started_at, 0), schedule.plan_id
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE (schedule.failures > 0 OR {is_unable}) AND schedule.removed_at IS NULL AND schedule.enabled = 1
   AND schedule.disabled_by IS NULL
 ORDER BY schedule.id LIMIT :limit;

-- name: unstarted_beat
-- Instants that were missed or had no budget, and whether a later run of their schedule has made them good.
SELECT beat.id, target.name, schedule.name, schedule.id, beat.outcome, beat.due_at, beat.count, schedule.plan_id, beat.settled_at,
       EXISTS (SELECT 1 FROM run WHERE run.schedule_id = schedule.id AND run.claimed_at > beat.settled_at
                  AND run.status IN ('running', 'succeeded', 'failed', 'timed_out'))
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE (beat.outcome = 'missed' OR beat.reason = 'budget_exceeded') AND schedule.removed_at IS NULL;

-- name: unstarted_after
{unstarted_beat} AND beat.id > :after AND beat.settled_at >= :since ORDER BY beat.id LIMIT :limit;

-- name: has_reported_missed
-- An instant that was missed belongs to one episode, whichever node sees it, and however often.
EXISTS (SELECT 1 FROM episode AS earlier WHERE earlier.condition = 'missed' AND given.condition = 'missed'
           AND earlier.channel = given.channel AND earlier.subject = given.subject AND earlier.began_at >= given.began_at);

-- name: runs_ended_between
-- What ran in a time, summed up by schedule and end.
SELECT target.name, schedule.name, schedule.plan_id, run.status, count(*),
       count(CASE WHEN agent_run.error_code = 'rate_limited' THEN 1 END), sum(run_cost.usd)
  FROM run JOIN schedule ON schedule.id = run.schedule_id JOIN target ON target.id = schedule.target_id
       LEFT JOIN run_cost ON run_cost.run_id = run.id
       LEFT JOIN agent_run ON agent_run.run_id = run.id
 WHERE run.finished_at >= :since AND run.finished_at < :until
 GROUP BY target.name, schedule.name, schedule.plan_id, run.status;

-- name: missed_between
SELECT target.name, schedule.name, schedule.plan_id, CAST(sum(beat.count) AS bigint)
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE beat.outcome = 'missed' AND beat.settled_at >= :since AND beat.settled_at < :until
 GROUP BY target.name, schedule.name, schedule.plan_id;

-- name: newest_beat_id
SELECT coalesce(max(id), 0) FROM beat;
