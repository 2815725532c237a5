//! Checks the data folder: its existence and mode, the free space, and the duration of `fsync`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use app::config::Settings;

use super::finding::Finding;

const FOLDER: &str = "data folder";
const OUTBOX: &str = "outbox";
const DISK: &str = "disk";

/// Free space in bytes below which the operator is warned.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Number of measured writes.
const SYNCS: usize = 25;

/// Duration of `fsync` below which the disk cannot have written the data.
const SYNC_TOO_QUICK: Duration = Duration::from_micros(20);

/// Duration of `fsync` above which it dominates the latency of events.
const SYNC_SLOW: Duration = Duration::from_millis(30);

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    let (folder, embedded) = (&settings.data.dir, settings.database.url.is_none());
    if !folder.exists() {
        if !embedded {
            return Vec::new();
        }
        let text = format!("{} does not exist yet", folder.display());
        return vec![Finding::doubtful(FOLDER, text, "`attache serve` creates it; check data.dir")];
    }
    let mut findings = vec![access(FOLDER, folder), room(folder), synced(folder)];
    let outbox = folder.join(app::OUTBOX);
    if outbox.exists() {
        findings.push(access(OUTBOX, &outbox));
    }
    findings
}

/// Checks the mode of a folder. The server creates its folders with mode 0700, but does not change existing ones, because the operator may
/// have given a group access on purpose.
fn access(about: &'static str, folder: &Path) -> Finding {
    let path = folder.display();
    let mode = match fs::metadata(folder) {
        Ok(about) if about.is_dir() => about.permissions().mode() & 0o777,
        Ok(_) => return Finding::bad(about, format!("{path} is not a folder"), "set data.dir to a folder"),
        Err(error) => return Finding::bad(about, format!("{path}: {error}"), "give the server's user access"),
    };
    if mode & 0o022 != 0 {
        let text = format!("{path} can be changed by other users (mode {mode:03o})");
        let advice = format!("`chmod go-w {path}`: a user who can replace files in it controls the server");
        return Finding::doubtful(about, text, advice);
    }
    if mode & 0o077 != 0 {
        let text = format!("{path} can be listed by other users (mode {mode:03o})");
        return Finding::doubtful(about, text, format!("`chmod go-rwx {path}`, unless this is intended"));
    }
    Finding::good(about, format!("{path}, mode {mode:03o}"))
}

fn room(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(about) => {
            let free = about.f_bavail * about.f_frsize;
            let text = format!("{:.1} GB free", gigabytes(free));
            if free >= FREE_BYTES_MIN {
                return Finding::good(DISK, text);
            }
            Finding::doubtful(DISK, text, "free some space: events are refused with 424 while the disk is full")
        }
        Err(error) => Finding::bad(DISK, error, "check that the file system is mounted"),
    }
}

fn synced(folder: &Path) -> Finding {
    const SYNC: &str = "fsync";
    let median = match measured(folder) {
        Ok(mut times) => {
            times.sort_unstable();
            times[SYNCS / 2]
        }
        Err(error) => {
            return Finding::bad(
                SYNC,
                format!("a file in {} cannot be written: {error}", folder.display()),
                "give the server's user write access",
            );
        }
    };
    let duration = format!("{:.2} ms to write a block to the disk", median.as_secs_f64() * 1e3);
    if median < SYNC_TOO_QUICK {
        let advice = "no disk is that fast: if fsync does not write, a power failure loses acknowledged events";
        return Finding::doubtful(SYNC, duration, advice);
    }
    if median > SYNC_SLOW {
        return Finding::doubtful(SYNC, duration, "every event waits this long: move data.dir to a faster disk");
    }
    Finding::good(SYNC, duration)
}

/// Measures writes as the databases do them: append a block, then sync.
fn measured(folder: &Path) -> io::Result<[Duration; SYNCS]> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = [Duration::ZERO; SYNCS];
    for time in &mut times {
        let begin = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        *time = begin.elapsed();
    }
    Ok(times)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}
