//! Cache of probes' rows, valid until the next commit of any process.
//!
//! `PRAGMA data_version` shows whether another connection has committed since the last check; it opens a snapshot and reads no page of
//! the file. Until a commit, a statement with the same arguments returns the same rows, so they are returned from memory; after a
//! commit all rows are dropped. A revocation is therefore visible to the next request.
//!
//! If nearly every probe follows a commit, the cache only adds cost: after a hit rate below 50 %, the next probes run without it.

use std::any::Any;
use std::collections::HashMap;

use rusqlite::Connection;

use crate::pool::argument::Arguments;

/// Maximum number of entries of one connection. If it is exceeded, all are dropped.
const ROWS_KEPT_MAX: usize = 8192;

/// Maximum number of probes that run without the cache after a generation with a low hit rate.
const PAUSE_MAX: u32 = 4096;

/// The cached rows of one connection.
#[derive(Default)]
pub(in crate::pool) struct Kept {
    /// `PRAGMA data_version` when the rows were read, or earlier.
    version: Option<i64>,
    rows: HashMap<Vec<u8>, Box<dyn Any + Send>>,
    /// Number of cache hits since the last commit.
    hits: usize,
    /// Number of further probes to run without the cache.
    pause: u32,
    /// Length of the next pause, in probes.
    next_pause: u32,
}

impl Kept {
    /// The key of a statement with these arguments; `None` during a pause.
    pub(in crate::pool) fn key(
        &mut self,
        connection: &Connection,
        sql: &'static str,
        arguments: &Arguments<'_>,
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        if self.pause > 0 {
            self.pause -= 1;
            return Ok(None);
        }
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version != Some(version) {
            self.renew();
            self.version = Some(version);
        }
        let mut key = Vec::with_capacity(64);
        // Statements are constants of the program, so the address identifies the text.
        key.extend_from_slice(&sql.as_ptr().addr().to_ne_bytes());
        for argument in arguments.iter() {
            argument.encode_key(&mut key);
        }
        Ok(Some(key))
    }

    /// The cached rows of this key.
    pub(in crate::pool) fn get<T: Any + Clone>(&mut self, key: &[u8]) -> Option<T> {
        let rows = self.rows.get(key)?.downcast_ref::<T>()?.clone();
        self.hits += 1;
        Some(rows)
    }

    /// Caches rows that were read after the key was made.
    pub(in crate::pool) fn keep<T: Any + Clone + Send>(&mut self, key: Vec<u8>, rows: &T) {
        if self.rows.len() >= ROWS_KEPT_MAX {
            self.renew();
        }
        self.rows.insert(key, Box::new(rows.clone()));
    }

    /// Drops all rows.
    fn renew(&mut self) {
        let is_useful = self.rows.is_empty() || self.hits * 2 >= self.rows.len();
        self.next_pause = if is_useful { 0 } else { (self.next_pause * 2).clamp(16, PAUSE_MAX) };
        self.pause = self.next_pause;
        self.rows.clear();
        self.hits = 0;
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::argument::Argument;

    struct World {
        reader: Connection,
        other: Connection,
        kept: Kept,
        _folder: tempfile::TempDir,
    }

    const SQL: &str = "SELECT fact FROM facts WHERE id = $1";

    fn arguments(argument: Argument<'_>) -> Arguments<'_> {
        let mut arguments = Arguments::default();
        arguments.push(argument);
        arguments
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let [reader, other] = [0, 1].map(|_| Connection::open(folder.path().join("facts.db")).unwrap());
            other.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
            other.execute_batch("CREATE TABLE facts (id INTEGER PRIMARY KEY, fact INTEGER)").unwrap();
            Self { reader, other, kept: Kept::default(), _folder: folder }
        }

        /// Returns the cached fact; if there is none, caches `fact`.
        fn ask(&mut self, id: i64, fact: i64) -> Option<i64> {
            let key = self.kept.key(&self.reader, SQL, &arguments(Argument::Integer(id))).unwrap()?;
            let row = self.kept.get(&key);
            if row.is_none() {
                self.kept.keep(key, &fact);
            }
            row
        }

        fn commit(&self) {
            self.other.execute("INSERT INTO facts (fact) VALUES (1)", []).unwrap();
        }
    }

    #[test]
    fn rows_are_kept_until_anything_is_committed() {
        let mut world = World::new();
        assert_eq!(world.ask(1, 10), None);
        assert_eq!((world.ask(1, 11), world.ask(1, 12)), (Some(10), Some(10)));
        assert_eq!((world.ask(2, 20), world.ask(2, 21)), (None, Some(20)));
        world.commit();
        assert_eq!((world.ask(1, 13), world.ask(1, 14)), (None, Some(13)));
        // A read on the connection itself sees the commit before the next check does.
        world.commit();
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        assert_eq!(world.reader.query_row("SELECT COUNT(*) FROM facts", [], count).unwrap(), 2);
        assert_eq!(world.ask(1, 15), None);
    }

    #[test]
    fn rows_of_another_type_are_not_mistaken_for_one_another() {
        let mut world = World::new();
        assert_eq!(world.ask(1, 10), None);
        let key = world.kept.key(&world.reader, SQL, &arguments(Argument::Integer(1))).unwrap().unwrap();
        assert_eq!(world.kept.get::<String>(&key), None);
        let text = world.kept.key(&world.reader, SQL, &arguments(Argument::Text("1".into()))).unwrap().unwrap();
        assert_ne!(key, text);
    }

    #[test]
    fn nothing_is_kept_for_a_while_where_every_probe_follows_a_commit() {
        let mut world = World::new();
        let mut looks = 0;
        for id in 0..1000 {
            world.commit();
            world.ask(id, id);
            looks += usize::from(world.kept.pause == 0);
        }
        assert!(looks < 50, "{looks}");
        // Rows are cached again after they are used.
        let mut count = 0;
        for _ in 0..2 * PAUSE_MAX {
            count += u32::from(world.ask(1, 1).is_some());
        }
        assert!(count > PAUSE_MAX / 2, "{count}");
    }

    #[test]
    fn a_connection_keeps_a_bounded_number_of_rows() {
        let mut world = World::new();
        for id in 0..3 * i64::try_from(ROWS_KEPT_MAX).unwrap() {
            world.ask(id, id);
            assert!(world.kept.rows.len() <= ROWS_KEPT_MAX);
        }
    }
}
