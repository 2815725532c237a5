-- Further facts of the same kind that a notification stands for.

ALTER TABLE webhook_deliveries ADD COLUMN more BIGINT NOT NULL DEFAULT 0;
ALTER TABLE feed_entries ADD COLUMN more BIGINT NOT NULL DEFAULT 0;
