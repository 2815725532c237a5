//! Short reads on the caller's thread.

use std::process::Command;

use domain::Timestamp;
use domain::log_part::LogPart;
use store::machine::{Computer, NewMachine, Register};
use store::pool::{Probe, ROWS_MAX, probe};
use store::{Pool, Store};

use crate::world::{World, at, now};
use harness::on_each_database;

/// Closes the SQLite connections of all reads that are not probes.
async fn close_beside_probes(store: &Store) {
    let Pool::Sqlite { readers, .. } = store.pool() else { unreachable!() };
    readers.close_beside_probes().await;
}

/// Computers of an account, newest first, as `computers_of_account` has to list them.
async fn attach_many(world: &World, count: usize) -> (domain::ids::UserAccountId, Vec<Computer>) {
    let account = world.account("ada@example.com").await;
    let mut computers = Vec::new();
    for second in 0..i64::try_from(count).unwrap() {
        let (machine_uuid, user_cuid) = (world.rng.uuid_v7(now()).into(), world.cuid());
        let new = NewMachine {
            machine_uuid,
            user_cuid: &user_cuid,
            name: None,
            secret: world.secret(),
            part: LogPart::FIRST,
        };
        assert_eq!(world.store.machine_register(&new, at(second)).await.unwrap(), Register::Registered);
        world.store.machine_attach(machine_uuid, &account, at(second), &world.rng).await.unwrap().unwrap();
        computers.push(Computer {
            machine_uuid,
            user_cuid,
            name: None,
            account: Some(account.clone()),
            first_seen_at: at(second),
            last_seen_at: at(second),
            attached_at: Some(at(second)),
            attached_by: None,
            has_secret: true,
            label: None,
        });
    }
    computers.reverse();
    (account, computers)
}

store::row! {
    #[derive(Clone)]
    struct FoundRow {
        id: uuid::Uuid,
        email: String,
    }
}

on_each_database! {
    async fn a_database_that_lost_a_table_of_credentials_is_not_readable(world: &World) {
        let rename = async |sql: &'static str| {
            let pool = world.store.pool();
            store::pool::script(sql).execute(pool.writer()).await.unwrap();
        };
        world.store.readable().await.unwrap();
        rename("ALTER TABLE machines RENAME TO elsewhere").await;
        world.store.readable().await.unwrap_err();
        rename("ALTER TABLE elsewhere RENAME TO machines").await;
        world.store.readable().await.unwrap();
        let statement = Probe::<FoundRow>::short("SELECT id, email FROM persons WHERE email = $1");
        probe(statement).bind("nobody@example.com").check(world.store.pool()).await.unwrap();
    }

    async fn parameters_are_bound_by_number(world: &World) {
        let statement = Probe::<FoundRow>::short("SELECT id, email FROM persons WHERE email = $2 AND id = $1");
        let (pool, person) = (world.store.pool(), world.person("ada@example.com").await);
        let of = |id: uuid::Uuid| probe(statement).bind(id).bind(person.email.as_str());
        let row = of(person.id.as_uuid()).fetch_optional(pool).await.unwrap().unwrap();
        assert_eq!((row.id, row.email.as_str()), (person.id.as_uuid(), "ada@example.com"));
        assert_eq!(of(person.id.as_uuid()).fetch_all(pool).await.unwrap().len(), 1);
        assert!(of(uuid::Uuid::nil()).fetch_optional(pool).await.unwrap().is_none());
    }

    async fn kept_rows_are_those_of_their_arguments_until_a_commit(world: &World) {
        let statement = Probe::<FoundRow>::kept("SELECT id, email FROM persons WHERE email = $1");
        let (pool, first) = (world.store.pool(), world.person("ada@example.com").await);
        for _ in 0..3 {
            let of = |email: &'static str| probe(statement).bind(email);
            let one = of("ada@example.com").fetch_optional(pool).await.unwrap();
            assert_eq!(one.unwrap().id, first.id.as_uuid());
            assert!(of("grace@example.com").fetch_optional(pool).await.unwrap().is_none());
            // The same statement and arguments, but all rows.
            assert_eq!(of("ada@example.com").fetch_all(pool).await.unwrap().len(), 1);
        }
        let second = world.person("grace@example.com").await;
        let now = probe(statement).bind("grace@example.com").fetch_optional(pool).await.unwrap();
        assert_eq!(now.unwrap().id, second.id.as_uuid());
    }

    async fn more_rows_than_are_read_in_place_are_read_too(world: &World) {
        let (account, computers) = attach_many(world, ROWS_MAX + 3).await;
        assert_eq!(world.store.computers_of_account(&account, 1000).await.unwrap(), computers);
        assert_eq!(world.store.computers_of_account(&account, ROWS_MAX).await.unwrap(), computers[..ROWS_MAX]);
    }

    async fn a_probe_sees_what_another_process_has_committed(world: &World) {
        let person = world.person("ada@example.com").await;
        let (machine, _, secret) = world.machine().await;
        let session = world.session(person.id, now(), at(100)).await;
        assert!(world.store.session_by_hash(&session, now()).await.unwrap().is_some());
        assert!(world.store.machine_by_secret(&secret).await.unwrap().is_some());
        let other = world.second().await;
        for round in 1..20 {
            // The rows stay in memory until the other process commits.
            for _ in 0..3 {
                let row = world.store.session_by_hash(&session, now()).await.unwrap().unwrap();
                assert_eq!(row.expires_at, at(99 + round));
            }
            assert!(other.session_slide(&session, at(100 + round), now()).await.unwrap());
            let row = world.store.session_by_hash(&session, now()).await.unwrap().unwrap();
            assert_eq!(row.expires_at, at(100 + round));
        }
        assert!(other.session_revoke(&session, now()).await.unwrap());
        assert_eq!(world.store.session_by_hash(&session, now()).await.unwrap(), None);
        assert!(other.machine_remove(machine, now()).await.unwrap());
        assert_eq!(world.store.machine_by_secret(&secret).await.unwrap(), None);
    }
}

