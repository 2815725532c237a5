-- Here the tree needs no index by place: ids of events have no gap and are placed in their order, so the event with id n has
-- the place n - 1. PostgreSQL, where commits overtake each other, has one.
SELECT 1;
