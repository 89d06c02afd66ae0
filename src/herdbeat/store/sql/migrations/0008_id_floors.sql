-- Ids are never reused, also after the newest rows were deleted: people, programs and logs remember them. The highest id
-- that was ever deleted stays in `meta`. Written only for the newest row, so that pruning old rows costs one look.
CREATE TRIGGER beat_id_floor AFTER DELETE ON beat
  WHEN NOT EXISTS (SELECT 1 FROM beat WHERE id > OLD.id)
BEGIN
    INSERT INTO meta (key, value) VALUES ('beat_id_floor', OLD.id)
        ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), OLD.id);
END;
CREATE TRIGGER run_id_floor AFTER DELETE ON run
  WHEN NOT EXISTS (SELECT 1 FROM run WHERE id > OLD.id)
BEGIN
    INSERT INTO meta (key, value) VALUES ('run_id_floor', OLD.id)
        ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), OLD.id);
END;
CREATE TRIGGER change_id_floor AFTER DELETE ON change
  WHEN NOT EXISTS (SELECT 1 FROM change WHERE id > OLD.id)
BEGIN
    INSERT INTO meta (key, value) VALUES ('change_id_floor', OLD.id)
        ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), OLD.id);
END;

-- The highest ids that were ever given.
CREATE VIEW last_id AS
SELECT 'beat' AS kind, max(coalesce((SELECT max(id) FROM beat), 0),
                           coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'beat_id_floor'), 0)) AS id
 UNION ALL
SELECT 'run', max(coalesce((SELECT max(id) FROM run), 0),
                  coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'run_id_floor'), 0))
 UNION ALL
SELECT 'change', max(coalesce((SELECT max(id) FROM change), 0),
                     coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'change_id_floor'), 0));
