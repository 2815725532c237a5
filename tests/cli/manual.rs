//! `attache completions`, `attache manual` and the help are generated from the argument parser.

use std::io::Write;
use std::process::{Command, Stdio};

use blackbox::process::Home;

#[test]
fn completions_are_scripts_that_the_shell_accepts() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = home.run(&["completions", shell]);
        assert!(output.said().contains("consent") && output.said().contains("no-wait"), "{shell}");
        assert!(!output.said().contains('\u{1b}'), "{shell}");
    }
    let script = home.run(&["completions", "bash"]).said().to_owned();
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
    home.run(&["completions", "cobol"]).refused(2, &["cobol"]);
}

#[test]
fn the_manual_has_every_command_and_its_examples() {
    let home = Home::new();
    let output = home.run(&["manual"]);
    let page = output.said();
    assert!(page.contains(".TH attache 1"), "{}", &page[..200]);
    for section in ["ATTACH", "CONSENT SET", "AGENT TOKEN", "VERIFY", "AUDIT WATCH", "ADMIN HELD RELEASE", "SERVE"] {
        assert!(page.contains(&format!(".SH \"ATTACHE {section}\"")), "{section}");
    }
    assert!(page.contains("attache consent set off"), "examples are in it");
    assert!(page.is_ascii(), "old readers of manual pages know no other letters");
    assert!(!page.contains("EXTRACT"), "an internal command is documented");
}

#[test]
fn every_command_has_help_and_a_wrong_one_is_usage() {
    let home = Home::new();
    let help = home.run(&["--help"]);
    for command in [
        "attach",
        "agent",
        "usage",
        "consent",
        "activity",
        "verify",
        "audit",
        "profile",
        "key",
        "completions",
        "manual",
    ] {
        assert!(help.said().contains(&format!("\n  {command} ")), "{command}: {help:?}");
        assert!(home.run(&[command, "--help"]).said().contains("Usage: attache"), "{command}");
    }
    for group in ["Start here", "Your account", "Events and proofs", "Memory", "Agents", "Run a server"] {
        assert!(help.said().contains(&format!("\n{group}:\n")), "{group}: {help:?}");
    }
    assert!(home.run(&["attach", "--help"]).said().lines().count() <= 45);
    home.run(&["atach"]).refused(2, &["attach"]);
    home.run(&["agent"]).refused(2, &["register"]);
}
