//! What the tests have from npm: a folder that `make tools` fills from `tests/npm/package-lock.json`.

use std::env;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::postgres::required;

/// The file that says what is installed; the folder has its name from it.
const LOCK_FILE: &[u8] = include_bytes!("../../npm/package-lock.json");

/// The folder that has `node_modules`: `ATTACHE_TEST_NPM`, or where `make tools` has put it. `None`, and a word on
/// standard error, when it is not there.
///
/// # Panics
/// When it is not there although it is [`required`].
pub fn packages() -> Option<PathBuf> {
    let folder = env::var_os("ATTACHE_TEST_NPM").map(PathBuf::from).or_else(default_folder)?;
    if folder.join("node_modules").is_dir() {
        return Some(folder);
    }
    let missing = format!("no npm packages in {}: `make tools` installs them", folder.display());
    assert!(!required(), "{missing}, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component");
    eprintln!("SKIPPED: {missing}: this test has shown nothing");
    None
}

/// `$XDG_CACHE_HOME/attache/npm-…`, as the Makefile has it.
fn default_folder() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let digest = Sha256::digest(LOCK_FILE);
    let head = digest.iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
    Some(cache.join("attache").join(format!("npm-{head:016x}")))
}
