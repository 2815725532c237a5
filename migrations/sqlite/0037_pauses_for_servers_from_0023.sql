-- A pause of recording: until then the effective level is off, whatever levels are recorded. Past times are of no effect.

ALTER TABLE accounts ADD COLUMN paused_until TEXT;
ALTER TABLE machines ADD COLUMN paused_until TEXT;
-- The party that began it, since a computer may end its own pause only.
ALTER TABLE machines ADD COLUMN paused_by TEXT CHECK (paused_by IN ('person', 'agent', 'computer'));
