//! The data folder: whether it is there and private, how much room it has, and whether its disk tells the truth.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Finding;
use crate::config::Settings;

const FOLDER: &str = "data folder";
const OUTBOX: &str = "outbox";
const DISK: &str = "disk";

/// Below this an operator should look.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// How often a block is written and waited for.
const SYNCS: usize = 25;

/// No disk that keeps its word is quicker.
const SYNC_TOO_QUICK: Duration = Duration::from_micros(20);

/// Above this every event waits long.
const SYNC_SLOW: Duration = Duration::from_millis(30);

pub(super) fn look(settings: &Settings) -> Vec<Finding> {
    let (folder, embedded) = (&settings.data.dir, settings.database.url.is_none());
    if !folder.exists() {
        if !embedded {
            return Vec::new();
        }
        let found = format!("{} is not there yet", folder.display());
        return vec![Finding::doubtful(FOLDER, found, "`attache serve` makes it; is data.dir right?")];
    }
    let mut findings = vec![access(FOLDER, folder), room(folder), synced(folder)];
    let outbox = folder.join(crate::app::OUTBOX);
    if outbox.exists() {
        findings.push(access(OUTBOX, &outbox));
    }
    findings
}

/// The server makes its folders for its own user alone. The rights of a folder that exists are left to the operator, who may have given a
/// group access on purpose.
fn access(about: &'static str, folder: &Path) -> Finding {
    let shown = folder.display();
    let mode = match fs::metadata(folder) {
        Ok(about) if about.is_dir() => about.permissions().mode() & 0o777,
        Ok(_) => return Finding::bad(about, format!("{shown} is no folder"), "set data.dir to one"),
        Err(error) => return Finding::bad(about, format!("{shown}: {error}"), "let the server's user read it"),
    };
    if mode & 0o022 != 0 {
        let found = format!("{shown} can be changed by other users (mode {mode:03o})");
        let advice = format!("`chmod go-w {shown}`: a user who can replace files in it controls the server");
        return Finding::doubtful(about, found, advice);
    }
    if mode & 0o077 != 0 {
        let found = format!("{shown} can be listed by other users (mode {mode:03o})");
        return Finding::doubtful(about, found, format!("`chmod go-rwx {shown}`, unless that is meant"));
    }
    Finding::good(about, format!("{shown}, mode {mode:03o}"))
}

fn room(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(about) => {
            let free = about.f_bavail * about.f_frsize;
            let found = format!("{:.1} GB free", gigabytes(free));
            if free >= FREE_BYTES_MIN {
                return Finding::good(DISK, found);
            }
            Finding::doubtful(
                DISK,
                found,
                "make room: with a full disk events are refused with 424 until there is some",
            )
        }
        Err(error) => Finding::bad(DISK, error, "is it mounted?"),
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
                "let the server's user write there",
            );
        }
    };
    let found = format!("{:.2} ms until a block is on the disk", median.as_secs_f64() * 1e3);
    if median < SYNC_TOO_QUICK {
        let advice = "no disk is that quick: where fsync lies, a power cut loses what was acknowledged";
        return Finding::doubtful(SYNC, found, advice);
    }
    if median > SYNC_SLOW {
        return Finding::doubtful(SYNC, found, "every event waits that long: put data.dir on a faster disk");
    }
    Finding::good(SYNC, found)
}

/// Writes as the databases do: a block at the end of a file, and then waits.
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
