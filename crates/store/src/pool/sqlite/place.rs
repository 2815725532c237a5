//! Checks whether the open files of an SQLite database are still the files at its path.
//!
//! SQLite writes to the files that it has opened. If their names were removed, moved, reused or covered by a mount, a commit succeeds but
//! is lost to the next start. Therefore the device and inode numbers of the open files are compared with the files at the path: by every
//! commit if the last comparison is older than [`COMPARED_FOR`], and before a further connection is opened.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

/// Time for which a comparison is valid.
const COMPARED_FOR: Duration = Duration::from_secs(1);

/// The reason of a rejected commit.
pub(super) const REFUSED: &str = "the file of the database is not at its path any more; the log of the server names it";

/// Device and inode number of a file.
type Identity = (u64, u64);

/// The files of a database that this process opened first. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct FilePlace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Opened,
    /// The write-ahead log, which SQLite creates with the first transaction and keeps while a connection is open.
    log: Opened,
    compared: Mutex<Option<Compared>>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    /// `None` until the file exists.
    identity: Mutex<Option<Identity>>,
}

#[derive(Debug, Clone)]
struct Compared {
    at: Instant,
    fault: Option<String>,
}

impl FilePlace {
    /// Records the file at this path, before it is opened.
    pub(super) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let opened = |path: PathBuf| Opened { path, identity: Mutex::default() };
        let place = Self(Arc::new(Shared {
            file: opened(path.to_owned()),
            log: opened(PathBuf::from(log)),
            compared: Mutex::default(),
        }));
        let file = &place.0.file;
        // If the path cannot be read, opening it fails with an error.
        *file.identity() = identity(&file.path).ok();
        place
    }

    /// Size of the write-ahead log in bytes; 0 if there is none.
    pub(super) fn log_bytes(&self) -> u64 {
        fs::metadata(&self.0.log.path).map_or(0, |about| about.len())
    }

    /// Why commits are rejected; `None` while the files are in their place.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = self.0.file.fault().or_else(|| self.0.log.fault());
        let mut compared = self.0.compared();
        let previous = compared.replace(Compared { at: Instant::now(), fault: fault.clone() });
        let was_fault = previous.is_some_and(|previous| previous.fault.is_some());
        let file = self.0.file.path.display();
        match &fault {
            Some(fault) if !was_fault => tracing::error!(%file, "{fault}"),
            None if was_fault => tracing::info!(%file, "the file is in its place again, and writes are accepted"),
            _ => {}
        }
        fault
    }

    /// The same for a commit, which uses a recent comparison.
    fn recent_fault(&self) -> Option<String> {
        let recent = self.0.compared().clone().filter(|compared| compared.at.elapsed() < COMPARED_FOR);
        match recent {
            Some(compared) => compared.fault,
            None => self.fault(),
        }
    }

    /// Fails instead of opening another connection, which would open different files.
    pub(super) fn check(&self) -> rusqlite::Result<()> {
        self.fault().map_or(Ok(()), |fault| Err(moved(fault)))
    }

    /// Turns commits of a connection into rollbacks while the files are not in their place.
    pub(super) fn guard(&self, connection: &Connection) -> rusqlite::Result<()> {
        let place = self.clone();
        connection.commit_hook(Some(move || place.recent_fault().is_some()))
    }
}

impl Shared {
    fn compared(&self) -> MutexGuard<'_, Option<Compared>> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn identity(&self) -> MutexGuard<'_, Option<Identity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Option<String> {
        let now = identity(&self.path);
        let mut opened = self.identity();
        let found = match (&now, *opened) {
            (Ok(now), None) => {
                *opened = Some(*now);
                return None;
            }
            (Err(_), None) => return None,
            (Ok(now), Some(opened)) if *now == opened => return None,
            (Ok(_), _) => "there is another file now".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        Some(format!(
            "{} is not the file that was opened: {found}. It was removed, moved, replaced or covered by a mount, so writes are \
             refused: they would be lost. Put the file back; or restart the server, which then uses the file at the path",
            self.path.display()
        ))
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|about| (about.dev(), about.ino()))
}

fn moved(message: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), Some(message))
}

/// Converts the error of a commit that `FilePlace::guard` rejected into an error of the file. Other errors are unchanged.
pub fn refused_commit(error: rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().map(|failure| failure.extended_code);
    let is_refused = code == Some(ffi::SQLITE_CONSTRAINT_COMMITHOOK);
    if is_refused { moved(REFUSED.to_owned()) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        connection: Connection,
        place: FilePlace,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("data")).unwrap();
            let path = folder.path().join("data/a.db");
            fs::write(&path, b"").unwrap();
            let place = FilePlace::of(&path);
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
            connection.execute_batch("CREATE TABLE facts (fact INTEGER)").unwrap();
            place.guard(&connection).unwrap();
            let world = Self { folder, connection, place };
            assert_eq!(world.place.fault(), None);
            world
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self) -> rusqlite::Result<usize> {
            self.connection.execute("INSERT INTO facts VALUES (1)", []).map_err(refused_commit)
        }

        fn is_refused(&self) {
            assert!(self.place.fault().is_some());
            let refused = self.write().unwrap_err();
            assert_eq!(refused.sqlite_error().unwrap().extended_code, ffi::SQLITE_READONLY_DBMOVED);
            assert!(self.place.check().unwrap_err().to_string().contains("Put the file back"));
            assert!(self.connection.is_autocommit());
        }
    }

    #[test]
    fn a_commit_is_refused_while_the_file_is_moved_away() {
        let world = World::new();
        world.write().unwrap();
        for name in ["data", "data/a.db", "data/a.db-wal"] {
            fs::rename(world.path(name), world.path("away")).unwrap();
            world.is_refused();
            fs::rename(world.path("away"), world.path(name)).unwrap();
            assert_eq!(world.place.fault(), None);
            world.write().unwrap();
        }
        let facts: i64 = world.connection.query_row("SELECT COUNT(*) FROM facts", [], |row| row.get(0)).unwrap();
        assert_eq!(facts, 4, "a refused one is not there");
    }

    #[test]
    fn a_commit_is_refused_after_the_file_was_removed_or_replaced() {
        for name in ["data/a.db", "data/a.db-wal"] {
            let world = World::new();
            fs::remove_file(world.path(name)).unwrap();
            world.is_refused();
            fs::write(world.path(name), b"").unwrap();
            world.is_refused();
        }
    }
}
