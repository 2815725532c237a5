//! The samples of `docs/deploy/` are valid for the programs that read them, and agree with the defaults of the server. A program that is
//! not installed is reported, and is a failure with `ATTACHE_TEST_REQUIRE_ALL=1`: `make tools` installs all four.

use std::path::{Path, PathBuf};
use std::process::Command;

use app::config::Settings;

use crate::{root, text};

fn sample(name: &str) -> PathBuf {
    root().join("docs/deploy").join(name)
}

/// The program, also in folders for administrators; `None`, and a message on standard error, if it is not installed and may be absent.
fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(
            !harness::postgres::required(),
            "{name} is not installed, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component"
        );
        eprintln!("SKIPPED: {name} is not installed: this test has shown nothing");
    }
    found
}

fn assert_accepts(program: &Path, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success(), "{} {arguments:?}: {said}", program.display());
    for word in ["WARNING", "Unknown key", "Unknown lvalue"] {
        assert!(!said.contains(word), "{} {arguments:?}: {said}", program.display());
    }
}

#[test]
fn haproxy_reads_its_sample() {
    let Some(haproxy) = program("haproxy") else { return };
    assert_accepts(&haproxy, &["-c", "-V", "-f", sample("haproxy.cfg").to_str().unwrap()]);
}

#[test]
fn nginx_reads_its_sample() {
    let Some(nginx) = program("nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(nginx)
        .args(["-t", "-p", folder.path().to_str().unwrap(), "-g", "error_log stderr;"])
        .args(["-c", sample("nginx.conf").to_str().unwrap()])
        .output()
        .unwrap();
    // It then opens log files and folders of the system, which only an administrator may.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("syntax is ok") && !said.contains("[warn]"), "{said}");
}

#[test]
fn caddy_reads_its_sample() {
    let Some(caddy) = program("caddy") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = sample("Caddyfile");
    let done = Command::new(caddy)
        .args(["validate", "--adapter", "caddyfile", "--config", file.to_str().unwrap()])
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn systemd_reads_its_sample() {
    let Some(analyze) = program("systemd-analyze") else { return };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("attache.service");
    // The program of the sample is not installed here.
    let installed = text("docs/deploy/attache.service").replace("/usr/local/bin/attache", "/bin/true");
    std::fs::write(&unit, installed).unwrap();
    assert_accepts(&analyze, &["verify", "--man=no", unit.to_str().unwrap()]);
    // Its exposure, in tenths: 100 is a service without a sandbox.
    assert_accepts(&analyze, &["security", "--offline=true", "--threshold=20", unit.to_str().unwrap()]);
}

#[test]
fn samples_agree_with_the_defaults() {
    let settings = Settings::default();
    let large = settings.knowledge.batch.body_bytes_max >> 20;
    let heartbeat = settings.knowledge.batch.heartbeat.as_secs();
    let files = [
        ("nginx.conf", format!("client_max_body_size {large}m;"), "proxy_read_timeout "),
        ("Caddyfile", format!("max_size {large}MiB"), ""),
        ("haproxy.cfg", String::new(), "timeout server "),
    ];
    for (name, body, idle) in files {
        let sample = text(&format!("docs/deploy/{name}"));
        assert!(sample.contains(&body), "{name}: {body}");
        for path in ["/v1/batch-add", "/knowledge/add"].into_iter().filter(|_| !body.is_empty()) {
            assert!(sample.contains(path.trim_start_matches('/')), "{name}: {path}");
        }
        if let Some((_, rest)) = sample.split_once(idle).filter(|_| !idle.is_empty()) {
            let seconds: u64 = rest.split('s').next().unwrap().parse().unwrap();
            assert!(seconds > 2 * heartbeat, "{name}: an idle stream ends after {seconds} s");
        }
    }
    let unit = text("docs/deploy/attache.service");
    let stop: u64 = unit.split_once("TimeoutStopSec=").unwrap().1.split('s').next().unwrap().parse().unwrap();
    assert!(stop > settings.shutdown.drain_deadline.as_secs() + 10, "the lame duck of the samples lasts 10 s");
    let files: u64 = unit.split_once("LimitNOFILE=").unwrap().1.lines().next().unwrap().parse().unwrap();
    assert!(files >= u64::try_from(settings.http.connections_max).unwrap() + settings.http.descriptors_reserved);
}
