//! The folder of the spool: `hooks` in the folder of a profile, mode 0700, its files 0600.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use domain::Rng;
use hooks::Salt;

use crate::profile_folder::ProfileFolder;

/// Name of the folder.
const NAME: &str = "hooks";

/// Delay between two attempts to lock.
const LOCK_EVERY: Duration = Duration::from_micros(500);

/// The folder of the spool of one profile.
#[derive(Debug, Clone)]
pub struct HookFolder {
    /// The same folder, for files that are replaced as a whole.
    pub files: ProfileFolder,
    path: PathBuf,
}

impl HookFolder {
    /// The folder of a profile; `None` if there is no such profile. A hook does not create profiles.
    pub fn of(profile: &str) -> Option<Self> {
        let profile = ProfileFolder::of(profile).ok().filter(ProfileFolder::exists)?;
        let files = profile.below(NAME);
        Some(Self { path: files.path().to_owned(), files })
    }

    /// Creates the folder if it is missing.
    pub fn make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the folder still exists.
    pub fn is_there(&self) -> bool {
        self.path.is_dir()
    }

    /// Path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file for appending, and creates it if it is missing.
    pub fn append(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(self.file(name))
    }

    /// Locks `name` until the file is dropped; `None` if another process holds the lock now.
    pub fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
        let file = self.append(&format!("{name}.lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks `name` within a time.
    pub fn lock_within(&self, name: &str, limit: Duration) -> io::Result<File> {
        let end = Instant::now() + limit;
        loop {
            if let Some(lock) = self.try_lock(name)? {
                return Ok(lock);
            }
            if Instant::now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{name} stays locked")));
            }
            sleep(LOCK_EVERY);
        }
    }

    /// The random bytes of the profile; they are created by the first hook.
    pub fn salt(&self) -> io::Result<Salt> {
        let path = self.file("salt");
        let read = || -> io::Result<Option<Salt>> {
            match fs::read(&path) {
                Ok(bytes) => Ok(<[u8; 16]>::try_from(bytes).ok().map(Salt)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        if let Some(salt) = read()? {
            return Ok(salt);
        }
        // Another hook may create it at the same time: the first one to give its file the name wins.
        let mut own = tempfile::NamedTempFile::new_in(&self.path)?;
        own.write_all(&Rng::system().bytes::<16>())?;
        match own.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            _ => read()?.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the salt is damaged")),
        }
    }
}
