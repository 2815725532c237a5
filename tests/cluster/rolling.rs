//! A node that joins and a restart of all nodes, one after the other, behind a balancer that sends each request once.

use std::time::Duration;

use harness::balancer::Balancer;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::load::lock;
use crate::world::{Differences, World};

/// Pause between two checks of a node's health by the balancer.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// Time for which a node that was asked to end still serves: several checks of the balancer.
const LAME_DUCK: &str = "3s";
/// Requests during the restarts of a soak at least.
const REQUESTS_MIN: usize = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_rolling_restart_refuses_no_request() {
    let Some(database) = harness::postgres::database().await else { return };
    let settings = vec![("shutdown.lame_duck", LAME_DUCK.to_owned())];
    let mut world = World::begin(&database.url, Differences { settings, ..Differences::default() }).await;
    let address = world.balancer();
    let balancer = Balancer::start(address, CHECK_EVERY).await;
    for node in &world.nodes {
        balancer.add(node.public, node.operator);
    }
    for node in 0..world.nodes.len() {
        healthy(&mut world, &balancer, node).await;
        world.nodes[node].touch();
    }
    *lock(&world.load.shared.balancer) = Some(format!("http://{address}"));

    let joined = world.join().await;
    balancer.add(world.nodes[joined].public, world.nodes[joined].operator);
    healthy(&mut world, &balancer, joined).await;
    let mut rounds = 0;
    while rounds < world.scale.rounds || world.scale.soak && lock(&world.load.shared.refused).1 < REQUESTS_MIN {
        rounds += 1;
        for node in 0..world.nodes.len() {
            world.traffic(world.scale.calm).await;
            world.nodes[node].terminate().await;
            if rounds == 1 && node == 0 {
                upgrade(&database.url).await;
            }
            world.nodes[node].start().await;
            healthy(&mut world, &balancer, node).await;
        }
    }
    world.traffic(world.scale.calm).await;
    let (refused, taken) = lock(&world.load.shared.refused).clone();
    let answered = balancer.answered();
    eprintln!("{taken} requests acknowledged and {} not, {rounds} restarts of each of {answered:?}", refused.len());
    for refused in refused.iter().take(20) {
        eprintln!("{refused}");
    }
    assert!(answered.iter().all(|answered| *answered > 0), "a node got no request: {answered:?}");
    if world.scale.soak {
        assert_eq!(refused.len(), 0, "of {taken} requests, none may be refused");
    } else {
        // While other tests run, a node may be too busy for a request, or the balancer for a check.
        assert!(refused.len() <= taken / 50, "{} of {taken} requests were refused", refused.len());
    }
    world.end("rolling restart").await;
}

/// Writes the rows that a newer version leaves after it migrated both schemas for servers of this version too and its upgrade was undone.
async fn upgrade(database: &str) {
    const MIGRATED: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        SELECT version + 1, 'later for servers from ' || version, success, checksum, 0 FROM _sqlx_migrations
        WHERE version = (SELECT MAX(version) FROM _sqlx_migrations);";
    let mut connection = PgConnection::connect(database).await.unwrap();
    let both =
        format!("ALTER TABLE heartbeat ADD COLUMN later BIGINT; {MIGRATED} SET search_path TO statistics; {MIGRATED}");
    sqlx::raw_sql(AssertSqlSafe(both)).execute(&mut connection).await.unwrap();
}

/// Waits until the balancer sends requests to the node.
async fn healthy(world: &mut World, balancer: &Balancer, node: usize) {
    let public = world.nodes[node].public;
    let deadline = std::time::Instant::now() + blackbox::TIME_LIMIT;
    while !balancer.is_healthy(public) {
        assert!(std::time::Instant::now() < deadline, "{public} does not become healthy");
        world.traffic(Duration::from_millis(20)).await;
    }
}
