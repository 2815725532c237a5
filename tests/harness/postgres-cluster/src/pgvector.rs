//! The PostgreSQL with pgvector that `make tools` got from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::cluster::Programs;

/// Below the folder of the Python packages, and of every copy.
const BIN: &str = "pgserver/pginstall/bin";
/// The environment of the programs; they look for libraries beside their own folder.
const PARTS: [&str; 4] =
    ["pgserver/pginstall/bin", "pgserver/pginstall/lib", "pgserver/pginstall/share", "pgserver.libs"];

/// Its path in the folder that `make tools` and `harness::python` name after the list of packages.
pub fn find() -> Option<Programs> {
    let pythons = fs::read_dir(folder()?.join("lib")).ok()?.flatten().map(|entry| entry.path().join("site-packages"));
    let packages = pythons.into_iter().find(|packages| packages.join(BIN).join("initdb").is_file())?;
    Programs::at(packages.join(BIN), Some(packages))
}

/// Whether `make tools` found no build for this machine.
pub fn is_unavailable() -> bool {
    folder().is_some_and(|folder| folder.join("unavailable").exists())
}

fn folder() -> Option<PathBuf> {
    tools::folder("python-pgvector", include_bytes!("../../../python/pgvector.txt"))
}

/// Copies the programs from `packages` to a folder where the user `postgres` may run them: it cannot read root's home.
pub fn copy(packages: &Path, to: &Path) -> io::Result<PathBuf> {
    for part in PARTS {
        let (from, to) = (packages.join(part), to.join(part));
        let parent = to.parent().ok_or_else(|| io::Error::other("a folder without a parent"))?;
        fs::create_dir_all(parent)?;
        if !Command::new("cp").arg("-R").arg(&from).arg(parent).status()?.success() {
            return Err(io::Error::other(format!("cannot copy {}", from.display())));
        }
    }
    Ok(to.join(BIN))
}

/// The programs that were copied for a cluster, if they were.
pub fn copied(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(BIN)).filter(|programs| programs.is_dir())
}
