-- The node that has a lease. A lease of a node that is not in the table of nodes has ended.
ALTER TABLE webhooks ADD COLUMN leased_by UUID;
ALTER TABLE mails ADD COLUMN leased_by UUID;

CREATE INDEX webhooks_leased ON webhooks (leased_by) WHERE lease IS NOT NULL;
CREATE INDEX mails_leased ON mails (leased_by) WHERE leased_by IS NOT NULL;
