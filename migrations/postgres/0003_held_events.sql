-- Events that were acknowledged but not forwarded.

CREATE TABLE held_events (
    id UUID PRIMARY KEY,
    -- machine:<uuid>, registration:<id> or account:<id>: whose credential brought it.
    sender TEXT NOT NULL,
    registration_id UUID,
    machine_uuid UUID,
    -- Whose list shows it; null while nobody claimed the registration, and for computers, whose account may change.
    account_id TEXT,
    user_cuid TEXT,
    -- What could be named of the event.
    event_id UUID,
    event_type TEXT,
    agent_id TEXT,
    event_machine_uuid UUID,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    -- Null when it must not be kept, and once the entry is no longer held.
    body BYTEA,
    body_sha256 BYTEA NOT NULL,
    body_bytes BIGINT NOT NULL,
    -- What it counts against the quotas.
    charged_bytes BIGINT NOT NULL,
    seal BYTEA,
    received_at TIMESTAMPTZ NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('held', 'released', 'discarded')),
    state_at TIMESTAMPTZ,
    receipt_id UUID,
    CHECK ((state = 'held') = (state_at IS NULL))
);

-- The same bytes from the same sender are one entry while they are held. Event ids grow with time, digests do not: the
-- one index is written at its end, the other all over, so it holds only what could not be named.
CREATE UNIQUE INDEX held_events_event ON held_events (event_id, sender, body_sha256)
    WHERE state = 'held' AND event_id IS NOT NULL;
CREATE UNIQUE INDEX held_events_body ON held_events (sender, body_sha256) WHERE state = 'held' AND event_id IS NULL;
CREATE INDEX held_events_by_machine ON held_events (machine_uuid, id) WHERE state = 'held' AND machine_uuid IS NOT NULL;
CREATE INDEX held_events_by_account ON held_events (account_id, id) WHERE state = 'held' AND account_id IS NOT NULL;
CREATE INDEX held_events_by_registration ON held_events (registration_id, received_at, charged_bytes)
    WHERE registration_id IS NOT NULL;
CREATE INDEX held_events_by_end ON held_events (state_at) WHERE state_at IS NOT NULL;

-- The sum of charged_bytes of what is held. Whoever changes what is held changes this row first, so that sums and quotas
-- are exact between processes.
CREATE TABLE held_totals (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    bytes BIGINT NOT NULL
);

INSERT INTO held_totals (id, bytes) VALUES (1, 0);
