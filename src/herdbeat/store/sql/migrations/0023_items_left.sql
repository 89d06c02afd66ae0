-- How many other items the source offered when a run took its own; for the rules of its schedule.
ALTER TABLE work_claim ADD COLUMN items_left INTEGER;
