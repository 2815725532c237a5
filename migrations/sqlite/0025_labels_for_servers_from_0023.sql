-- Names that an account gives to its computers and agents. They belong to the account: another account that attaches the same computer does not
-- see them.

ALTER TABLE attachments ADD COLUMN label TEXT;
ALTER TABLE registrations ADD COLUMN label TEXT;
