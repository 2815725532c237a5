-- The `Idempotency-Key` of the request that created a batch, and SHA-256 of its body. A repeated request finds the batch by the key. They are
-- deleted with the batch; an older batch loses its key when a new request uses the key again.
ALTER TABLE batches ADD COLUMN idempotency_key TEXT;
ALTER TABLE batches ADD COLUMN body_sha256 BLOB;

CREATE UNIQUE INDEX batches_by_idempotency_key ON batches (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
