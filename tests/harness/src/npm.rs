//! The packages that tests use from npm: a folder that `make tools` fills from `tests/npm/package-lock.json`.

use std::env;
use std::path::PathBuf;

use crate::postgres::required;

/// The lock file of the packages; its hash is in the name of the folder.
const LOCK_FILE: &[u8] = include_bytes!("../../npm/package-lock.json");

/// The folder that has `node_modules`: `ATTACHE_TEST_NPM`, or where `make tools` has put it. `None`, and a word on
/// standard error, when it is not there.
///
/// # Panics
/// When it is not there although it is [`required`].
pub fn packages() -> Option<PathBuf> {
    let folder = env::var_os("ATTACHE_TEST_NPM").map(PathBuf::from).or_else(|| tools::folder("npm", LOCK_FILE))?;
    if folder.join("node_modules").is_dir() {
        return Some(folder);
    }
    let missing = format!("no npm packages in {}: `make tools` installs them", folder.display());
    assert!(!required(), "{missing}, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component");
    eprintln!("SKIPPED: {missing}: this test has shown nothing");
    None
}
