//! The commands of the guides if the server is unavailable or refuses: they lose no data, mark no step as done, and do not end the shell
//! that they share.

use std::path::Path;
use std::process::Command;

use tokio::net::TcpSocket;

use super::{commands, functions, guide};
use blackbox::world::World;

/// The output of a script, which is killed when it waits for the third time.
fn alone(script: &str, folder: &Path) -> String {
    let naps = "naps=0\nsleep() { naps=$((naps + 1)); echo \"waits $1\"; if [ $naps = 3 ]; then exit 0; fi; }";
    let mut printed = String::new();
    // An interactive shell sets no options; a script may set all options.
    for options in ["set +e", "set -euo pipefail"] {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("{options}\n{naps}\n{script}")).current_dir(folder).env("NO_PROXY", "*");
        let end = shell.output().unwrap();
        printed = String::from_utf8(end.stdout).unwrap();
        assert!(end.status.success(), "{options}: {}\n{printed}\n{}", end.status, String::from_utf8_lossy(&end.stderr));
        assert_eq!(printed.matches("went on").count(), script.matches("went on").count(), "{options}: {printed}");
    }
    printed
}

/// A folder with the state of an advanced reader.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("agent.json", r#"{"claim_token": "clm_x"}"#),
        ("tokens.json", r#"{"identity_assertion": "old", "access_token": "at_old"}"#),
        ("device.json", r#"{"device_code": "dvc_x", "interval": 5}"#),
        ("machine.json", r#"{"machine_secret": "msk_old"}"#),
        ("answer.json", r#"{"receipt_id": "of the event before", "access_token": "at_x", "expected": {"seq": 9}}"#),
        ("attached.json", r#"{"status": "claimed"}"#),
        ("proof.json", r#"{"status": "included"}"#),
        ("event.json", "{}"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const PLACE: &str = "TOKEN=at_x EPOCH=0 SEQ=4 PREV=a SELF=b EVENT=019b76da-a800-7274-8acf-2e56e162ebd9\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_waited_for() {
    let world = World::on_sqlite().await;
    // Bound and not listening, so that connections are refused.
    let away = TcpSocket::new_v4().unwrap();
    away.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base = format!("http://{}", away.local_addr().unwrap());
    let text = guide(&world, "/llms-full.txt").await.replace(&world.url, &base);
    let functions = functions(&text);
    for (call, said) in [
        ("wait_for_tokens agent.json tokens.json", "no answer\nwaits 5\n"),
        ("wait_until_attached", "no answer\nwaits 5\n"),
        ("send", "000 \nwaits 5\n"),
        ("prove \"$EVENT\"", "waits 1\n"),
    ] {
        let folder = folder();
        let printed = alone(&format!("{functions}\n{PLACE}{call}\necho done"), folder.path());
        assert_eq!(printed, said.repeat(3), "{call}");
        let content = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(content.contains("at_old"), "{call}: {content}");
    }
    // A failed command does not replace existing files.
    for (file, old) in [("tokens.json", "\"old\""), ("machine.json", "msk_old")] {
        let replacing = format!("mv {}", if file == "tokens.json" { "renewed.json" } else { "registered.json" });
        let block = text.split("\n```").skip(1).step_by(2).find(|block| block.contains(&replacing)).unwrap();
        let folder = folder();
        alone(&(commands(&format!("\n```{block}\n```")) + "\necho went on"), folder.path());
        let content = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(content.contains(old), "{file}: {content}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_not_sent_is_sent_when_the_server_is_back() {
    let world = World::on_sqlite().await;
    let functions = functions(&guide(&world, "/llms-full.txt").await);
    let agent = world.unclaimed().await.1;
    let blackbox::client::Credential::Bearer(token) = agent else { unreachable!() };
    let folder = folder();
    // The server restarts while the command waits.
    let script = format!(
        "curl() {{ if [ $naps = 0 ]; then command curl --proxy http://127.0.0.1:1 --noproxy '' \"$@\"; else command curl \"$@\"; fi; }}\n\
         {functions}\n{PLACE}TOKEN={token}\nsend\necho \"went on at $SEQ\""
    );
    let printed = alone(&script, folder.path());
    assert!(printed.starts_with("000 \nwaits 5\n202 {\"held\":true"), "{printed}");
    assert!(printed.ends_with("went on at 4\n"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_ends_the_step_and_not_the_shell() {
    let world = World::on_sqlite().await;
    let ada = world.person("ada@example.com").await;
    let blackbox::client::Credential::Bearer(token) = world.agent_of(&ada).await.token else { unreachable!() };
    let functions = functions(&guide(&world, "/llms-full.txt").await);
    for (call, said) in [
        ("wait_for_tokens agent.json tokens.json", "expired_token\n"),
        ("wait_until_attached", "expired_token\n"),
        ("prove \"$EVENT\"", "404: 019b76da-a800-7274-8acf-2e56e162ebd9 is not in the log; perhaps it is held\n"),
        ("prove nonsense", "400 {\"error\":\"invalid_event_id\"}\n"),
        ("seal memory.stored memory full '{}' 2> /dev/null", ""),
        ("seal memory.stored memory '' '{}'", "the level of memory is \"\": nothing may be recorded\n"),
    ] {
        let folder = folder();
        let script = format!("{functions}\n{PLACE}TOKEN={token}\n{call} || echo \"went on\"");
        assert_eq!(alone(&script, folder.path()), format!("{said}went on\n"), "{call}");
        let content = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(content.contains("at_old"), "{call}: {content}");
    }
}
