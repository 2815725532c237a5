//! Nodes of two versions on one database: an upgrade of one node after the other, and its undoing.

use std::path::{Path, PathBuf};

use sqlx::PgConnection;

use crate::world::{Differences, NODES, World};

/// Names the program of the version before; see `docs/operations.md`, *Upgrade and downgrade of several nodes*.
const OLDER: &str = "ATTACHE_OLD_BINARY";

/// The older program has to be built from its own commit, so a run without it skips this test.
#[tokio::test(flavor = "multi_thread")]
async fn soak_nodes_of_two_versions_serve_together_until_and_after_the_upgrade_is_undone() {
    let Some(older) = std::env::var_os(OLDER).map(PathBuf::from) else {
        eprintln!("SKIPPED: {OLDER} is not set: this test has shown nothing");
        return;
    };
    let newer = PathBuf::from(blackbox::process::program());
    let Some(database) = harness::postgres::empty_database().await else { return };
    let differences = Differences { program: Some(older.clone()), ..Differences::default() };
    let mut world = World::begin(&database.url, differences).await;
    let mut connection = harness::postgres::connect(&database.url).await;
    let rows = schema(&mut connection).await;
    for node in 0..NODES {
        replace(&mut world, node, &newer).await;
        if node == 0 {
            eprintln!("schema {rows} of the older version, {} of this one", schema(&mut connection).await);
        }
    }
    for node in 0..NODES {
        replace(&mut world, node, &older).await;
    }
    world.traffic(world.scale.calm).await;
    world.end("two versions").await;
}

/// Ends a node and starts it with another program at the same address, with traffic on all nodes before and after.
async fn replace(world: &mut World, node: usize, program: &Path) {
    world.traffic(world.scale.calm).await;
    world.nodes[node].touch();
    world.nodes[node].terminate().await;
    world.nodes[node].home.run_program(program);
    world.nodes[node].start().await;
    let recovered = world.recovers(node).await;
    eprintln!("node {node} runs {} and took an event {recovered:.1?} after it was ready", program.display());
}

/// The newest migration of the main tables.
async fn schema(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(connection).await.unwrap()
}
