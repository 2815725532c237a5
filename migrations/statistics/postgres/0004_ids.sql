-- Ids stay in the unique index of the table: several nodes append side by side, and the database judges between them.
SELECT 1;
