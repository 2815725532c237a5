//! Where `make tools` puts what the tests need: a folder per lock file, named after what stands in that.

use std::env;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// `$XDG_CACHE_HOME/attache/<name>-<the first 16 digits of the lock file's SHA-256>`, as the Makefile has it.
pub fn folder(name: &str, lock_file: &[u8]) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let digest = Sha256::digest(lock_file);
    let head = digest.iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
    Some(cache.join("attache").join(format!("{name}-{head:016x}")))
}
