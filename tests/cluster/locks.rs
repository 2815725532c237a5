//! Rows that another session has locked: an operator in a shell, or a process that has ended.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::load::lock;
use crate::world::{Differences, World};

/// The computer with locked chains.
const LOCKED: usize = 0;

/// Rows on which no chain depends.
const SHARED: [&str; 3] = [
    "SELECT * FROM held_totals FOR UPDATE",
    "SELECT * FROM statistics.tree FOR UPDATE",
    "SELECT * FROM statistics.sequencer FOR UPDATE",
];

#[tokio::test(flavor = "multi_thread")]
async fn soak_locked_rows_delay_only_the_chains_that_are_locked() {
    let Some(database) = harness::postgres::database().await else { return };
    let mut world = World::begin(&database.url, Differences::default()).await;
    let mut stranger = PgConnection::connect(&database.url).await.unwrap();
    let machine: Uuid = lock(&world.load.shared.ledger).machines[LOCKED].uuid.parse().unwrap();
    let heads = format!("SELECT * FROM statistics.chain_heads WHERE machine_id = '{machine}' FOR UPDATE");
    for _ in 0..world.scale.rounds {
        for rows in SHARED.iter().copied().chain([heads.as_str()]) {
            let of_a_chain = rows == heads;
            if of_a_chain {
                *lock(&world.load.shared.locked) = Some(LOCKED);
            }
            stranger.execute("BEGIN").await.unwrap();
            stranger.execute(AssertSqlSafe(rows.to_owned())).await.unwrap();
            world.traffic(world.scale.fault / 2).await;
            stranger.execute("ROLLBACK").await.unwrap();
            world.traffic(world.scale.calm).await;
            world.assert_available(rows);
            *lock(&world.load.shared.locked) = None;
        }
    }
    world.end("locked rows").await;
}
