-- The sum of charged_bytes of what is held is that of all rows: a transaction adds to any row that no other transaction has locked, or to a
-- new one. There are as many rows as transactions at once have needed. Part of a sender: held_senders, which is locked first.
ALTER TABLE held_totals DROP CONSTRAINT held_totals_id_check;
