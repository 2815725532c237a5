-- A computer may ask for a key of the knowledge API along with its attachment. It makes the key itself; only the hash comes here.

ALTER TABLE device_codes ADD COLUMN key_hash BYTEA;
-- Words with commas between them; null without a hash.
ALTER TABLE device_codes ADD COLUMN key_scopes TEXT;

-- The computer that has the key, which ends with its attachment; null for keys that a person or an operator made.
ALTER TABLE api_keys ADD COLUMN machine_uuid UUID;
CREATE INDEX api_keys_by_machine ON api_keys (machine_uuid) WHERE machine_uuid IS NOT NULL;
