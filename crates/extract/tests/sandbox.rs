//! Forbidden operations, attempted in a real extraction process; each attempt succeeds outside of the sandbox.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "any unexpected value fails the test")]

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

/// The probe's result for each attempt.
fn tried(place: &str, attempts: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox-probe"));
    command.arg(place).args(attempts.iter().flat_map(|(name, on)| [*name, *on]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn files_network_programs_and_processes_are_out_of_reach() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (database, created, linked, socket) = (at("attache.db"), at("created"), at("linked"), at("socket"));
    std::fs::write(&database, "facts").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let _unix = UnixListener::bind(&socket).unwrap();
    let parent = std::process::id().to_string();
    let (environment, memory) = (format!("/proc/{parent}/environ"), format!("/proc/{parent}/mem"));
    let attempts = [
        ("read", database.as_str()),
        ("write", &database),
        ("look", &database),
        ("create", &created),
        ("link", &linked),
        ("remove", &created),
        ("list", folder.path().to_str().unwrap()),
        ("read", &environment),
        ("write", &memory),
        ("read", "/proc/self/environ"),
        ("read", "/etc/passwd"),
        ("connect", &address),
        ("listen", "127.0.0.1:0"),
        ("send", "127.0.0.1:0"),
        ("unix", &socket),
        ("execute", "/bin/true"),
        ("thread", ""),
        ("see", &parent),
        ("signal", &parent),
        ("unlimit", ""),
    ];
    // The kernel may protect the memory of other processes even without the sandbox.
    let outside = tried("outside", &attempts);
    for ((name, on), said) in attempts.iter().zip(&outside).filter(|((_, on), _)| *on != memory) {
        assert_eq!(said, "done", "{name} {on}");
    }
    let _ = std::fs::remove_file(&linked);
    let inside = tried("inside", &attempts);
    assert_eq!(inside.len(), attempts.len() + 1);
    assert!(!inside[0].contains("no "), "this kernel has no sandbox: {}", inside[0]);
    for ((name, on), said) in attempts.iter().zip(&inside[1..]) {
        assert!(said.starts_with("refused: "), "{name} {on}: {said}");
        // The error comes from the sandbox: the target exists.
        let by_kernel = ["not implemented", "not permitted", "Permission denied", "temporarily unavailable"];
        assert!(by_kernel.iter().any(|why| said.contains(why)), "{name} {on}: {said}");
    }
    assert!(!folder.path().join("created").exists() && !folder.path().join("linked").exists());
}
