//! Checks a running server: whether it is ready, and which of its periodic passes fail.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use app::config::Settings;
use domain::reasons;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::finding::Finding;
use commands::failure::{Done, Failure, FailureKind};
use commands::output;

const SERVER: &str = "server";
const PASSES: &str = "passes";

/// Timeout of a request to the operator's listener.
const DEADLINE: Duration = Duration::from_secs(10);

/// Timeout of `attache health`: less than the usual timeouts of container checks.
const HEALTH_DEADLINE: Duration = Duration::from_secs(3);

/// `status` of a ready server.
const READY: &str = "ready";

/// `GET /readyz`
#[derive(Deserialize)]
struct Readiness {
    status: String,
    #[serde(default)]
    draining: bool,
    #[serde(default)]
    failing: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    part: String,
    reason: String,
}

/// `GET /actors`
#[derive(Deserialize)]
struct Tree {
    children: Vec<Child>,
}

#[derive(Deserialize)]
struct Child {
    name: String,
    failing: Option<FailingPasses>,
}

#[derive(Deserialize)]
struct FailingPasses {
    error: String,
    passes: u64,
    since_seconds_ago: u64,
}

/// Requests `/readyz` and `/actors`. A server that does not run is not a problem, because `doctor` may run before the first start.
pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    let Some(address) = reachable(settings.admin.bind) else {
        return vec![Finding::good(SERVER, "not checked: admin.bind has no fixed port")];
    };
    let client = match client(DEADLINE) {
        Ok(client) => client,
        Err(error) => return vec![Finding::bad(SERVER, reasons(&error), "check the TLS settings")],
    };
    let readiness = match asked::<Readiness>(&client, &format!("http://{address}/readyz")).await {
        Ok(readiness) => readiness,
        Err(error) if error.is_connect() => {
            return vec![Finding::good(SERVER, format!("not running at {address} (admin.bind)"))];
        }
        Err(error) => {
            let advice = "check that no other program listens at admin.bind and that the server responds";
            return vec![Finding::bad(SERVER, format!("{address}: {}", reasons(&error)), advice)];
        }
    };
    let passes = match asked::<Tree>(&client, &format!("http://{address}/actors")).await {
        Ok(tree) => judged(&tree),
        Err(error) => Finding::bad(PASSES, reasons(&error), "check the server's log"),
    };
    vec![ready(&readiness, address), passes]
}

/// `attache health`: succeeds if the server of this configuration is ready.
pub async fn health(settings: &Settings) -> Done {
    let Some(address) = reachable(settings.admin.bind) else {
        return Err(Failure::refused("the server cannot be asked: admin.bind has no fixed port; set one"));
    };
    let client = client(HEALTH_DEADLINE).map_err(Failure::caused)?;
    let readiness = asked::<Readiness>(&client, &format!("http://{address}/readyz")).await;
    let readiness = readiness.map_err(|error| {
        let reason = format!("no server answers at {address} (admin.bind): {}", reasons(&error));
        Failure::of(FailureKind::Unreachable, reason)
    })?;
    let finding = ready(&readiness, address);
    if readiness.status != READY {
        return Err(Failure::of(FailureKind::Temporary, finding.found));
    }
    output::print(&finding.found);
    Ok(())
}

fn client(deadline: Duration) -> reqwest::Result<reqwest::Client> {
    http_client::builder().no_proxy().timeout(deadline).build()
}

async fn asked<T: DeserializeOwned>(client: &reqwest::Client, url: &str) -> reqwest::Result<T> {
    client.get(url).send().await?.json().await
}

fn ready(Readiness { status, draining, failing }: &Readiness, address: SocketAddr) -> Finding {
    if status == READY {
        return Finding::good(SERVER, format!("ready at {address}"));
    }
    let mut why: Vec<String> = failing.iter().map(|Part { part, reason }| format!("{part}: {reason}")).collect();
    if *draining {
        why.push("it is shutting down".to_owned());
    }
    let advice = "requests are refused until each of these works again; the server recovers without a restart";
    Finding::bad(SERVER, format!("unready at {address}: {}", why.join("; ")), advice)
}

fn judged(tree: &Tree) -> Finding {
    let failing = tree.children.iter().filter_map(|child| {
        let FailingPasses { error, passes, since_seconds_ago } = child.failing.as_ref()?;
        Some(format!("{}: failing for {since_seconds_ago} s ({passes} passes): {error}", child.name))
    });
    let failing: Vec<String> = failing.collect();
    if failing.is_empty() {
        return Finding::good(PASSES, "the last pass of every periodic actor succeeded");
    }
    Finding::bad(
        PASSES,
        failing.join("; "),
        "they are retried automatically; until they succeed, their work is not done",
    )
}

/// The address at which a listener can be reached from this computer; `None` if its port is chosen by the system.
fn reachable(bind: SocketAddr) -> Option<SocketAddr> {
    let here = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (bind.port() != 0).then(|| SocketAddr::new(here, bind.port()))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn readiness_and_failing_passes_are_reported() {
        let address = "127.0.0.1:8081".parse().unwrap();
        let finding = |text: &str| ready(&serde_json::from_str(text).unwrap(), address);
        assert_eq!(finding(r#"{"status":"ready","store":"ok"}"#).state, State::Good);
        let unready =
            finding(r#"{"status":"unready","draining":true,"failing":[{"part":"log","reason":"disk full"}]}"#);
        assert_eq!(unready.state, State::Bad);
        assert!(unready.found.ends_with("log: disk full; it is shutting down"), "{}", unready.found);

        let passes = |text: &str| judged(&serde_json::from_str(text).unwrap());
        assert_eq!(passes(r#"{"children":[{"name":"janitor","restarts":0}]}"#).state, State::Good);
        let failing = r#"{"error":"the tree","passes":9,"since_seconds_ago":4}"#;
        let failing = passes(&format!(r#"{{"children":[{{"name":"sequence","failing":{failing}}}]}}"#));
        assert_eq!(failing.state, State::Bad);
        assert_eq!(failing.found, "sequence: failing for 4 s (9 passes): the tree");
    }

    #[test]
    fn a_listener_on_every_address_is_reached_on_this_machine() {
        let at = |bind: &str| reachable(bind.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(at("0.0.0.0:8081").as_deref(), Some("127.0.0.1:8081"));
        assert_eq!(at("[::]:8081").as_deref(), Some("[::1]:8081"));
        assert_eq!(at("10.0.0.1:8081").as_deref(), Some("10.0.0.1:8081"));
        assert_eq!(at("127.0.0.1:0"), None);
    }
}
