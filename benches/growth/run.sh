#!/bin/sh
# Measures the log's statements on PostgreSQL at a size: run.sh EVENTS [COMPUTERS], with PGHOST, PGPORT and PGUSER of a cluster that may be
# filled. It needs about 550 bytes of disk per event, makes the database growth_EVENTS, and drops it at the end unless KEEP=1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
events=$1
computers=${2:-$((events / 100))}
seconds=${SECONDS_EACH:-20}
database=growth_$events
createdb "$database"
for migration in "$here"/../../migrations/statistics/postgres/*.sql; do
    psql -qX -v ON_ERROR_STOP=1 -d "$database" -f "$migration" >/dev/null
done
begun=$(date +%s)
psql -qX -d "$database" -v events="$events" -v computers="$computers" -f "$here/load.sql" >/dev/null
echo "events=$events computers=$computers load_seconds=$(($(date +%s) - begun))"
psql -XAtq -d "$database" -F ' ' -c "SELECT relname, pg_relation_size(oid) AS heap, pg_indexes_size(oid) AS indexes,
    round(pg_total_relation_size(oid)::NUMERIC / $events, 1) AS bytes_per_event
    FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::REGNAMESPACE AND pg_total_relation_size(oid) > 65536"
psql -XAtq -d "$database" -F ' ' -c "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relkind IN ('i', 'I')
    AND relname IN ('events_pkey', 'events_event_id_key', 'events_by_source', 'leaves_pkey', 'leaves_by_place', 'tiles_pkey')"
waiting() {
    psql -XAtq -d "$database" -c "SELECT count(*) FROM unsequenced"
}
for script in proof page append usage; do
    for clients in 1 8; do
        # Usage is counted by one node at a time.
        [ "$script$clients" = usage8 ] && continue
        before=$(waiting)
        # The server keeps one plan of each statement; of the literals of the script PostgreSQL would make another at each call.
        figures=$(PGOPTIONS='-c plan_cache_mode=force_generic_plan' pgbench -n -M prepared -f "$here/$script.sql" -c "$clients" -j 2 -T "$seconds" \
            -D "events=$events" -D "computers=$computers" "$database" | grep -E 'latency average|^tps' | tr '\n' ' ')
        echo "$script clients=$clients $figures appended=$((($(waiting) - before) / seconds))/s"
    done
done
passes=$(($(waiting) / 256))
echo "sequence passes=$passes $(pgbench -n -f "$here/sequence.sql" -c 1 -t "$((passes < 200 ? passes : 200))" "$database" | grep 'latency average')"
# What the janitor does with one batch of days that no window reaches.
psql -XAtq -d "$database" -c "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) DELETE FROM usage_days WHERE (user_cuid, machine_uuid, day) IN
    (SELECT user_cuid, machine_uuid, day FROM usage_days WHERE day >= 0 AND day < 20002 ORDER BY day LIMIT 1000)" | grep 'Execution Time'
[ "${KEEP:-0}" = 1 ] || dropdb "$database"
