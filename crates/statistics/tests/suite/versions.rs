//! Appends, the tree and its proofs, on each version of PostgreSQL.

harness::on_each_postgres_version!("audit::", "days::", "epoch::", "log::", "tiles::", "tree::", "usage::");
