//! The commands of the README and of the documents for newcomers work as printed, twice in a row on the same computer and with an installed
//! program: the blocks of each document run one after the other, in one shell.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::{installed_with_pip, made, only};

/// Documents with commands, each with output that its commands print.
const DOCUMENTS: [(&str, &[&str]); 5] = [
    ("README.md", &["\"user_code\":", "\"type\":\"complete\"", "\"title\": \"Roses\"", "backup-", "ada@example.com"]),
    (
        "docs/first-hour.md",
        &[
            "attached to the account of ada@example.com",
            "a key for the memory",
            "the proof holds",
            "1 added",
            " 1. Bread",
        ],
    ),
    (
        "docs/agents.md",
        &[
            "\"1.0.0\"",
            "\"ok\": true",
            "\"scope\": \"svc.account\"",
            "\"receipt_id\":",
            "\"status\": \"claimed\"",
            "the proof holds",
            "\"unclassified\": []",
        ],
    ),
    (
        "docs/memory.md",
        &[
            "\"message\": \"Space created successfully\"",
            "\"type\":\"complete\"",
            "\"title\": \"Roses\"",
            "Settings updated successfully",
            "1 added",
            " 1. Bread",
        ],
    ),
    ("docs/command-line.md", &["consistent"]),
];

/// The line with which each document finds the binary.
const FIND: &str = r#"PATH="$PWD/target/release:$PATH""#;

/// The person at the browser: approves the code that `attache login` shows, with the box for the key.
const PERSON: &str = r#"
person() {
  local cookie
  until [ -e "$HOME/.config/attache/default/attach.json" ]; do sleep 0.1; done
  cookie=$(command attache admin session create --email ada@example.com)
  curl -fsS "$URL/device" -H "Cookie: $cookie" -H "Origin: $URL" -H 'Sec-Fetch-Site: same-origin' -d decision=approve -d with_key=yes \
    -d "user_code=$(jq -r .code.user_code "$HOME/.config/attache/default/attach.json")" > /dev/null
}
attache() {
  if [ "$1" != login ]; then
    command attache "$@"
    return
  fi
  person < /dev/null &
  local person=$!
  command attache "$@"
  kill "$person" 2> /dev/null || true
}
"#;

/// A server that ends with the test.
struct Server {
    /// The folder with the program.
    binaries: PathBuf,
    process: Child,
    url: String,
    folder: TempDir,
}

const ENVIRONMENT: [(&str, &str); 2] = [("ATTACHE_HTTP__BIND", "127.0.0.1:0"), ("ATTACHE_ADMIN__BIND", "127.0.0.1:0")];

impl Server {
    fn start(binaries: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new(binaries.join("attache"));
        server.arg("serve").current_dir(folder.path()).envs(ENVIRONMENT).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = server.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let url = ready.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { binaries, process, url, folder }
    }

    /// Runs a script in the folder of the server as a person with an empty home; returns its output.
    fn run(&self, name: &str, script: &str) -> (String, String) {
        let text = format!("PATH=\"{}:$PATH\"", self.binaries.display());
        assert!(script.contains(FIND), "{name} does not say where the binary is");
        let script = script.replace(FIND, &text).replace("http://127.0.0.1:8080", &self.url);
        let mut run = Command::new("bash");
        let script = format!("set -euo pipefail\nURL={}\n{PERSON}\n{script}", self.url);
        run.arg("-c").arg(script).current_dir(self.folder.path()).envs(ENVIRONMENT);
        // The commands find the server at the address that the documents print.
        run.env("ATTACHE_URL", &self.url);
        // The user who runs the tests may have profiles and keys.
        run.env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME").env_remove("ATTACHE_API_KEY");
        let run = run.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{name}: {}\n{out}\n{err}", run.status);
        (out.into_owned(), err.into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The blocks marked `sh`, in order.
fn commands(document: &str) -> String {
    let blocks = document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_commands_of_every_document_work_as_printed_twice_in_a_row() {
    let Some(out) = made("wheel", &["python3"]) else { return };
    let installed = installed_with_pip(&only(out.path(), ".whl"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let server = Server::start(installed.path().join("bin"));
    for round in ["first", "second"] {
        for (name, printed) in DOCUMENTS {
            let text = std::fs::read_to_string(root.join(name)).unwrap();
            let (out, _) = server.run(&format!("{name}, {round} time"), &commands(&text));
            for shown in printed {
                assert!(out.contains(shown), "{name}, {round} time: {shown} is missing in\n{out}");
            }
        }
        // The commands wrote a proof. With a changed letter, it is invalid.
        let forged = format!(
            "{FIND}\nVKEY=$(curl -s $URL/api/v1/audit/keys | jq -r '.keys[0].vkey')\ncp proof.json forged.json\n\
             sed -i 's/\"receipt_id\":\"01/\"receipt_id\":\"02/' forged.json\nif attache verify forged.json --vkey \"$VKEY\"; then exit 9; fi\n"
        );
        let (_, err) = server.run("a forged proof", &forged);
        assert!(err.contains("the proof does not hold"), "{err}");
    }
}
