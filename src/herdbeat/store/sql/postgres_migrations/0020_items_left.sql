-- How many other items the source offered when a run took its own; for the rules of its schedule.
-- Understood by programs of schema 5: they write none, and rules find it missing.
ALTER TABLE work_claim ADD COLUMN items_left bigint;
