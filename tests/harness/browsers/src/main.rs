//! `browsers`: the folder in which the tests of one run share their browsers.
//!
//! The test runner calls it before the tests (`.config/nextest.toml`). It creates the folder and passes its path to the tests in
//! `ATTACHE_TEST_BROWSERS`. A test starts a browser there if none is free, and leaves it to the next test (`tests/browser/shared.rs`).
//! A background watchdog ends the browsers and removes the folder when the runner has ended, for any reason.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use tools::{memory, watchdog};

const VARIABLE: &str = "ATTACHE_TEST_BROWSERS";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => make(),
        ["watch", run, maker, folder] => watchdog::watch(run, maker, folder.as_ref(), remove),
        _ => Err(io::Error::other("usage: browsers")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("browsers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates the folder and passes its path to the tests.
fn make() -> io::Result<()> {
    // Without the runner each test starts its own browser.
    let Some(file) = env::var_os("NEXTEST_ENV") else { return Ok(()) };
    if env::var_os(VARIABLE).is_some() {
        return Ok(()); // the caller brought a folder
    }
    let folder = memory::make_folder("browsers", false)?;
    watchdog::leave_behind(parent_id(), &folder)?;
    writeln!(OpenOptions::new().append(true).open(file)?, "{VARIABLE}={}", folder.display())
}

/// Ends the browser of each subfolder that has a file `process` with its number, and removes the folder.
fn remove(folder: &Path) -> io::Result<()> {
    for place in fs::read_dir(folder)? {
        let place = place?.path();
        let Ok(browser) = fs::read_to_string(place.join("process")) else { continue };
        // The number could belong to another process by now; the arguments of the browser name its folder.
        let arguments = Command::new("ps").args(["-ww", "-o", "args=", "-p", &browser]).output()?;
        if String::from_utf8_lossy(&arguments.stdout).contains(&*place.to_string_lossy()) {
            // Fails only if it has ended already, which is as good.
            Command::new("kill").args(["-KILL", &browser]).stderr(Stdio::null()).status()?;
        }
    }
    fs::remove_dir_all(folder)
}
