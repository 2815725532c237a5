use std::future::pending;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use domain::Rng;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::pool::{DatabaseSettings, query, scalar, script};

/// Keeps a group open for as long as a test needs.
const LONG: Duration = Duration::from_mins(10);

struct World {
    writer: Writer,
    file: SqliteFile,
    path: PathBuf,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::within(GroupLimits { members_max: 1000, open_max: LONG }).await
    }

    async fn within(limits: GroupLimits) -> Self {
        Self::with(&DatabaseSettings::default(), limits).await
    }

    async fn with(settings: &DatabaseSettings, limits: GroupLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("facts.db");
        std::fs::File::create(&path).unwrap();
        let file = SqliteFile::new(settings, &path, false);
        let writer = Writer::start_within(file.clone(), LONG.into(), limits).unwrap();
        let world = Self { writer, file, path, _folder: folder };
        world.run("CREATE TABLE facts (id INTEGER PRIMARY KEY, fact TEXT NOT NULL UNIQUE, cause INTEGER REFERENCES facts)").await.unwrap();
        world
    }

    /// One statement, as `Pool::writer` runs it.
    async fn run(&self, sql: &'static str) -> Result<u64, Error> {
        let mut turn = self.writer.begin(Undo::Statement).await?;
        let result = script(sql).execute(turn.connection()?).await;
        turn.settle(result, |_| true).await
    }

    /// A body that adds a fact and is committed if `keep`, as `in_transaction!` runs it.
    fn add(&self, fact: impl Into<String>, keep: bool) -> JoinHandle<Result<i64, Error>> {
        let (writer, fact) = (self.writer.clone(), fact.into());
        tokio::spawn(async move {
            let mut turn = writer.begin(Undo::Whole).await?;
            let added = scalar("INSERT INTO facts (fact) VALUES ($1) RETURNING id");
            let id = added.bind(fact).fetch_one(turn.connection()?).await;
            turn.settle(id, |_| keep).await
        })
    }

    /// Waits until the given number of bodies wait for their turn.
    async fn waiting(&self, count: usize) {
        while self.writer.counts().waiting < count {
            tokio::task::yield_now().await;
        }
    }

    /// Facts that other connections read, in the order of insertion.
    fn facts(&self) -> Vec<String> {
        let reader = self.file.reader().unwrap();
        let mut statement = reader.prepare("SELECT fact FROM facts ORDER BY id").unwrap();
        let facts = statement.query_map([], |row| row.get(0)).unwrap();
        facts.collect::<Result<_, _>>().unwrap()
    }
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn code(error: &Error) -> String {
    error.as_database_error().unwrap().code().unwrap().into_owned()
}

