-- A level for all computers is one record for each identity of an account. An identity that was linked after a level had been set has no
-- record of it: it gets the newest one of its account, with its author and its time. From this version on it gets them when it is linked.

INSERT INTO consent_levels (user_cuid, machine_uuid, lane, level, reason, changed_at, set_by)
SELECT i.user_cuid, NULL, n.lane, n.level, n.reason, n.changed_at, n.set_by
FROM identities i
JOIN (
    SELECT o.account_id, c.lane, c.level, c.reason, c.changed_at, c.set_by,
        ROW_NUMBER() OVER (PARTITION BY o.account_id, c.lane ORDER BY c.changed_at DESC, c.user_cuid) AS place
    FROM identities o JOIN consent_levels c ON c.user_cuid = o.user_cuid
    WHERE o.account_id IS NOT NULL AND c.machine_uuid IS NULL AND c.set_by <> 'computer'
) n ON n.account_id = i.account_id AND n.place = 1
WHERE NOT EXISTS (
    SELECT 1 FROM consent_levels own
    WHERE own.user_cuid = i.user_cuid AND own.machine_uuid IS NULL AND own.set_by <> 'computer'
        AND own.lane IS NOT DISTINCT FROM n.lane);
