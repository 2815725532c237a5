-- The sum stays in one row: SQLite has one writer. On PostgreSQL it is that of many rows, so that no transaction waits for another.
SELECT 1;
