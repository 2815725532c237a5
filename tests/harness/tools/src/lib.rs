//! The folders in which `make tools` installs the packages that tests need: one per lock file, named after its content; folders in
//! [`memory`], and the [`watchdog`] of a test run. The program `test-folder` creates the folder for temporary files of a run, and
//! `test-times` prints the durations of tests.

pub mod memory;
pub mod watchdog;

use std::env;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// The folder of a lock file: `$XDG_CACHE_HOME/attache/<name>-<the first 16 digits of the lock file's SHA-256>`, as the Makefile names it.
/// `None` if neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn folder(name: &str, lock_file: &[u8]) -> Option<PathBuf> {
    let digest = Sha256::digest(lock_file);
    let head = digest.iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
    Some(cache()?.join(format!("{name}-{head:016x}")))
}

/// The folder with everything that `make tools` installs: `$XDG_CACHE_HOME/attache`. `None` as for [`folder`].
pub fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("attache"))
}
