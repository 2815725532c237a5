-- Notifications that got no row, because too many waited for the endpoint already: their number, and the time of the last one.
ALTER TABLE webhooks ADD COLUMN dropped BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks ADD COLUMN dropped_at TIMESTAMPTZ;
