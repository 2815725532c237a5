//! Acts of an administrator of the database while nodes serve: a fail-over to a standby, and settings of the role that weaken promises.

use sqlx::{Connection, PgConnection};

use crate::world::{Differences, World};

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_standby_that_is_promoted_has_every_acknowledged_event() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let mut world = World::begin(&cluster.url, Differences::default()).await;
    let standby = cluster.standby();
    cluster.waits_for_standby().await;
    world.traffic(world.scale.calm).await;
    world.touch();
    cluster.stop("immediate");
    standby.promote();
    for node in &world.nodes {
        node.relay.leads_to(&standby.url);
    }
    world.all_recover("the standby was promoted").await;
    world.traffic(world.scale.fault).await;
    world.database.clone_from(&standby.url);
    world.end("a standby was promoted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_settings_of_the_role_weaken_no_promise() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let mut world = World::begin(&cluster.url, Differences::default()).await;
    for _ in 0..world.scale.rounds {
        for (setting, value) in
            [("default_transaction_read_only", "on"), ("search_path", "nowhere"), ("synchronous_commit", "off")]
        {
            world.touch();
            administer(&cluster.url, &format!("ALTER ROLE postgres SET {setting} = '{value}'")).await;
            // Sessions of before have the values of before.
            let sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
            administer(&cluster.url, sessions).await;
            world.all_recover(&format!("{setting} = {value} became the default of the role")).await;
            world.traffic(world.scale.calm).await;
            world.touch();
            // An event that was acknowledged without a flush is lost by this.
            cluster.stop("immediate");
            cluster.start();
            world.all_recover("PostgreSQL restarted").await;
            administer(&cluster.url, &format!("ALTER ROLE postgres RESET {setting}")).await;
        }
    }
    world.end("settings of the role").await;
}

async fn administer(url: &str, statement: &str) {
    // The poisoned default is the administrator's, too.
    let mut connection =
        PgConnection::connect(&format!("{url}?options[default_transaction_read_only]=off")).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
