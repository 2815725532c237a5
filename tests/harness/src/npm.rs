//! The packages that tests use from npm: a folder that `make tools` fills from `tests/npm/package-lock.json`, and one with coding agents
//! that `make agents` fills from `tests/agents/package-lock.json`.

use std::env;
use std::path::PathBuf;

use crate::postgres::required;

/// The lock file of the packages; its hash is in the name of the folder.
const LOCK_FILE: &[u8] = include_bytes!("../../npm/package-lock.json");

/// The folder with `node_modules`: `ATTACHE_TEST_NPM`, or the folder of `make tools`. `None` if it is absent, which is reported on standard
/// error.
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

/// The lock file of the coding agents.
const AGENTS_LOCK_FILE: &[u8] = include_bytes!("../../agents/package-lock.json");

/// The program of a coding agent, by its path below `node_modules`. `None` if it is absent, which is reported on standard error; no run
/// requires it, because the packages are large and some only exist for a few platforms.
pub fn agent(path: &str) -> Option<PathBuf> {
    let program = tools::folder("agents", AGENTS_LOCK_FILE)?.join("node_modules").join(path);
    if program.is_file() {
        return Some(program);
    }
    eprintln!(
        "SKIPPED: there is no {}: `make agents` installs it where it exists: this test has shown nothing",
        program.display()
    );
    None
}
