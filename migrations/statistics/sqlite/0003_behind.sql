-- The writer of the log keeps the heads of chains in memory and writes no more than the row of an event in the transaction that takes
-- it. What is a function of the log is written behind it, in the transaction that signs the grown tree.

-- The place of the event with id n is n - 1, once the signed tree is that large: ids have no gap.
DROP TABLE leaves;

-- Pages of activity: the events of a source by when they were received, as far as the signed tree reaches.
CREATE TABLE activity (
    source_id INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (source_id, received_at_ms, id)
) STRICT, WITHOUT ROWID;

INSERT INTO activity (source_id, received_at_ms, id)
SELECT source_id, received_at_ms, id FROM events INDEXED BY events_by_source
WHERE id <= COALESCE((SELECT size FROM tree WHERE id = 1), 0)
ORDER BY source_id, received_at_ms, id;

DROP INDEX events_by_source;
