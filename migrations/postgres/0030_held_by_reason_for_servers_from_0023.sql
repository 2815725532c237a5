-- The operator's page counts held events by reason, from this index alone.

CREATE INDEX held_events_by_reason ON held_events (reason, received_at) WHERE state = 'held';
