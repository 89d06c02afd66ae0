-- Ways to what people ask for, and to what is due beside a crowd. A beat that runs and succeeds enters none of the
-- partial ones, so they cost it nothing.

-- A turn passes by the crowd of a full target by reading the index alone.
DROP INDEX schedule_wake;
CREATE INDEX schedule_wake ON schedule (wake_at, id, target_id) WHERE wake_at IS NOT NULL;

-- By its end: a row of skips or misses that began long ago may reach until now.
DROP INDEX beat_time;
CREATE INDEX beat_time ON beat (last_due_at);

CREATE INDEX beat_unusual ON beat (outcome) WHERE outcome IN ('skipped', 'missed', 'merged');
CREATE INDEX run_unusual ON run (status) WHERE status NOT IN ('running', 'succeeded');
