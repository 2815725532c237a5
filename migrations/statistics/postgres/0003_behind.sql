-- On PostgreSQL several processes append side by side, so heads, places and the index of activity are written with the events.
SELECT 1;
