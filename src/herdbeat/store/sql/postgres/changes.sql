-- Statements on changes in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: add_changes
INSERT INTO change (at, who, what, subject, before, after)
SELECT at, who, what, subject, before, after
  FROM :rows AS given (at bigint, who text, what text, subject text, before text, after text);
