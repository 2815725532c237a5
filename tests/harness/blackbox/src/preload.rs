//! Libraries in C that a program loads before its own (`LD_PRELOAD`), to fail system calls or to shift its clock.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the source at `source`, a path in the repository, into the folder `into`. Returns the path of the library; `None` without a C
/// compiler, which is reported on standard error.
pub fn compiled(source: &str, into: &Path) -> Option<PathBuf> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    let source = Path::new(&root).join(source);
    let library = into.join(source.file_name().unwrap()).with_extension("so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).arg(source).arg("-ldl");
    match compiler.output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            assert!(
                !harness::postgres::required(),
                "no C compiler, and ATTACHE_TEST_REQUIRE_ALL=1 asks for everything: {error}"
            );
            eprintln!("SKIPPED: there is no C compiler (cc: {error}): this test has shown nothing");
            return None;
        }
    }
    Some(library)
}
