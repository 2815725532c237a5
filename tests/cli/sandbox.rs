//! The process that reads pages and PDFs, as the shipped program runs it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use blackbox::eventually;
use blackbox::process::Home;

/// The value of a field of `/proc/<pid>/status`, of each thread.
fn field(child: &Child, name: &str) -> Option<Vec<String>> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
    let of_thread = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
    };
    threads.map(|thread| of_thread(thread.ok()?.path())).collect()
}

#[tokio::test]
async fn a_worker_is_confined_before_it_reads_the_head() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    let piped = command.arg("extract-worker").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(b"{}\n").unwrap();
    let confined =
        async || field(&child, "Seccomp").filter(|modes| modes.len() == 2 && modes.iter().all(|mode| mode == "2"));
    eventually("every thread has its filter", confined).await;
    assert_eq!(field(&child, "NoNewPrivs").unwrap(), ["1", "1"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    for name in ["Max processes", "Max open files", "Max file size", "Max core file size"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{name}");
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Field 19, which is counted from behind the name of the program (proc_pid_stat(5)).
    let nice =
        |stat: &str| stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse::<i32>().unwrap();
    assert!(nice(&stat) > nice(&own) || nice(&own) == 19, "{stat}");
    stdin.write_all(b"{\"media_type\":\"text/html\",\"charset\":null,\"url\":null}\n<p>Some words").unwrap();
    drop(stdin);
    let response = BufReader::new(stdout).lines().map(Result::unwrap).find(|line| !line.is_empty()).unwrap();
    let response: Value = serde_json::from_str(&response).unwrap();
    assert_eq!(response["extracted"]["markdown"], "Some words", "{response}");
    assert_eq!(response["confinement"], json!({ "landlock": "full", "seccomp": true }), "{response}");
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_missing_system_features() {
    let sandbox = |home: &Home| {
        let value: Value = serde_json::from_str(&home.run(&["doctor", "--json"]).stdout).unwrap();
        value["findings"].as_array().unwrap().iter().find(|finding| finding["about"] == "sandbox").unwrap().clone()
    };
    let whole = sandbox(&Home::new());
    assert_eq!((&whole["state"], &whole["found"]), (&json!("good"), &json!("landlock, seccomp")));
    let folder = tempfile::tempdir().unwrap();
    let worker = |response: &str| {
        let path = folder.path().join("worker");
        std::fs::write(&path, format!("#!/bin/sh\necho '{response}'\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Home::new().set("knowledge.worker", path.to_str().unwrap())
    };
    let extracted = r#""extracted":{"title":null,"markdown":"word","kind":"page"}}"#;
    let without = sandbox(&worker(&format!(r#"{{"confinement":{{"landlock":"none","seccomp":false}},{extracted}"#)));
    assert_eq!((&without["state"], &without["found"]), (&json!("doubtful"), &json!("no landlock, no seccomp")));
    assert!(without["advice"].as_str().unwrap().contains("Landlock (Linux 5.13)"), "{without}");
    let broken = sandbox(&worker("nothing"));
    assert_eq!(broken["state"], "bad", "{broken}");
    assert!(broken["advice"].as_str().unwrap().contains("knowledge.worker"), "{broken}");
}
