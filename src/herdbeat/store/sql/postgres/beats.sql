-- Statements on beats in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: take_due_beats
-- Under the locks of their targets. Beats of a schedule that another node has locked wait for the next claim.
SELECT beat.id, beat.schedule_id FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
 WHERE beat.wake_at <= {due_time} AND beat.target_id IN (SELECT id FROM :rows AS given (id bigint)) AND {matches_node_labels}
 ORDER BY beat.wake_at, beat.id LIMIT :limit
   FOR NO KEY UPDATE OF schedule, beat SKIP LOCKED;

-- name: pending_beats_by_id
SELECT beat.id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited
  FROM beat JOIN :rows AS given (id bigint) USING (id)
 WHERE outcome = 'pending' ORDER BY wake_at, beat.id;

-- name: count_catchup_beats
SELECT schedule_id, count(*) FROM beat
 WHERE outcome = 'pending' AND reason = 'catch-up' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint))
 GROUP BY schedule_id;

-- name: next_beat_ids
SELECT nextval('beat_id_seq') FROM generate_series(1, :number::integer);

-- name: next_beat_and_run_ids
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
-- The same for one instant that starts at once, as nearly every beat does (store/row_mapping.py).
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

-- name: recorded_beats
-- The instants of a calendar within a window that have a beat already. Its dedup ids sort by time.
SELECT beat.schedule_id, beat.due_at, beat.last_due_at
  FROM :rows AS given (schedule_id bigint, after_id text, until_id text)
  JOIN beat ON beat.schedule_id = given.schedule_id AND beat.dedup_id > given.after_id
           AND beat.dedup_id <= given.until_id
 ORDER BY beat.schedule_id, beat.due_at;

-- name: beats_across
-- Rows of instants that did not run and of which some are due after a moment, and some before.
SELECT beat.id, beat.schedule_id, beat.due_at, beat.count
  FROM schedule
  JOIN beat ON beat.id = (SELECT newest.id FROM beat AS newest
                           WHERE newest.schedule_id = schedule.id AND newest.dedup_id BETWEEN 'cron:' AND :last_id
                           ORDER BY newest.dedup_id DESC LIMIT 1)
 WHERE schedule.kind = 'cron' AND schedule.removed_at IS NULL AND schedule.quarantine IS NULL
   AND beat.last_due_at > :now AND {never_started};

-- name: cut_beats
UPDATE beat SET count = given.count, last_due_at = given.last_due_at
  FROM :rows AS given (id bigint, count integer, last_due_at bigint) WHERE beat.id = given.id;

-- name: move_beats_back
UPDATE beat SET wake_at = greatest(:now::bigint, wake_at - :step::bigint) WHERE outcome = 'pending' AND wake_at > :now;

-- name: extend_beats
UPDATE beat SET count = count + given.more, last_due_at = given.last_due_at, settled_at = given.settled_at
  FROM :rows AS given (id bigint, more integer, last_due_at bigint, settled_at bigint) WHERE beat.id = given.id;

-- name: change_beats
UPDATE beat SET outcome = given.outcome, reason = given.reason, wake_at = given.wake_at, attempt = given.attempt,
                settled_at = given.settled_at
  FROM :rows AS given (id bigint, outcome text, reason text, wake_at bigint, attempt integer, settled_at bigint)
 WHERE beat.id = given.id;

-- name: settle_beats
-- For beats that ran, without a reason.
UPDATE beat SET outcome = 'ran', reason = '', wake_at = NULL, settled_at = :now
  FROM :rows AS given (id bigint) WHERE beat.id = given.id;

-- name: expire_waiting
-- Settle the waiting beats of removed schedules. A beat that already has a run is `ran`.
UPDATE beat SET outcome = CASE WHEN attempt > 1 OR limited > 0 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 OR limited > 0 THEN '' ELSE 'expired' END, wake_at = NULL, settled_at = :now
 WHERE outcome = 'pending' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: targets_with_waiting
SELECT DISTINCT target_id FROM beat
 WHERE outcome = 'pending' AND reason IN ('at_capacity', 'already_running');

-- name: suspect_beats
SELECT id FROM beat
 WHERE outcome = 'pending' AND wake_at IS NULL AND reason NOT IN ('at_capacity', 'already_running') LIMIT :limit;

-- name: stuck_beats
SELECT beat.id, target.name || '/' || schedule.name
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = beat.target_id
 WHERE beat.id IN (SELECT id FROM :rows AS given (id bigint)) AND beat.outcome = 'pending' AND beat.wake_at IS NULL
   AND beat.reason NOT IN ('at_capacity', 'already_running');

-- name: wake_beats
UPDATE beat SET wake_at = :now FROM :rows AS given (id bigint) WHERE beat.id = given.id AND beat.outcome = 'pending';

-- name: pending_beats
SELECT id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited
  FROM beat WHERE outcome = 'pending' ORDER BY id LIMIT :limit;

