-- Levels of consent remember who set them. A computer's level of itself is a row beside its person's, and the lower of the two is in force.

ALTER TABLE consent_levels
    ADD COLUMN set_by TEXT NOT NULL DEFAULT 'person' CHECK (set_by IN ('person', 'agent', 'computer'));

DROP INDEX consent_levels_scope;
CREATE UNIQUE INDEX consent_levels_scope ON consent_levels (
    user_cuid, COALESCE(machine_uuid, '00000000-0000-0000-0000-000000000000'), COALESCE(lane, ''), (set_by = 'computer')
);

-- Who set a level of a single computer was not recorded, and both could. The level counts as the computer's where that records less than
-- counting it as the person's: a computer's level cannot exceed a baseline, and a person's lower level cannot be raised by the computer.
UPDATE consent_levels SET set_by = 'computer'
WHERE machine_uuid IS NOT NULL
    AND (level = 'full' OR (level = 'metadata-only' AND EXISTS (
        SELECT 1 FROM consent_levels b
        WHERE b.user_cuid = consent_levels.user_cuid AND b.machine_uuid IS NULL AND b.level = 'off')));
