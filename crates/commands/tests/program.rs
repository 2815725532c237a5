//! The commands of the program `attache-client`. `tests/cli/client.rs` runs it with a server.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::process::{Command, Output};

fn client(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_attache-client")).args(arguments).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn it_is_named_with_its_version() {
    let version = client(&["--version"]);
    assert_eq!(text(&version.stdout), format!("attache-client {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn its_help_lists_the_commands_of_the_client_alone() {
    let help = text(&client(&["--help"]).stdout);
    for command in ["login", "connect", "search", "verify", "hook", "mcp", "manual"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    for command in ["serve", "admin", "doctor", "demo"] {
        assert!(!help.contains(&format!("\n  {command} ")), "{command}: {help}");
        assert_eq!(client(&[command]).status.code(), Some(2), "{command}");
    }
    assert!(!help.contains("Run a server") && !help.contains("attache serve"), "{help}");
}
