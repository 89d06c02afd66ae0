-- The scan compares every schedule's counters with its pending beats. Few beats wait, so this index is small.
CREATE INDEX beat_pending ON beat (schedule_id) WHERE outcome = 'pending';