-- name: old_beats
-- Beats that were settled long ago.
SELECT id FROM beat
 WHERE due_at < :before AND last_due_at < :before AND coalesce(settled_at, due_at) < :before
   AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay')
                OR starts_with(dedup_id, 'delay:')))
 ORDER BY last_due_at LIMIT :limit;

-- name: schedules_with_surplus_beats
SELECT schedule_id FROM beat GROUP BY schedule_id HAVING count(*) > :most;

-- name: surplus_beats
-- The beats of a schedule beyond its newest `:most`.
SELECT id
  FROM (SELECT id, outcome, source, dedup_id, created_at FROM beat
         WHERE schedule_id = :schedule ORDER BY due_at DESC, id DESC OFFSET :most) AS older
 WHERE outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay')
                OR starts_with(dedup_id, 'delay:')));

-- name: drop_beats
DELETE FROM beat
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.beat_id = beat.id);

-- name: pending_beats_of_schedules
SELECT id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited FROM beat
 WHERE outcome = 'pending' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id;

-- name: rename_beats
UPDATE beat SET dedup_id = given.dedup_id
  FROM :rows AS given (id bigint, dedup_id text)
 WHERE beat.id = given.id AND NOT EXISTS (
           SELECT 1 FROM beat AS other WHERE other.schedule_id = beat.schedule_id AND other.dedup_id = given.dedup_id);

-- name: last_backfill
SELECT coalesce(max(split_part(dedup_id, '#', 2)::bigint), 0)
  FROM beat WHERE schedule_id = :id AND dedup_id >= 'backfill:' AND dedup_id < 'backfill;' AND dedup_id LIKE '%#%';

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

-- name: matches_beat_filter
(:outcome IS NULL OR outcome = :outcome) AND (:since IS NULL OR last_due_at >= :since)
   AND (:until IS NULL OR due_at < :until) AND (:before IS NULL OR id < :before)
   AND {has_result};

-- name: of_target
(:target IS NULL OR schedule_id IN (SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
                                     WHERE target.name = :target));

-- name: beats_of_schedules
SELECT id FROM beat WHERE schedule_id = ANY(:schedules) AND {matches_beat_filter} ORDER BY id DESC LIMIT :limit;

-- name: spans
-- Beats and runs since a moment, including runs that started before it and are still open.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at, run.id AS run
  FROM beat LEFT JOIN run ON run.beat_id = beat.id
 WHERE beat.schedule_id = ANY(:ids)
   AND (beat.last_due_at >= :since OR coalesce(run.finished_at, :until) >= :since OR beat.outcome = 'running')
   AND beat.due_at < :until
 ORDER BY beat.id DESC LIMIT :limit;

-- name: newest_beats_of
-- The newest beats of each schedule: clock beats by their dedup ids, which begin with the kind and go on with the time,
-- so that the newest are the last in their index; those of events, which have runs, by their runs.
SELECT newest.id FROM unnest(:ids::bigint[]) AS wanted (id) CROSS JOIN unnest(:kinds::text[]) AS kind (word)
 CROSS JOIN LATERAL (SELECT beat.id FROM beat
                      WHERE beat.schedule_id = wanted.id
                        AND beat.dedup_id >= kind.word || ':' AND beat.dedup_id < kind.word || ';'
                      ORDER BY beat.dedup_id DESC LIMIT :limit) AS newest
 UNION
SELECT newest.beat_id FROM unnest(:ids::bigint[]) AS wanted (id)
 CROSS JOIN LATERAL (SELECT run.beat_id FROM run WHERE run.schedule_id = wanted.id
                      ORDER BY run.id DESC LIMIT :limit) AS newest;

-- name: spans_of_runs
-- The newest runs of each schedule that reach into a period, a few of each: one of every second does not hide the others.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at, run.id AS run
  FROM unnest(:ids::bigint[]) AS wanted (id)
 CROSS JOIN LATERAL (SELECT * FROM run WHERE run.schedule_id = wanted.id AND run.id < :before_run
                      ORDER BY run.id DESC LIMIT :each) AS run
  JOIN beat ON beat.id = run.beat_id
 WHERE coalesce(run.finished_at, :since) >= :since
 ORDER BY run.id DESC;

-- name: spans_of_unrun_beats
-- What did not run: skipped, missed and merged instants that reach into a period, and those that wait.
(SELECT schedule_id AS schedule, outcome, due_at, last_due_at, count AS number,
        NULL AS status, NULL::bigint AS started_at, NULL::bigint AS finished_at, NULL::bigint AS run
   FROM beat WHERE outcome IN ('skipped', 'missed', 'merged') AND last_due_at >= :since AND due_at <= :until
           AND schedule_id {in_ids}
  ORDER BY id DESC LIMIT :limit)
 UNION ALL
SELECT schedule_id, outcome, due_at, last_due_at, count, NULL, NULL, NULL, NULL FROM beat
 WHERE outcome = 'pending' AND due_at <= :until AND schedule_id {in_ids};
