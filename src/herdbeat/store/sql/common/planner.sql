-- Statements on the planner. Both dialects understand them.

-- name: add_planner_group
INSERT INTO planner_group (name, next_at) VALUES (:group_name, :now) ON CONFLICT (name) DO NOTHING;

-- name: planner_group_due
SELECT next_at FROM planner_group WHERE name = :group_name;

-- name: take_planner_group
-- Of two nodes one takes it: the other finds another time.
UPDATE planner_group SET next_at = :until WHERE name = :group_name AND next_at <= :now;

-- name: set_planner_group
UPDATE planner_group SET next_at = :next_at WHERE name = :group_name;

-- name: add_planner_session
INSERT INTO planner_session (group_name, model, status, started_at, finished_at, next_at, input_tokens, output_tokens,
                             usd, record)
VALUES (:group_name, :model, :status, :started_at, :finished_at, :next_at, :input_tokens, :output_tokens, :usd, :record);

-- name: drop_planner_sessions
DELETE FROM planner_session WHERE started_at < :before;

-- name: list_planner_sessions
SELECT id, group_name, model, status, started_at, finished_at, next_at, input_tokens, output_tokens, usd, record
  FROM planner_session
 WHERE (:group_name = '' OR group_name = :group_name) AND (:id = 0 OR id = :id) AND (:before = 0 OR id < :before)
 ORDER BY id DESC
 LIMIT :limit;

-- name: planner_usage
SELECT count(*), coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(usd), 0.0)
  FROM planner_session
 WHERE started_at >= :since AND status <> 'skipped';