/// Probes succeed although all other reads fail.
#[tokio::test]
async fn sqlite_answers_probes_in_place() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let account = person.account.clone().unwrap();
    let (machine, identity, secret) = world.attached(&account).await;
    let session = world.session(person.id, now(), at(100)).await;
    let (registration, _) = world.claimed("ada@example.com").await;
    let token = world.secret();
    let scope = domain::token::TokenScope::Account;
    assert!(world.store.token_issue(&token, registration, scope, now(), at(100)).await.unwrap());
    close_beside_probes(&world.store).await;
    assert!(world.store.session_by_hash(&session, now()).await.unwrap().is_some());
    assert!(world.store.session_by_hash(&session, at(100)).await.unwrap().is_none());
    assert!(world.store.token_by_hash(&token, now()).await.unwrap().is_some());
    assert!(world.store.api_key_by_hash(&token, now()).await.unwrap().is_none());
    assert!(world.store.machine_by_secret(&secret).await.unwrap().is_some());
    assert!(world.store.machine_facts(machine).await.unwrap().is_some());
    assert_eq!(world.store.computers_of_account(&account, 10).await.unwrap().len(), 1);
    assert_eq!(world.store.identities_of_account(&account).await.unwrap(), std::slice::from_ref(&identity));
    assert!(world.store.identity(&identity).await.unwrap().is_some());
    assert!(world.store.account_by_id(&account).await.unwrap().is_some());
    assert_eq!(world.store.person_by_id(person.id).await.unwrap(), Some(person));
    assert!(world.store.device_by_code(&token).await.unwrap().is_none());
    assert!(world.store.persons(1).await.unwrap_err().is_unavailable(), "it is no probe");
}

