-- Numbers grow in the order of each chain only if no session takes several at once.
ALTER TABLE events ALTER COLUMN id SET CACHE 1;

-- The number of the event before it in its chain; null for the first one of a chain, and for those of servers without this column.
-- An event gets its place after that event, whatever the two numbers are.
ALTER TABLE unsequenced ADD COLUMN follows BIGINT;
