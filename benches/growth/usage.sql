-- One pass of counting: the usage of 256 computers on the newest day.
\set first random(1, :computers - 256)
INSERT INTO usage_days (user_cuid, machine_uuid, day, memory, retrospectives)
    SELECT user_cuid, machine_uuid, 20029, 1, 0 FROM (SELECT 'c' || substr(md5('u' || n), 1, 23) AS user_cuid, md5('m' || n)::UUID AS machine_uuid
        FROM generate_series(:first, :first + 255) n ORDER BY 1, 2) r
    ON CONFLICT (user_cuid, machine_uuid, day) DO UPDATE SET memory = usage_days.memory + excluded.memory,
        retrospectives = usage_days.retrospectives + excluded.retrospectives;
