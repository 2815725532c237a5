//! Measures the hot paths of the store: `cargo run --release -p attache-store --example measure [postgres://…]`.
use std::time::Instant;

use domain::consent::{ConsentLevel, ConsentRule};
use domain::envelope::Outline;
use domain::held::HoldReason;
use domain::ids::MachineUuid;
use domain::secret::{Secret, SecretKind};
use domain::{Chance, Clock, Digest};
use store::held::{HeldQuotas, NewHeld, Sender};
use store::machine::NewMachine;
use store::{DatabaseSettings, Store, on_reader};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let folder = tempfile::tempdir_in(".")?;
    let settings = DatabaseSettings { url, ..DatabaseSettings::default() };
    let store = Store::open(&settings, &folder.path().join("m.db")).await?;
    store.migrate().await?;
    let chance = Chance::seeded(7);
    let now = Clock::system().now();
    let mut secrets = vec![];
    for i in 0..1000 {
        let cuid = chance.cuid2().parse()?;
        let secret = Secret::mint(SecretKind::Machine, &chance).hash();
        let new = NewMachine { machine_uuid: chance.uuid_v7(now).into(), user_cuid: &cuid, name: None, secret };
        store.machine_register(&new, now).await?;
        if i % 2 == 0 {
            let rule = ConsentRule { machine: None, lane: None, level: ConsentLevel::Full };
            store.consent_set(&[cuid], &rule, None, now).await?;
        }
        secrets.push(secret);
    }
    let pool = store.pool().clone();
    if let Ok(sql) = std::env::var("TAMPER") {
        store::on_writer!(&pool, |db| async { sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(db).await.map(drop) })?;
    }
    let cpu = || std::fs::read_to_string("/proc/self/stat").unwrap().split(' ').skip(13).take(2).map(|t| t.parse::<f64>().unwrap()).sum::<f64>() / 100.0;
    for round in 0..if std::env::var("HELD").is_ok() { 0 } else { 3 } {
        let n = 20_000_u32;
        let begin = Instant::now();
        for _ in 0..n {
            let _: i64 = on_reader!(&pool, |db| sqlx::query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(db))?;
        }
        println!("{round} SELECT 1, sequential: {:.1} us", begin.elapsed().as_secs_f64() * 1e6 / f64::from(n));
        let begin = Instant::now();
        for i in 0..n {
            assert!(store.machine_by_secret(&secrets[i as usize % secrets.len()]).await?.is_some());
        }
        println!("{round} machine_by_secret, sequential: {:.1} us", begin.elapsed().as_secs_f64() * 1e6 / f64::from(n));
        for tasks in [8_u32, 64] {
            let begin = Instant::now();
            let mut set = tokio::task::JoinSet::new();
            for task in 0..tasks {
                let (store, secrets) = (store.clone(), secrets.clone());
                set.spawn(async move {
                    for i in 0..n / tasks {
                        store.machine_by_secret(&secrets[(task * 31 + i) as usize % secrets.len()]).await.unwrap();
                    }
                });
            }
            set.join_all().await;
            println!("{round} machine_by_secret, {tasks} tasks: {:.0}/s", f64::from(n) / begin.elapsed().as_secs_f64());
        }
    }
    let senders: Vec<Sender> = (0..64).map(|_| Sender::Machine(MachineUuid::from(chance.uuid_v7(now)))).collect();
    store::on_writer!(&pool, |db| async { sqlx::query("CREATE TABLE IF NOT EXISTS floor (body BYTEA)").execute(db).await.map(drop) })?;
    let mut clock = now;
    for round in 0..3 {
        for batch in [1_usize, 16, 32, 64, 256] {
            let rounds = if batch == 1 { 1000 } else { 10_000 / batch };
            let mut all = vec![];
            for _ in 0..rounds {
                let new: Vec<NewHeld> = (0..batch)
                    .map(|i| {
                        clock += chrono::TimeDelta::milliseconds(1);
                        let mut body = vec![b'x'; 1100];
                        body[..32].copy_from_slice(&chance.bytes::<32>());
                        NewHeld {
                            id: chance.uuid_v7(clock).into(),
                            sender: senders[i % 64].clone(),
                            account: None,
                            user_cuid: None,
                            outline: Outline { event_id: Some(chance.uuid_v7(clock).into()), event_type: Some("memory.stored".into()), agent_id: Some("svc-cli".into()), machine_uuid: None },
                            reason: HoldReason::MalformedEnvelope,
                            detail: "/payload: expected something else".into(),
                            body_sha256: Digest::of(&body),
                            body_bytes: 1100,
                            body: Some(body),
                            seal: Some(Digest::of(b"x")),
                            received_at: clock,
                        }
                    })
                    .collect();
                all.push(new);
            }
            let begin = Instant::now();
            for new in &all {
                let done: Result<(), sqlx::Error> = store::in_transaction!(&pool, |tx: Db| {
                    for chunk in new.chunks(64) {
                        let mut sql = sqlx::QueryBuilder::<Db>::new("INSERT INTO floor (body) ");
                        sql.push_values(chunk, |mut row, held| {
                            row.push_bind(held.body.as_deref());
                        });
                        sql.build().execute(&mut *tx).await?;
                    }
                    Ok(())
                });
                done?;
            }
            let floor = begin.elapsed().as_secs_f64();
            let begin_cpu = cpu();
            let begin = Instant::now();
            for new in &all {
                store.held_insert(new, &HeldQuotas::default()).await?;
            }
            let took = begin.elapsed().as_secs_f64();
            let used = (cpu() - begin_cpu) * 1e6 / (rounds * batch) as f64;
            println!("{used:.0} us CPU a row; {round} batches of {batch}: held {:.0} rows/s, {:.2} ms a batch; floor {:.0} rows/s, {:.2} ms a batch", (rounds * batch) as f64 / took, took * 1e3 / rounds as f64, (rounds * batch) as f64 / floor, floor * 1e3 / rounds as f64);
        }
    }
    store.close().await;
    Ok(())
}
