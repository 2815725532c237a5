//! The README's walk from a registration to a proof works as printed: its commands are run, one after the other, in one shell.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The blocks marked `sh`, in order.
fn commands(readme: &str) -> String {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_command_of_the_walk_works_as_printed() {
    let readme = include_str!("../README.md");
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_attache");
    let environment = [("ATTACHE_HTTP__BIND", "127.0.0.1:0"), ("ATTACHE_ADMIN__BIND", "127.0.0.1:0")];
    let mut server = Command::new(binary);
    server.arg("serve").current_dir(folder.path()).envs(environment).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server(server.spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let url = ready.split_whitespace().find(|word| word.starts_with("http://")).unwrap();

    // The printed alias builds; a script has no aliases anyway.
    let alias = "alias attache='cargo run --quiet --release --'";
    let commands = commands(readme);
    assert!(commands.contains(alias) && commands.contains("http://127.0.0.1:8080"));
    let function = format!("attache() {{ '{binary}' \"$@\"; }}");
    let script = commands.replace(alias, &function).replace("http://127.0.0.1:8080", url);
    let script = format!(
        "set -euo pipefail\n{script}\ncp proof.json forged.json\nsed -i 's/\"receipt_id\":\"01/\"receipt_id\":\"02/' forged.json\nif attache verify forged.json --vkey \"$VKEY\"; then exit 9; fi\n"
    );
    let mut run = Command::new("bash");
    run.arg("-c").arg(&script).current_dir(folder.path()).envs(environment);
    // The user who runs the tests may have profiles.
    run.env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
    let run = run.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{}\n{out}\n{err}", run.status);
    for shown in [
        "\"ok\": true",
        "\"scope\": \"svc.account\"",
        "\"receipt_id\":",
        "\"status\": \"claimed\"",
        "the proof holds",
        "\"unclassified\": []",
        "\"message\": \"Space created successfully\"",
        "\"type\":\"complete\"",
        "\"title\": \"Roses\"",
        "Settings updated successfully",
        "space Kitchen is created",
        "1 added",
        " 1. Bread",
    ] {
        assert!(out.contains(shown), "{shown} is missing in\n{out}");
    }
    assert!(err.contains("the proof does not hold"), "{err}");
}
