//! Schemathesis sends requests that the description allows, and many that it does not, and checks each response.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use harness::python::{self, Packages};

use blackbox::client::Credential;
use blackbox::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn soak_responses_of_the_account_surface_match_the_description() {
    fuzz("^/(?!v1/)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_responses_of_the_knowledge_surface_match_the_description() {
    fuzz("^/v1/").await;
}

/// Sends generated requests to each path of the surface: a few examples, or, with `ATTACHE_SOAK=1`, for five minutes.
async fn fuzz(paths: &str) {
    let Some(python) = python::with(Packages::Schemathesis) else { return };
    // No delays, and no page of the web is fetched.
    let world = World::with(|settings| {
        settings.limits.registrations_per_minute = 0;
        settings.limits.claim_starts_per_minute = 0;
        settings.limits.code_guesses_per_minute = 0;
        settings.limits.sign_ins_per_minute = 0;
        settings.limits.link_reads_per_minute = 0;
        // Endpoints can be added, but no notification is sent to them.
        settings.webhooks.enabled = true;
        settings.webhooks.look_every = Duration::from_hours(1);
    })
    .await;
    let person = world.person("zoe@example.com").await;
    let (machine, agent) = (world.attached_machine(&person).await, world.agent_of(&person).await);
    let (_, key) = world.librarian("zoe@example.com").await;
    let soak = std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1");
    // Without a given seed it chooses one and prints it.
    let extent: &[&str] =
        if soak { &["--max-examples=100000", "--max-time=300"] } else { &["--max-examples=12", "--seed=1"] };
    let config =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/api/openapi/schemathesis.toml");
    let ran = Command::new(python)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(config)
        .args(["run", &format!("{}/openapi.json", world.url), "--checks=all", "--workers=1", "--no-color"])
        .args(["--generation-database=none", "--include-path-regex", paths])
        .args(extent)
        .envs([
            ("ATTACHE_ACCOUNT", secret(&agent.token)),
            ("ATTACHE_MACHINE", machine.secret.as_str()),
            ("ATTACHE_SESSION", secret(&person.cookie)),
            ("ATTACHE_KEY", secret(&key)),
        ])
        .current_dir(world.dir.path())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let problems = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("generated"), "{said}\n{problems}");
    eprintln!("{}", said.lines().rfind(|line| line.contains("generated")).unwrap_or_default());
}

/// The value after `Bearer` or after the name of the cookie.
fn secret(credential: &Credential) -> &str {
    match credential {
        Credential::None => "",
        Credential::Bearer(token) => token,
        Credential::Cookie(pair) => pair.split_once('=').unwrap().1,
    }
}
