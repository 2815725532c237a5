-- Sign-in codes are counted by the network that asks, and each works in its own browser until that one asks again: what somebody elsewhere
-- does to an address cannot keep its owner out.

ALTER TABLE signin_tickets ADD COLUMN network TEXT;
DROP INDEX signin_tickets_live;
