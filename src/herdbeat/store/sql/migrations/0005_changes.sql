-- Who changed what is asked by its subject; the hints of a schedule are counted and trimmed at every new one.
CREATE INDEX change_subject ON change (subject, id);
CREATE INDEX hint_schedule ON hint (schedule_id, id);
