-- Statements on episodes in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: live_episodes
-- One node at a time tells: others wait for its transaction.
SELECT {episode_columns} FROM episode WHERE {is_live_episode} ORDER BY id FOR UPDATE;

-- name: open_episodes
INSERT INTO episode (channel, condition, subject, detail, began_at, schedule_id, opened_at)
SELECT channel, condition, subject, detail, began_at, schedule_id, :now
  FROM :rows AS given (channel text, condition text, subject text, detail text, began_at bigint, schedule_id bigint)
 WHERE NOT {has_reported_missed}
    ON CONFLICT DO NOTHING;

-- name: change_episodes
UPDATE episode SET detail = given.detail, clear_since = given.clear_since, ended_at = given.ended_at,
                   told_at = given.told_at, end_told_at = given.end_told_at, acked_by = given.acked_by,
                   snoozed_until = given.snoozed_until
  FROM :rows AS given (id bigint, detail text, clear_since bigint, ended_at bigint, told_at bigint, end_told_at bigint,
                       acked_by text, snoozed_until bigint)
 WHERE episode.id = given.id;

-- name: unstarted_of
{unstarted_beat} AND beat.id = ANY(:ids) ORDER BY beat.id;

-- name: unstarted_of_schedules
{unstarted_beat} AND schedule.id = ANY(:ids) ORDER BY beat.id;
