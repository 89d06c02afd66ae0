-- Statements on plans in SQLite's own words. Those of the other dialect have the same names.

-- name: add_plans
INSERT OR IGNORE INTO plan (text) SELECT value FROM json_each(:rows);

-- name: known_plans
SELECT json_group_array(json_array(plan.text, plan.id)) FROM json_each(:rows) JOIN plan ON plan.text = value;

-- name: unused_plans
-- The newest stays: its id must not be given to another plan while a cache still holds the old one.
SELECT json_group_array(id)
  FROM (SELECT id FROM plan WHERE id <> (SELECT max(id) FROM plan)
        EXCEPT SELECT plan_id FROM schedule LIMIT :limit);

-- name: drop_plans
DELETE FROM plan WHERE id IN (SELECT value FROM json_each(:rows)) AND id NOT IN (SELECT plan_id FROM schedule);

-- name: plans_with_tags_or_groups
-- Schedules share plans, so there are few. A plan that cannot be read has no tags.
SELECT id FROM plan
 WHERE json_valid(text)
   AND (json_extract(text, '$.policies.group') IN (SELECT value FROM json_each(:groups))
        OR EXISTS (SELECT 1 FROM json_each(text, '$.policies.tags') AS tag
                    WHERE tag.value IN (SELECT value FROM json_each(:tags))));

-- name: known_tags_and_groups
SELECT DISTINCT tag.value FROM plan, json_each(plan.text, '$.policies.tags') AS tag WHERE json_valid(plan.text)
 UNION SELECT json_extract(text, '$.policies.group') FROM plan
        WHERE json_valid(text) AND json_extract(text, '$.policies.group') IS NOT NULL;
