//! A separate database of the memory.

use domain::ids::InstallationId;
use sqlx::Connection as _;
use store::janitor::PurgeSettings;
use store::memory::database::{MemoryOpenError, MemoryRefusal};
use store::memory::{LookAfter, MemoryScope, Put};
use store::pool::scalar;
use store::{DatabaseSettings, Store};

use crate::memories::{Draft, space};
use crate::world::{World, at, now, settings_of};

/// A main database of an installation, and an empty database.
struct Pair {
    world: World,
    installation: InstallationId,
    memory: DatabaseSettings,
    /// Dropped last.
    _database: harness::postgres::TestDatabase,
}

impl Pair {
    async fn new() -> Option<Self> {
        let world = World::on_postgres().await?;
        let installation: InstallationId = domain::Rng::system().uuid_v7(now()).into();
        world.store.installation_begin(installation).await.unwrap();
        let database = harness::postgres::empty_database().await?;
        Some(Self { world, installation, memory: settings_of(&database), _database: database })
    }

    /// A store of another process, with the memory in a separate database.
    async fn apart(&self) -> Store {
        self.world.second().await.with_memory_apart()
    }

    async fn opened(&self) -> Store {
        let store = self.apart().await;
        store.memory_open(&self.memory).await.unwrap();
        store
    }
}

/// Empties the accounts that were closed some time ago; returns their number.
async fn emptied(store: &Store) -> u64 {
    store.closed_accounts_empty(at(3_600), &PurgeSettings::default()).await.unwrap()
}

/// Empties all spaces that do not exist; returns the number of moved memories.
pub async fn moved_home(world: &World, store: &Store) -> u64 {
    let (mut after, mut moved) = (LookAfter::default(), 0);
    loop {
        let lost = store.memories_home(after, &world.rng, now()).await.unwrap();
        moved += lost.moved;
        let Some(next) = lost.next else { return moved };
        after = next;
    }
}

