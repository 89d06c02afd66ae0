-- Statements on changes in SQLite's own words. Those of the other dialect have the same names.

-- name: add_changes
INSERT INTO change (id, at, who, what, subject, before, after)
SELECT (SELECT id FROM last_id WHERE kind = 'change') + 1 + key,
       value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows);
