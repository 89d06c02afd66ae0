-- What people ask of single beats. A wish to let the next ones pass stands on the schedule until it is used up; a beat
-- that somebody runs again knows who, and the run remembers its own cause beside the beat's.
ALTER TABLE schedule ADD COLUMN skips INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedule ADD COLUMN skips_by TEXT NOT NULL DEFAULT '';
ALTER TABLE schedule ADD COLUMN skips_reason TEXT NOT NULL DEFAULT '';
CREATE INDEX schedule_skips ON schedule (id) WHERE skips > 0;
ALTER TABLE beat ADD COLUMN retried_by TEXT;
ALTER TABLE run ADD COLUMN source TEXT;
ALTER TABLE run ADD COLUMN origin TEXT;
