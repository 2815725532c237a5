//! Tests that depend on PostgreSQL, on each version of it: migrations and sessions, locks, queues, searches.

harness::on_each_postgres_version!(
    "accounts::",
    "acts::",
    "connections::",
    "held::",
    "installation::",
    "nodes::",
    "outbox::",
    "chunks::",
    "tokens::",
    "webhooks::",
);
