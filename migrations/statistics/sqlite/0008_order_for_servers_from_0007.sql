-- In an SQLite file one writer gives rows their numbers, in the order of every chain.
SELECT 1;
