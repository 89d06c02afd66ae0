-- Statements on episodes in SQLite's own words. Those of the other dialect have the same names.

-- name: live_episodes
SELECT json_group_array(json_array({episode_columns})) FROM episode WHERE {is_live_episode};

-- name: open_episodes
INSERT INTO episode (channel, condition, subject, detail, began_at, schedule_id, opened_at)
SELECT channel, condition, subject, detail, began_at, schedule_id, :now
  FROM (SELECT value ->> 0 AS channel, value ->> 1 AS condition, value ->> 2 AS subject, value ->> 3 AS detail,
               value ->> 4 AS began_at, value ->> 5 AS schedule_id FROM json_each(:rows)) AS given
 WHERE NOT {has_reported_missed}
    ON CONFLICT DO NOTHING;

-- name: change_episodes
UPDATE episode SET detail = value ->> 1, clear_since = value ->> 2, ended_at = value ->> 3, told_at = value ->> 4,
                   end_told_at = value ->> 5, acked_by = value ->> 6, snoozed_until = value ->> 7
  FROM json_each(:rows) WHERE episode.id = value ->> 0;

-- name: unstarted_of
{unstarted_beat} AND beat.id IN (SELECT value FROM json_each(:ids)) ORDER BY beat.id;

-- name: unstarted_of_schedules
{unstarted_beat} AND schedule.id IN (SELECT value FROM json_each(:ids)) ORDER BY beat.id;
