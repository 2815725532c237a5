-- What a credential did stays within its bounds: what an agent confirmed ends with the agent, and a key for certain spaces changes nothing
-- outside them.

-- The agent whose token confirmed the claim; null when its person did, in a browser.
ALTER TABLE registrations ADD COLUMN claimed_by BLOB REFERENCES registrations (id);
CREATE INDEX registrations_by_confirmer ON registrations (claimed_by) WHERE claimed_by IS NOT NULL;

-- The agent whose token approved the attachment that the computer has; null when its person did, or an operator.
ALTER TABLE machines ADD COLUMN attached_by BLOB REFERENCES registrations (id);
CREATE INDEX machines_by_approver ON machines (attached_by) WHERE attached_by IS NOT NULL;

-- A batch that a key for certain spaces sent changes nothing outside them: a JSON array of their ids; null when the sender reaches every space.
ALTER TABLE batches ADD COLUMN key_spaces TEXT;
