-- A computer may ask with its code that an agent on it be confirmed too. The registration may be gone when a person answers.

ALTER TABLE device_codes ADD COLUMN agent_registration BLOB;
-- The tool whose agent it is; null without a registration.
ALTER TABLE device_codes ADD COLUMN agent_tool TEXT;