async fn refusal(store: &Store, memory: &DatabaseSettings) -> MemoryRefusal {
    let examined = store.memory_examine(memory).await.map(drop);
    match (examined, store.memory_open(memory).await) {
        (Err(MemoryOpenError::Refused(examined)), Err(MemoryOpenError::Refused(refusal))) => {
            assert_eq!(examined, refusal);
            refusal
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_becomes_the_memory_and_every_other_one_is_refused() {
    let (Some(pair), Some(other)) = (Pair::new().await, Pair::new().await) else { return };
    let plan = Store::memory_schema_plan(&pair.memory).await.unwrap();
    assert!(plan.found == 0 && plan.check().is_err());
    assert!(!pair.world.store.is_memory_elsewhere().await.unwrap());
    let store = pair.apart().await;
    assert_eq!(refusal(&store, &pair.world.settings).await, MemoryRefusal::MainDatabase);
    assert!(!pair.world.store.is_memory_elsewhere().await.unwrap(), "a refusal changes nothing");
    assert!(!store.is_memory_open() && store.memory_apart().is_none());

    // Of several nodes that start at the same time, all open it.
    let (first, second) = tokio::join!(pair.opened(), pair.opened());
    assert!(first.is_memory_open() && second.is_memory_open() && first.is_memory_apart());
    assert!(pair.world.store.is_memory_elsewhere().await.unwrap());
    Store::memory_schema_plan(&pair.memory).await.unwrap().check().unwrap();
    first.memory_answers().await.unwrap();
    assert!(first.takes_memories().await && pair.world.store.takes_memories().await);
    let swapped = Store::open(&pair.memory, &pair.world.path()).await.unwrap();
    assert!(swapped.is_memory_only().await.unwrap() && !first.is_memory_only().await.unwrap());
    assert_eq!(refusal(&pair.apart().await, &other.memory).await, MemoryRefusal::Empty);
    other.opened().await;
    let expected = MemoryRefusal::OtherInstallation { own: pair.installation, found: other.installation };
    assert_eq!(refusal(&pair.apart().await, &other.memory).await, expected);
    pair.opened().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_where_the_memory_is_divides_nothing() {
    let Some(pair) = Pair::new().await else { return };
    let ada = pair.world.account("ada@example.com").await;
    let draft = Draft::new(&pair.world, &ada, "one", &["a harbour"]);
    let store = pair.opened().await;
    assert_eq!(draft.put(&store, 9).await, Put::Created(draft.id));
    // As a server of an older version does.
    let error = draft.try_put(&pair.world.store, 9).await.unwrap_err();
    assert!(domain::reasons(&error).contains("memory_is_elsewhere"), "{}", domain::reasons(&error));
    let swapped = Store::open(&pair.memory, &pair.world.path()).await.unwrap();
    let error = swapped.person_sign_in(&"bob@example.com".parse().unwrap(), true, now(), &pair.world.rng).await;
    let error = error.unwrap_err();
    assert!(domain::reasons(&error).contains("only_the_memory_is_here"), "{}", domain::reasons(&error));
    assert_eq!(store.memories_kept(&ada).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_memory_is_away_only_memories_fail() {
    let Some(pair) = Pair::new().await else { return };
    let ada = pair.world.account("ada@example.com").await;
    let store = pair.apart().await;
    let draft = Draft::new(&pair.world, &ada, "one", &["a harbour"]);
    assert!(draft.try_put(&store, 9).await.unwrap_err().is_unavailable());
    assert!(store.memory_usage(&ada).await.unwrap_err().is_unavailable());
    assert!(store.memory_answers().await.unwrap_err().is_unavailable());
    assert!(!store.takes_memories().await);
    assert_eq!(store.if_reachable(store.memories_kept(&ada)).await.unwrap(), None);
    let nowhere =
        DatabaseSettings { url: Some("postgres://nobody@127.0.0.1:1/none".to_owned()), ..pair.memory.clone() };
    assert!(matches!(store.memory_open(&nowhere).await, Err(MemoryOpenError::Store(error)) if error.is_unavailable()));
    let error = domain::reasons(&store.memories_kept(&ada).await.unwrap_err());
    assert!(error.contains("is away: ") && error.contains("127.0.0.1:1"), "{error}");
    let home = store.space_default(pair.world.rng.uuid_v7(now()).into(), &ada, now()).await.unwrap();
    assert_eq!(store.spaces_of_account(&ada, 9).await.unwrap().len(), 1);
    // A closed account is not emptied, because its memories would stay.
    assert!(store.account_close(&ada, None, now()).await.unwrap());
    assert_eq!(emptied(&store).await, 0);
    assert_eq!(store.spaces_readable(&[home], &ada).await.unwrap().len(), 1);
    store.memory_open(&pair.memory).await.unwrap();
    assert_eq!(emptied(&store).await, 1);
    assert!(store.spaces_readable(&[home], &ada).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_in_a_space_that_does_not_exist_comes_home() {
    let Some(pair) = Pair::new().await else { return };
    let (world, store) = (&pair.world, pair.opened().await);
    let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
    let (lost, kept) = (space(world, &ada).await, space(world, &ada).await);
    let add = async |account, key: &'static str, spaces: &[_]| {
        let draft = Draft { spaces: spaces.to_vec(), ..Draft::new(world, account, key, &["a harbour"]) };
        assert_eq!(draft.put(&store, 9).await, Put::Created(draft.id));
        draft.id
    };
    let (alone, both, of_bob) =
        (add(&ada, "one", &[lost]).await, add(&ada, "two", &[lost, kept]).await, add(&bob, "three", &[lost]).await);
    assert!(!store.space_delete(lost, &ada).await.unwrap(), "it is in use");
    assert_eq!(moved_home(world, &store).await, 0);
    // As if it had been deleted while the memories were added.
    let delete = store::pool::query("DELETE FROM spaces WHERE id = $1").bind(lost.as_uuid());
    delete.execute(world.store.pool().writer()).await.unwrap();
    // A closed account is emptied elsewhere.
    assert!(store.account_close(&bob, None, now()).await.unwrap());
    assert_eq!(moved_home(world, &store).await, 2);
    let home = store.space_default(world.rng.uuid_v7(now()).into(), &ada, now()).await.unwrap();
    let spaces = async |id, account: &domain::ids::UserAccountId| {
        store.memory_by_id(id, &MemoryScope::Account(account.clone())).await.unwrap().unwrap().spaces
    };
    assert_eq!((spaces(alone, &ada).await, spaces(both, &ada).await), (vec![home], vec![kept]));
    assert_eq!(spaces(of_bob, &bob).await, [lost]);
    assert_eq!(emptied(&store).await, 1);
    assert_eq!(moved_home(world, &store).await, 0);
    assert!(store.memories_linked(lost, 9).await.unwrap().is_empty());
    let counts = "SELECT COUNT(*) FROM space_indexes WHERE memories = 0";
    assert_eq!(scalar(counts).fetch_one::<i64>(store.memory_apart().unwrap()).await.unwrap(), 0);

    // A backup of the memory brings a memory of the emptied account back.
    let again = Draft { spaces: vec![kept], ..Draft::new(world, &bob, "four", &["a harbour"]) };
    assert_eq!(again.put(&store, 9).await, Put::Created(again.id));
    let delete = store::pool::query("DELETE FROM spaces WHERE id = $1").bind(kept.as_uuid());
    delete.execute(world.store.pool().writer()).await.unwrap();
    assert_eq!(emptied(&store).await, 0);
    moved_home(world, &store).await;
    assert_eq!(emptied(&store).await, 1);
    assert_eq!(store.memories_kept(&bob).await.unwrap(), 0);
}

/// Each table of the memory with its rows as text, in order.
async fn rows(pool: &store::Pool) -> Vec<(String, String)> {
    let tables = "account_indexes memories memories_deleted memory_tags memory_spaces space_indexes chunks space_chunks vectors words";
    let mut found = Vec::new();
    for table in tables.split(' ') {
        let sql = format!("SELECT COALESCE(string_agg(t::TEXT, ' ' ORDER BY t::TEXT), '') FROM {table} t");
        found.push((table.to_owned(), scalar(sqlx::AssertSqlSafe(sql)).fetch_one(pool).await.unwrap()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_moves_with_every_row() {
    let Some(pair) = Pair::new().await else { return };
    let (world, store) = (&pair.world, &pair.world.store);
    let ada = world.account("ada@example.com").await;
    let own = space(world, &ada).await;
    let mut drafts = Vec::new();
    for (at, key) in ["one", "two", "three"].into_iter().enumerate() {
        let draft = Draft {
            spaces: vec![own],
            vectors: vec![vec![0.5, 0.25]],
            ..Draft::new(world, &ada, key, &["häfen \\ \t und\nmehr", key])
        };
        assert_eq!(draft.put(store, 9).await, Put::Created(draft.id), "{at}");
        drafts.push(draft);
    }
    store.memory_delete(drafts[2].id, &ada).await.unwrap();
    let before = rows(store.pool()).await;
    assert!(before.iter().filter(|(table, _)| table != "memory_tags").all(|(_, rows)| !rows.is_empty()), "{before:?}");
    let newest: i64 = scalar("SELECT MAX(id) FROM chunks").fetch_one(store.pool()).await.unwrap();
    assert_eq!(refusal(&pair.apart().await, &pair.memory).await, MemoryRefusal::NotMoved);

    let moved = store.memory_relocate(&pair.memory, now()).await.unwrap();
    assert_eq!(moved[0], ("account_indexes", 1));
    assert_eq!(moved[1], ("memories", 2));
    let apart = pair.opened().await;
    assert_eq!(rows(apart.memory_apart().unwrap()).await, before);
    let references: i64 = scalar("SELECT COUNT(*) FROM pg_constraint WHERE contype = 'f' AND convalidated
        AND conrelid IN (SELECT CAST(t AS REGCLASS) FROM unnest(ARRAY['memories', 'chunks', 'vectors', 'memory_spaces', 'space_indexes']) t)")
        .fetch_one(apart.memory_apart().unwrap())
        .await
        .unwrap();
    assert_eq!(references, 5, "each but those to spaces");
    assert!(rows(store.pool()).await.iter().all(|(_, rows)| rows.is_empty()));
    // Numbers are never used twice.
    let next = Draft { spaces: vec![own], ..Draft::new(world, &ada, "four", &["later"]) };
    assert_eq!(next.put(&apart, 9).await, Put::Created(next.id));
    let least: i64 = scalar("SELECT MAX(id) FROM chunks").fetch_one(apart.memory_apart().unwrap()).await.unwrap();
    assert!(least > newest);
    assert_eq!(drafts[0].put(&apart, 9).await, Put::Existing(drafts[0].id));

    let again = store.memory_relocate(&pair.memory, now()).await.unwrap_err();
    assert!(matches!(again, MemoryOpenError::Refused(MemoryRefusal::Moved)), "{again:?}");
    // As after the restore of an older main database.
    world.tamper("ALTER TABLE account_indexes DROP CONSTRAINT memory_is_elsewhere").await;
    let again = store.memory_relocate(&pair.memory, now()).await.unwrap_err();
    assert!(matches!(again, MemoryOpenError::Refused(MemoryRefusal::NotEmpty)), "{again:?}");
    assert_eq!(apart.memories_kept(&ada).await.unwrap(), 3, "nothing was overwritten");
    for draft in [&drafts[0], &drafts[1], &next] {
        assert_eq!(draft.put(store, 9).await, Put::Created(draft.id));
    }
    // An empty database takes them.
    let other = harness::postgres::empty_database().await.unwrap();
    assert_eq!(store.memory_relocate(&settings_of(&other), now()).await.unwrap()[1], ("memories", 3));
}

/// Prints how long a move takes. `ATTACHE_MOVED_MEMORIES` sets the number of memories.
#[tokio::test(flavor = "multi_thread")]
async fn figures_of_a_move() {
    const FILL: [&str; 7] = [
        "INSERT INTO memories (id, account_index, type, title, bytes, language, dedupe, version, spaces, chunks, words, changed,
                created_at, updated_at, content)
            SELECT gen_random_uuid(), m.account_index, m.type, m.title, 1800, m.language, CAST(i::TEXT AS BYTEA), m.version, m.spaces, 2, 8,
                1 + i, now(), now(), repeat(md5(i::TEXT), 56) FROM memories m, generate_series(1, COUNT) i",
        "INSERT INTO chunks (memory_id, ordinal, content, words)
            SELECT id, i, left(content, 900), 4 FROM memories, generate_series(0, 1) i WHERE changed > 1",
        "INSERT INTO vectors SELECT id, 'model/256', 256, decode(repeat(md5(id::TEXT), 32), 'hex') FROM chunks c
            WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.chunk_id = c.id)",
        "INSERT INTO words SELECT s.number, 'stem' || (c.id * w) % 20011, c.id, 1, 4
            FROM chunks c, account_indexes s, generate_series(1, 30) w ON CONFLICT DO NOTHING",
        "INSERT INTO memory_spaces SELECT s.id, m.id FROM memories m, spaces s ON CONFLICT DO NOTHING",
        "INSERT INTO space_chunks SELECT s.id, i.number, c.id FROM chunks c, spaces s, account_indexes i ON CONFLICT DO NOTHING",
        "UPDATE account_indexes SET changes = 1 + COUNT, memories = 1 + COUNT",
    ];
    let Some(pair) = Pair::new().await else { return };
    let count = std::env::var("ATTACHE_MOVED_MEMORIES").unwrap_or_else(|_| "1000".to_owned());
    let (world, store) = (&pair.world, &pair.world.store);
    let ada = world.account("ada@example.com").await;
    let own = space(world, &ada).await;
    let draft = Draft { spaces: vec![own], ..Draft::new(world, &ada, "one", &["a harbour"]) };
    assert_eq!(draft.put(store, 9).await, Put::Created(draft.id));
    let mut patient = sqlx::PgConnection::connect(world.settings.url.as_deref().unwrap()).await.unwrap();
    for fill in FILL {
        sqlx::raw_sql(sqlx::AssertSqlSafe(fill.replace("COUNT", &count))).execute(&mut patient).await.unwrap();
    }
    let bytes: i64 = scalar("SELECT pg_database_size(current_database())").fetch_one(store.pool()).await.unwrap();
    let begun = std::time::Instant::now();
    let moved = store.memory_relocate(&pair.memory, now()).await.unwrap();
    eprintln!("{bytes} bytes of {moved:?} moved in {:.1?}", begun.elapsed());
    let count: u64 = count.parse().unwrap();
    assert_eq!(moved[1], ("memories", 1 + count));
    assert_eq!(pair.opened().await.memories_kept(&ada).await.unwrap(), 1 + count);
}
