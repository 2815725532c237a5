//! Input and output errors under SQLite: writes that fail with EIO, and a disk that cannot be synchronised.
//!
//! A library that is preloaded into the server (`faults.c`, built here) makes system calls fail as a control file states.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::patient::{KINDS, Patient, home, is_soak, rounds};
use blackbox::preload;
use blackbox::process::Home;

/// The preloaded library and its control file.
struct Faults {
    control: PathBuf,
}

impl Faults {
    /// Builds the library; returns the home with it, or `None` without a compiler.
    fn under(home: Home) -> Option<(Self, Home)> {
        let control = home.dir.path().join("faults");
        let library = preload::compiled("tests/faults/faults.c", home.dir.path())?;
        let home = home.preloading(&library).environment("ATTACHE_TEST_FAULTS", control.to_str().unwrap());
        Some((Self { control }, home))
    }

    /// Calls of this kind (`write`, `sync`) fail on files with `part` in their path.
    fn begin(&self, kind: &str, part: &str) {
        // Written to another file and renamed, so that it is never read incomplete.
        let whole = self.control.with_extension("new");
        fs::write(&whole, format!("{kind} {part}")).unwrap();
        fs::rename(whole, &self.control).unwrap();
    }

    fn end(&self) {
        fs::remove_file(&self.control).unwrap();
    }
}

async fn survives(kind: &str) {
    let Some((faults, home)) = Faults::under(home()) else { return };
    let mut patient = Patient::begin(home).await;
    for _ in 0..rounds() {
        for (file, part, kinds) in [("statistics.db", "log", &KINDS[..1]), ("attache.db", "store", &KINDS[1..])] {
            faults.begin(kind, file);
            patient.suffers(kinds, part).await;
            if is_soak() {
                tokio::time::sleep(Duration::from_secs(5)).await;
                patient.suffers(kinds, part).await;
            }
            faults.end();
            patient.recovers().await;
        }
    }
    patient.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_writes_that_fail_are_refused_and_lose_nothing() {
    survives("write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_disk_that_cannot_be_synchronised_is_refused_and_loses_nothing() {
    survives("sync").await;
}
