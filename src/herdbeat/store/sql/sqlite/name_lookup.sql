-- Completion reads this file alone, so that it stays quick.

-- name: names_with_prefix
SELECT target.name, schedule.name, schedule.running, schedule.enabled, schedule.disabled_by,
       CASE WHEN schedule.planned > 0 AND schedule.next_source = 'paused' THEN 1 ELSE schedule.paused END,
       CASE WHEN schedule.planned > 0 AND schedule.next_source = 'paused' THEN schedule.next_run_at
            ELSE schedule.paused_until END, schedule.waiting, schedule.quarantine, schedule.failures, schedule.next_run_at,
       schedule.last_run_at, schedule.kind IN ('webhook', 'chat', 'manual'),
       CASE WHEN json_valid(plan.text) THEN json_extract(plan.text, '$.policies.late_after') END,
       schedule.last_status, schedule.last_status = 'skipped' AND schedule.last_error IS NOT NULL,
       (SELECT wake_at FROM beat WHERE schedule_id = schedule.id AND outcome = 'pending' AND attempt > 1
         ORDER BY coalesce(wake_at, 0), beat.id LIMIT 1),
       (SELECT attempt FROM beat WHERE schedule_id = schedule.id AND outcome = 'pending' AND attempt > 1
         ORDER BY coalesce(wake_at, 0), beat.id LIMIT 1)
  FROM target
  JOIN schedule ON schedule.target_id = target.id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE target.name >= :target AND target.name < :target_end
   AND schedule.name >= :name AND schedule.name < :name_end AND schedule.removed_at IS NULL
 ORDER BY target.name, schedule.id
 LIMIT :limit;
