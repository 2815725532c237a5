-- What an agent that was confirmed on the page of its computer may do for its person: names between commas. Null: what the protocol gives
-- account bearers.
ALTER TABLE registrations ADD COLUMN rights TEXT;
