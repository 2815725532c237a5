//! `test-folder`: the folder for the temporary files of the tests of one run, in memory if possible.
//!
//! The test runner calls it before the tests (`.config/nextest.toml`). It creates the folder and passes its path to the tests in `TMPDIR`.
//! A watchdog, left behind, removes the folder when the runner has ended, for any reason.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::ExitCode;

use tools::{memory, watchdog};

const VARIABLE: &str = "TMPDIR";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => make(),
        ["watch", run, maker, folder] => watchdog::watch(run, maker, folder.as_ref(), remove),
        _ => Err(io::Error::other("usage: test-folder")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("test-folder: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates the folder and passes its path to the tests, unless the caller of the runner has chosen one.
fn make() -> io::Result<()> {
    let Some(file) = env::var_os("NEXTEST_ENV") else { return Ok(()) };
    if env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    // Tests write programs into their folders and run them.
    let folder = memory::make_folder("tests", true)?;
    watchdog::leave_behind(parent_id(), &folder)?;
    writeln!(OpenOptions::new().append(true).open(file)?, "{VARIABLE}={}", folder.display())
}

fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)
}
