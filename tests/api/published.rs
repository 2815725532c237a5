//! The clients that this repository publishes, `sdk/python` and `sdk/typescript`: their own tests against a running server, their
//! types, and their packages as they are uploaded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::npm;
use harness::python::{self, Packages};
use serde_json::Value;
use tokio::process::Command;

use app::config::Settings;
use blackbox::client::Credential;
use blackbox::world::World;

/// The tests poll at the pace of the server: less than the time after which the test runner ends this test.
const DEADLINE: Duration = Duration::from_secs(200);

fn repository() -> PathBuf {
    // Not the folder in which this was built: build products may be shared by several checkouts.
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
}

/// All computers and agents of the tests come from one address.
fn settings(settings: &mut Settings) {
    settings.limits.registrations_per_minute = 0;
    settings.limits.claim_starts_per_minute = 0;
    settings.limits.code_guesses_per_minute = 0;
}

/// A copy of a client's folder that the test may write to.
async fn copied(world: &World, client: &str) -> PathBuf {
    let copy = world.dir.path().join(client);
    let source = repository().join("sdk").join(client);
    let (from, to) = (source, copy.clone());
    tokio::task::spawn_blocking(move || copy_folder(&from, &to)).await.unwrap();
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_symlink()
            || ["dist", "node_modules", "__pycache__", ".mypy_cache"].iter().any(|skipped| name == *skipped)
        {
            continue;
        }
        if path.is_dir() {
            copy_folder(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Passes the server, the session of a person who approves, and an API key to the tests.
async fn connect(command: &mut Command, world: &World) {
    let (person, key) = world.librarian("ada@example.com").await;
    let (Credential::Cookie(cookie), Credential::Bearer(key)) = (person.cookie, key) else {
        panic!("no session or no key")
    };
    command.env("ATTACHE_TEST_URL", &world.url).env("ATTACHE_TEST_SESSION", cookie).env("ATTACHE_TEST_KEY", key);
    command.env("ATTACHE_TEST_VECTORS", repository().join("tests/vectors")).env("NO_PROXY", "*");
}

/// Runs a program to its end; returns its standard output.
async fn run(mut command: Command) -> String {
    let ran = tokio::time::timeout(DEADLINE, command.kill_on_drop(true).output()).await.unwrap().unwrap();
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}{errors}");
    output.into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_passes_its_tests_against_a_server() {
    let Some(interpreter) = python::with(Packages::Client) else { return };
    let world = World::with(settings).await;
    let folder = copied(&world, "python").await;
    let mut tests = Command::new(interpreter);
    tests.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s", "tests"]);
    tests.current_dir(&folder).env("PYTHONPATH", "src:tests").env("PYTHONUTF8", "1");
    connect(&mut tests, &world).await;
    run(tests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_is_typed_and_its_package_is_complete() {
    let Some(interpreter) = python::with(Packages::Client) else { return };
    let world = World::on_sqlite().await;
    let folder = copied(&world, "python").await;
    let python = |arguments: &[&str]| {
        let mut python = Command::new(&interpreter);
        python.args(arguments).current_dir(&folder).env("PYTHONPATH", "").env("MYPYPATH", "src:tests");
        python
    };
    run(python(&["-m", "mypy", "--strict", "src", "tests", "examples"])).await;
    run(python(&["-m", "build", "--no-isolation", "--outdir", "built"])).await;
    let wheel = "attache_client-0.1.0-py3-none-any.whl";
    let listed = run(python(&["-m", "zipfile", "--list", &format!("built/{wheel}")])).await;
    for file in ["attache_client/_sync.py", "attache_client/py.typed", "licenses/LICENSE"] {
        assert!(listed.contains(file), "{file} is not in {listed}");
    }
    assert!(folder.join("built/attache_client-0.1.0.tar.gz").exists());
    let about = run(python(&[
        "-c",
        &format!(
            "import sys; sys.path.insert(0, 'built/{wheel}'); import attache_client; print(attache_client.__version__)"
        ),
    ]));
    assert_eq!(about.await, "0.1.0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_passes_its_tests_against_a_server() {
    let Some(packages) = npm::packages() else { return };
    let world = World::with(settings).await;
    let folder = copied(&world, "typescript").await;
    tokio::fs::symlink(packages.join("node_modules"), folder.join("node_modules")).await.unwrap();
    let description = world.get("/openapi.json", &Credential::None).await.body;
    tokio::fs::write(folder.join("openapi.json"), description).await.unwrap();
    let node = |arguments: &[&str]| {
        let mut node = Command::new("node");
        node.args(arguments).current_dir(&folder);
        node
    };
    run(node(&["node_modules/typescript/bin/tsc", "--project", "."])).await;
    // The types of tests and examples, and the client's types compared with the types of the description.
    run(node(&["node_modules/openapi-typescript/bin/cli.js", "openapi.json", "--output", "tests/openapi.d.ts"])).await;
    run(node(&["node_modules/typescript/bin/tsc", "--project", "tests"])).await;
    let mut tests = node(&["--test", "tests/"]);
    connect(&mut tests, &world).await;
    run(tests).await;

    let mut pack = Command::new("npm");
    pack.args(["pack", "--dry-run", "--json", "--ignore-scripts", "--offline"]).current_dir(&folder);
    let packed: Value = serde_json::from_str(&run(pack).await).unwrap();
    let files: Vec<&str> =
        packed[0]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    for file in
        ["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/node.d.ts", "src/index.ts"]
    {
        assert!(files.contains(&file), "{file} is not in {files:?}");
    }
    assert!(files.iter().all(|file| !file.starts_with("tests/")), "{files:?}");
}