/// SQLite compares times as text, so a probe must encode them like the pool, with and without milliseconds.
#[tokio::test]
async fn a_moment_is_the_same_in_place_and_through_the_pool() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    for millis in [1_767_225_600_000, 1_767_225_600_001, 1_767_225_600_120, 1_767_225_600_123] {
        let end = Timestamp::from_timestamp_millis(millis).unwrap();
        let token = world.session(person.id, now(), end).await;
        let before = Timestamp::from_timestamp_millis(millis - 1).unwrap();
        assert_eq!(world.store.session_by_hash(&token, before).await.unwrap().unwrap().expires_at, end);
        assert_eq!(world.store.session_by_hash(&token, end).await.unwrap(), None);
        let after = |moment: Timestamp| {
            let live = Probe::<FoundRow>::short(
                "SELECT p.id, p.email FROM sessions s JOIN persons p ON p.id = s.person_id
                WHERE s.token_hash = $1 AND s.expires_at > $2",
            );
            let (pool, hash) = (world.store.pool().clone(), token);
            async move { probe(live).bind(hash.as_bytes()).bind(moment).fetch_optional(&pool).await.unwrap().is_some() }
        };
        assert!(after(before).await && !after(end).await);
    }
}

#[tokio::test]
async fn the_last_one_to_close_leaves_no_log_behind() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    world.store.person_by_id(person.id).await.unwrap();
    let log = world.folder.path().join("attache.db-wal");
    assert!(log.exists());
    world.store.close().await;
    assert!(!log.exists());
    assert!(world.store.person_by_id(person.id).await.unwrap_err().is_unavailable());
}

/// More threads than connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn threads_share_the_connections() {
    let world = World::on_sqlite().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let person = world.person(&format!("p{number}@example.com")).await;
        let store = world.store.clone();
        tasks.spawn(async move {
            for _ in 0..200 {
                assert_eq!(store.person_by_id(person.id).await.unwrap(), Some(person.clone()));
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// A probe that fails is repeated on another connection, and its connection is closed.
#[tokio::test]
async fn a_probe_that_fails_leaves_no_connection_that_fails() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    world.store.person_by_id(person.id).await.unwrap();
    world.tamper("ALTER TABLE persons RENAME TO people").await;
    let error = world.store.person_by_id(person.id).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read person");
    world.tamper("ALTER TABLE people RENAME TO persons").await;
    close_beside_probes(&world.store).await;
    assert_eq!(world.store.person_by_id(person.id).await.unwrap(), Some(person));
}

#[tokio::test]
async fn damage_is_named_by_the_pool() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    world.tamper("UPDATE persons SET account_id = NULL; UPDATE accounts SET created_at = 'soon'").await;
    let error = world.store.account_by_id(&person.account.unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read account");
    world.tamper("UPDATE persons SET email = 'nobody'").await;
    let error = world.store.person_by_id(person.id).await.unwrap_err();
    assert_eq!(error.to_string(), "the database is damaged: persons.email cannot be read");
}

/// Another process revokes a session and a secret; the next request is refused.
#[tokio::test]
async fn a_revocation_by_another_process_counts_at_once() {
    const CHILD: &str = "ATTACHE_TEST_REVOKES";
    const NAME: &str = "probes::a_revocation_by_another_process_counts_at_once";
    if let Ok(arguments) = std::env::var(CHILD) {
        let (path, person) = arguments.split_once('|').unwrap();
        let store = Store::open(&store::DatabaseSettings::default(), path.as_ref()).await.unwrap();
        let person = person.parse::<uuid::Uuid>().unwrap().into();
        let kept = uuid::Uuid::nil().into();
        assert_eq!(store.sessions_revoke_others(person, kept, now()).await.unwrap(), 1);
        let account = store.person_by_id(person).await.unwrap().unwrap().account.unwrap();
        let machine = store.computers_of_account(&account, 1).await.unwrap()[0].machine_uuid;
        assert!(store.machine_detach(machine, &account, now()).await.unwrap());
        return;
    }
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let (_, _, secret) = world.attached(&person.account.unwrap()).await;
    let session = world.session(person.id, now(), at(100)).await;
    for _ in 0..3 {
        assert!(world.store.session_by_hash(&session, now()).await.unwrap().is_some());
        assert!(world.store.machine_by_secret(&secret).await.unwrap().is_some());
    }
    let arguments = format!("{}|{}", world.path().display(), person.id.as_uuid());
    let child =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", NAME]).env(CHILD, arguments).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(world.store.session_by_hash(&session, now()).await.unwrap(), None);
    assert_eq!(world.store.machine_by_secret(&secret).await.unwrap(), None);
}
