-- Statements on episodes in SQLite's own words. Those of the other dialect have the same names.

-- name: live_episodes
SELECT json_group_array(json_array({episode_columns})) FROM episode WHERE {is_live_episode};

-- name: open_episodes
INSERT INTO episode (channel, condition, subject, detail, began_at, schedule_id, opened_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now FROM json_each(:rows) WHERE true
    ON CONFLICT DO NOTHING;

-- name: change_episodes
UPDATE episode SET detail = value ->> 1, clear_since = value ->> 2, ended_at = value ->> 3, told_at = value ->> 4,
                   end_told_at = value ->> 5, acked_by = value ->> 6, snoozed_until = value ->> 7
  FROM json_each(:rows) WHERE episode.id = value ->> 0;

-- name: unstarted_of
{unstarted_beat} AND beat.id IN (SELECT value FROM json_each(:ids)) ORDER BY beat.id;