#[tokio::test]
async fn a_writer_alone_has_a_commit_of_its_own() {
    let world = World::new().await;
    let before = world.writer.counts();
    for number in 0..5 {
        world.add(number.to_string(), true).await.unwrap().unwrap();
    }
    let after = world.writer.counts();
    assert_eq!((after.commits - before.commits, after.members - before.members), (5, 5));
    assert_eq!((after.opened, after.waiting), (1, 0));
    assert_eq!(world.facts(), ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn those_who_wait_share_a_commit_in_their_order_and_are_answered_after_it() {
    let world = World::new().await;
    let before = world.writer.counts();
    let mut first = world.writer.begin(Undo::Whole).await.unwrap();
    query("INSERT INTO facts (fact) VALUES ('first')").execute(first.connection().unwrap()).await.unwrap();
    let mut others = Vec::new();
    for number in 0..20 {
        others.push(world.add(number.to_string(), true));
        world.waiting(others.len()).await;
    }
    let mut last = pin!(world.writer.begin(Undo::Whole));
    assert!(poll(last.as_mut()).is_pending());

    let mut answer = pin!(first.settle(Ok(()), |()| true));
    assert!(poll(answer.as_mut()).is_pending());
    let last = last.await.unwrap();
    // All bodies have run, and the last has not ended.
    assert!(poll(answer.as_mut()).is_pending(), "answered before the commit");
    assert!(others.iter().all(|other| !other.is_finished()));
    assert_eq!(world.facts(), [""; 0], "seen before the commit");
    last.settle(Ok(()), |()| true).await.unwrap();
    answer.await.unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    let expected: Vec<String> =
        ["first".to_owned()].into_iter().chain((0..20).map(|number| number.to_string())).collect();
    assert_eq!(world.facts(), expected);
    let after = world.writer.counts();
    assert_eq!((after.commits - before.commits, after.members - before.members), (1, 22));
}

#[tokio::test]
async fn a_group_takes_members_up_to_its_limit() {
    let world = World::within(GroupLimits { members_max: 4, open_max: LONG }).await;
    let before = world.writer.counts().commits;
    let holder = world.writer.begin(Undo::Whole).await.unwrap();
    let others: Vec<_> = (0..11).map(|number| world.add(number.to_string(), true)).collect();
    world.waiting(11).await;
    holder.settle(Ok(()), |()| true).await.unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(world.writer.counts().commits - before, 3, "4, 4 and 4");
}

#[tokio::test]
async fn a_group_that_has_been_open_for_long_takes_no_more() {
    let world = World::within(GroupLimits { members_max: 1000, open_max: Duration::ZERO }).await;
    let before = world.writer.counts().commits;
    let holder = world.writer.begin(Undo::Whole).await.unwrap();
    let others: Vec<_> = (0..5).map(|number| world.add(number.to_string(), true)).collect();
    world.waiting(5).await;
    drop(holder);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(world.writer.counts().commits - before, 5);
}

#[tokio::test]
async fn a_member_that_fails_or_is_refused_leaves_its_neighbours_alone() {
    let world = World::new().await;
    let holder = world.writer.begin(Undo::Whole).await.unwrap();
    let first = world.add("kept", true);
    world.waiting(1).await;
    let (twin, refused, statement) = (
        world.add("kept", true),
        world.add("refused", false),
        world.run("INSERT INTO facts (fact) VALUES ('statement'), ('kept')"),
    );
    world.waiting(3).await;
    let mut statement = pin!(statement);
    assert!(poll(statement.as_mut()).is_pending());
    let after = world.add("after", true);
    world.waiting(5).await;
    let (held, statement) = tokio::join!(holder.settle(Ok(()), |()| true), statement);
    held.unwrap();
    assert!(statement.unwrap_err().as_database_error().unwrap().is_unique_violation());
    assert!(twin.await.unwrap().unwrap_err().as_database_error().unwrap().is_unique_violation());
    refused.await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    after.await.unwrap().unwrap();
    assert_eq!(world.facts(), ["kept", "after"]);
    assert_eq!(world.writer.counts().opened, 1);
}

#[tokio::test]
async fn the_first_of_a_group_is_refused_at_once() {
    let world = World::new().await;
    let commits = world.writer.counts().commits;
    world.add("refused", false).await.unwrap().unwrap();
    assert_eq!(world.facts(), [""; 0]);
    assert_eq!(world.writer.counts().commits, commits);
    world.add("kept", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["kept"]);
}

#[tokio::test]
async fn a_body_that_is_dropped_is_undone_and_its_neighbours_stay() {
    let world = World::new().await;
    for is_first in [true, false] {
        let holder = world.writer.begin(Undo::Whole).await.unwrap();
        let neighbour = (!is_first).then(|| world.add("neighbour", true));
        world.waiting(usize::from(!is_first)).await;
        let writer = world.writer.clone();
        let dropped = tokio::spawn(async move {
            let mut turn = writer.begin(Undo::Whole).await.unwrap();
            let result = query("INSERT INTO facts (fact) VALUES ('dropped')").execute(turn.connection().unwrap()).await;
            result.unwrap();
            pending::<()>().await;
            turn.settle(Ok(()), |()| true).await
        });
        world.waiting(1 + usize::from(!is_first)).await;
        drop(holder);
        // Only the blocked body has the connection of the turn.
        while world.writer.counts().waiting > 0 || world.writer.is_idle() {
            tokio::task::yield_now().await;
        }
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        if let Some(neighbour) = neighbour {
            neighbour.await.unwrap().unwrap();
        }
        world.run("INSERT INTO facts (fact) SELECT 'after ' || COUNT(*) FROM facts").await.unwrap();
    }
    assert_eq!(world.facts(), ["after 0", "neighbour", "after 2"]);
    assert_eq!(world.writer.counts().opened, 1, "a connection that is healthy stays open");
}

#[tokio::test]
async fn those_who_leave_the_queue_are_passed_over() {
    let world = World::new().await;
    let mut holder = world.writer.begin(Undo::Whole).await.unwrap();
    query("INSERT INTO facts (fact) VALUES ('held')").execute(holder.connection().unwrap()).await.unwrap();
    let leaves = world.add("left", true);
    world.waiting(1).await;
    // The body got the turn and is dropped before it uses it.
    let mut given = Box::pin(world.writer.begin(Undo::Whole));
    assert!(poll(given.as_mut()).is_pending());
    leaves.abort();
    leaves.await.unwrap_err();
    let mut answer = pin!(holder.settle(Ok(()), |()| true));
    assert!(poll(answer.as_mut()).is_pending());
    drop(given);
    answer.await.unwrap();
    world.add("next", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["held", "next"]);
}

#[tokio::test]
async fn a_commit_that_fails_reaches_every_member_and_the_next_group_is_whole() {
    let world = World::new().await;
    let mut holder = world.writer.begin(Undo::Whole).await.unwrap();
    let connection = holder.connection().unwrap();
    // A deferred foreign key that the commit finds violated.
    script("PRAGMA defer_foreign_keys = ON; INSERT INTO facts (fact, cause) VALUES ('orphan', 99)")
        .execute(connection)
        .await
        .unwrap();
    let (accepted, refused) = (world.add("kept", true), world.add("refused", false));
    world.waiting(2).await;
    let error = holder.settle(Ok(()), |()| true).await.unwrap_err();
    assert!(is_unavailable(&error), "{error}");
    for member in [accepted, refused] {
        let error = member.await.unwrap().unwrap_err();
        assert!(is_unavailable(&error) && !error.as_database_error().unwrap().is_foreign_key_violation(), "{error}");
    }
    assert_eq!(world.facts(), [""; 0]);
    world.add("healed", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["healed"]);
    assert_eq!(world.writer.counts().opened, 2);
}

#[tokio::test]
async fn alone_the_member_learns_why_the_commit_failed() {
    let world = World::new().await;
    let orphan =
        world.run("PRAGMA defer_foreign_keys = ON; INSERT INTO facts (fact, cause) VALUES ('orphan', 99)").await;
    assert!(orphan.unwrap_err().as_database_error().unwrap().is_foreign_key_violation());
    world.add("healed", true).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_full_file_fails_its_group_and_heals_with_the_next() {
    let world = World::new().await;
    let holder = world.writer.begin(Undo::Whole).await.unwrap();
    let neighbour = world.add("neighbour", true);
    world.waiting(1).await;
    let mut full = pin!(world.run("PRAGMA max_page_count = 1; INSERT INTO facts (fact) SELECT hex(zeroblob(100000))"));
    assert!(poll(full.as_mut()).is_pending());
    drop(holder);
    let error = full.await.unwrap_err();
    assert_eq!(code(&error), "13", "{error}");
    let error = neighbour.await.unwrap().unwrap_err();
    assert!(is_unavailable(&error), "{error}");
    assert_eq!(world.facts(), [""; 0]);
    world.add("healed", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["healed"]);
    assert_eq!(world.writer.counts().opened, 2);
}

#[tokio::test]
async fn a_connection_with_an_error_of_the_file_is_closed_also_when_its_body_is_dropped() {
    const FILL: &str = "PRAGMA max_page_count = 1; INSERT INTO facts (fact) SELECT hex(zeroblob(100000))";
    for (undo, in_group) in
        [(Undo::Whole, false), (Undo::Whole, true), (Undo::Statement, false), (Undo::Statement, true)]
    {
        let world = World::new().await;
        let holder = world.writer.begin(Undo::Whole).await.unwrap();
        let neighbour = in_group.then(|| world.add("neighbour", true));
        world.waiting(usize::from(in_group)).await;
        let mut full = pin!(world.writer.begin(undo));
        assert!(poll(full.as_mut()).is_pending());
        drop(holder);
        let mut full = full.await.unwrap();
        let error = script(FILL).execute(full.connection().unwrap()).await.unwrap_err();
        assert_eq!(code(&error), "13", "{error}");
        drop(full);
        if let Some(neighbour) = neighbour {
            assert!(is_unavailable(&neighbour.await.unwrap().unwrap_err()));
        }
        world.add("healed", true).await.unwrap().unwrap();
        assert_eq!(world.facts(), ["healed"]);
        assert_eq!(world.writer.counts().opened, 2, "{undo:?}, in a group: {in_group}");
    }
}

#[tokio::test]
async fn a_connection_that_failed_outside_of_any_transaction_is_closed() {
    let world = World::new().await;
    let mut alone = world.writer.alone().await.unwrap();
    let fill = "PRAGMA max_page_count = 1; INSERT INTO facts (fact) SELECT hex(zeroblob(100000))";
    let error = script(fill).execute(alone.connection().unwrap()).await.unwrap_err();
    assert_eq!(code(&error), "13", "{error}");
    drop(alone);
    world.add("healed", true).await.unwrap().unwrap();
    assert_eq!(world.writer.counts().opened, 2);
}

#[tokio::test]
async fn a_transaction_that_was_ended_behind_its_back_is_no_success() {
    let world = World::new().await;
    let ended = world.run("INSERT INTO facts (fact) VALUES ('lost'); ROLLBACK").await;
    assert!(is_unavailable(&ended.unwrap_err()));
    world.add("healed", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["healed"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_tried_again_by_the_next() {
    let world = World::new().await;
    let away = world.path.with_extension("away");
    world.run("ROLLBACK").await.unwrap_err();
    std::fs::rename(&world.path, &away).unwrap();
    for _ in 0..2 {
        assert!(is_unavailable(&world.add("nowhere", true).await.unwrap().unwrap_err()));
    }
    std::fs::rename(&away, &world.path).unwrap();
    world.add("healed", true).await.unwrap().unwrap();
    assert_eq!(world.facts(), ["healed"]);
}

#[tokio::test]
async fn another_process_that_writes_is_waited_for() {
    let world = World::new().await;
    let other = world.file.writer().unwrap();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO facts (fact) VALUES ('theirs')").unwrap();
    let own = world.add("ours", true);
    while world.writer.is_idle() {
        tokio::task::yield_now().await;
    }
    assert!(!own.is_finished());
    other.execute_batch("COMMIT").unwrap();
    own.await.unwrap().unwrap();
    assert_eq!(world.facts(), ["theirs", "ours"]);
    assert_eq!(world.writer.counts().opened, 1);
}

#[tokio::test]
async fn a_turn_alone_waits_for_the_group_and_is_outside_of_it() {
    let world = World::new().await;
    let mut holder = world.writer.begin(Undo::Whole).await.unwrap();
    query("INSERT INTO facts (fact) VALUES ('held')").execute(holder.connection().unwrap()).await.unwrap();
    let mut alone = pin!(world.writer.alone());
    assert!(poll(alone.as_mut()).is_pending());
    let (held, alone) = tokio::join!(holder.settle(Ok(()), |()| true), alone);
    held.unwrap();
    assert_eq!(world.facts(), ["held"]);
    let mut alone = alone.unwrap();
    assert!(alone.connection().unwrap().raw().is_autocommit());
    drop(alone);
    world.add("next", true).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_turn_is_waited_for_only_so_long_and_not_at_all_after_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.db");
    std::fs::File::create(&path).unwrap();
    let file = SqliteFile::new(&DatabaseSettings::default(), &path, false);
    let writer = Writer::start(file, Duration::from_millis(10)).unwrap();
    let holder = writer.begin(Undo::Whole).await.unwrap();
    assert!(matches!(writer.begin(Undo::Whole).await, Err(Error::PoolTimedOut)));
    drop(holder);
    writer.close("PRAGMA optimize").await;
    assert!(matches!(writer.begin(Undo::Whole).await, Err(Error::PoolClosed)));
    assert!(!path.with_extension("db-wal").exists(), "the last connection folds the log into the file");
}

const PAGE_BYTES: u64 = 4096;

impl World {
    async fn with_wal_of(wal_bytes: u64) -> Self {
        let settings = DatabaseSettings { wal_bytes, ..DatabaseSettings::default() };
        Self::with(&settings, GroupLimits { members_max: 1000, open_max: LONG }).await
    }

    /// Adds facts of one page each, one after the other.
    async fn add_pages(&self, count: u64) {
        for _ in 0..count {
            self.run("INSERT INTO facts (fact) VALUES (hex(randomblob(2048)))").await.unwrap();
        }
    }

    /// Sizes in bytes of the file and of its write-ahead log.
    fn sizes(&self) -> (u64, u64) {
        let bytes = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
        (bytes(&self.path), bytes(&self.path.with_extension("db-wal")))
    }
}

#[tokio::test]
async fn the_write_ahead_log_is_copied_into_the_file_when_it_is_as_long_as_is_set() {
    let world = World::with_wal_of(64 * PAGE_BYTES).await;
    world.add_pages(1_000).await;
    let (file, wal) = world.sizes();
    // Each fact is a separate page and changes some others. The log is overwritten from its start after each copy.
    assert!(wal < 128 * PAGE_BYTES, "{wal} bytes");
    assert!(file > 1_000 * PAGE_BYTES, "{file} bytes");
}

#[tokio::test]
async fn a_commit_copies_nothing() {
    let world = World::with_wal_of(u64::MAX).await;
    let (before, _) = world.sizes();
    // SQLite's own limit is 1,000 pages.
    world.add_pages(1_000).await;
    let (after, wal) = world.sizes();
    assert_eq!(after, before);
    assert!(wal > 2_000 * PAGE_BYTES, "{wal} bytes");
}

#[tokio::test]
async fn a_reader_that_keeps_the_log_from_being_copied_does_not_keep_it_for_long() {
    let world = World::with_wal_of(64 * PAGE_BYTES).await;
    world.add_pages(10).await;
    let reader = world.file.reader().unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM facts").unwrap();
    world.add_pages(200).await;
    let (file, held) = world.sizes();
    assert!(file < 200 * PAGE_BYTES && held > 400 * PAGE_BYTES, "{file} and {held} bytes");
    reader.execute_batch("COMMIT").unwrap();
    world.add_pages(1_000).await;
    let (file, wal) = world.sizes();
    assert!(file > 1_000 * PAGE_BYTES && wal < held + 128 * PAGE_BYTES, "{file} and {wal} bytes");
}

/// The action of a random member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Refused,
    Fails,
    /// The member is dropped while it waits, during its body, or after it.
    Dropped,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn beside_any_neighbours_a_member_is_written_once_or_not_at_all() {
    for seed in 0..8 {
        let limits = GroupLimits { members_max: 7, open_max: LONG };
        let world = Arc::new(World::within(limits).await);
        let rng = Rng::seeded(seed);
        let mut members = Vec::new();
        for number in 0..120_i64 {
            let [fate, polls, ..] = rng.bytes::<8>();
            let fate = match fate % 8 {
                0..4 => Fate::Kept,
                4 => Fate::Refused,
                5 => Fate::Fails,
                _ => Fate::Dropped,
            };
            let world = Arc::clone(&world);
            members.push(tokio::spawn(async move {
                let body = async {
                    let mut turn = world.writer.begin(Undo::Whole).await?;
                    let connection = turn.connection()?;
                    // The rows that it reads do not change until it is committed: no two members read the same.
                    let before: i64 =
                        scalar("SELECT COALESCE(MAX(id), 0) FROM facts").fetch_one(&mut *connection).await?;
                    tokio::task::yield_now().await;
                    let add =
                        query("INSERT INTO facts (id, fact) VALUES ($1, $2)").bind(before + 1).bind(number.to_string());
                    let mut added = add.execute(&mut *connection).await.map(drop);
                    tokio::task::yield_now().await;
                    if fate == Fate::Fails {
                        added = query("INSERT INTO facts (id, fact) VALUES ($1, 'twin')")
                            .bind(before + 1)
                            .execute(connection)
                            .await
                            .map(drop);
                    }
                    turn.settle(added, |()| fate != Fate::Refused).await
                };
                if fate == Fate::Dropped {
                    let mut body = pin!(body);
                    for _ in 0..polls % 6 {
                        if let Poll::Ready(done) = poll(body.as_mut()) {
                            done.unwrap();
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                } else {
                    let result = body.await;
                    assert_eq!(result.is_err(), fate == Fate::Fails, "{result:?}");
                }
                fate
            }));
        }
        let mut fates = Vec::new();
        for member in members {
            fates.push(member.await.unwrap());
        }
        // One more body, so that all earlier ones are committed or undone.
        world.add("last", true).await.unwrap().unwrap();
        let facts = world.facts();
        assert_eq!(facts.last().unwrap(), "last");
        for (number, fate) in fates.iter().enumerate() {
            let written = facts.iter().filter(|fact| **fact == number.to_string()).count();
            match fate {
                Fate::Kept => assert_eq!(written, 1, "{number}"),
                Fate::Refused | Fate::Fails => assert_eq!(written, 0, "{number}"),
                Fate::Dropped => assert!(written <= 1),
            }
        }
        let counts = world.writer.counts();
        assert_eq!(counts.opened, 1);
        assert!(counts.commits < counts.members, "{counts:?}");
    }
}
