//! Checks of a PostgreSQL server that concern acknowledged events: standbys, durability, connections, long transactions.

use app::config::Settings;
use domain::reasons;
use store::Pool;
use store::pool::{ServerStatus, servers_of};

use super::finding::Finding;

const REPLICATION: &str = "replication";
const DURABILITY: &str = "durability";
const CONNECTIONS: &str = "connections";
const TRANSACTIONS: &str = "transactions";

/// Age of a transaction in seconds above which it is reported: it keeps PostgreSQL from removing old rows, and may hold locks.
const TRANSACTION_SECONDS_MAX: i64 = 300;

/// The risk of an asynchronous standby of a log, and the remedies of the operator.
pub(super) const OF_EVENTS: &str = "a failover to it can lose acknowledged events, and the log is halted then: set synchronous_standby_names, or \
    follow docs/operations.md, After a restore or failover";

/// The same of the memory.
pub(super) const OF_MEMORIES: &str = "a failover to it can lose stored memories: set synchronous_standby_names";

/// Checks the server of a database; no findings for SQLite. `risk`: advice about an asynchronous standby.
pub(super) async fn check(settings: &Settings, (pool, url): (&Pool, Option<&str>), risk: &str) -> Vec<Finding> {
    match pool.server_status().await {
        Ok(Some(status)) => {
            let per_node = connections_of_node(settings, url.unwrap_or_default());
            vec![replicated(&status, risk), durable(&status), connections(&status, per_node), transactions(&status)]
        }
        Ok(None) => Vec::new(),
        // Engines with PostgreSQL's protocol may lack some views.
        Err(error) => {
            let advice = "grant the role pg_monitor, or check replication with the tools of the database";
            vec![Finding::doubtful(REPLICATION, reasons(&error), advice)]
        }
    }
}

fn replicated(status: &ServerStatus, risk: &str) -> Finding {
    let names = &status.synchronous_names;
    if status.standbys.is_empty() {
        return if names.is_empty() {
            Finding::good(REPLICATION, "no standby is connected")
        } else {
            let text = format!("synchronous_standby_names = {names:?}, and no standby is connected");
            Finding::doubtful(REPLICATION, text, "commits wait until one is connected: start it")
        };
    }
    let standbys: Vec<String> = status
        .standbys
        .iter()
        .map(|standby| {
            let state = if standby.sync_state.is_empty() { "of unknown state" } else { &standby.sync_state };
            let behind = standby.bytes_behind.map(|bytes| format!(", {bytes} bytes behind")).unwrap_or_default();
            format!("standby {:?} is {state}{behind}", standby.name)
        })
        .collect();
    let text = standbys.join("; ");
    let is_synchronous = status.standbys.iter().any(|standby| matches!(&*standby.sync_state, "sync" | "quorum"));
    if !is_synchronous {
        return Finding::doubtful(REPLICATION, text, risk);
    }
    if status.synchronous_commit == "local" {
        let text = format!("{text}; but synchronous_commit = local, so commits do not wait for it");
        return Finding::doubtful(REPLICATION, text, risk);
    }
    Finding::good(REPLICATION, text)
}

fn durable(status: &ServerStatus) -> Finding {
    let ServerStatus { fsync, synchronous_commit, full_page_writes, .. } = status;
    let text = format!("fsync {fsync}, synchronous_commit {synchronous_commit}, full_page_writes {full_page_writes}");
    if fsync != "on" || synchronous_commit == "off" {
        return Finding::bad(DURABILITY, text, "switch both on: a crash loses acknowledged events");
    }
    if full_page_writes != "on" {
        let advice = "switch full_page_writes on, unless the file system never tears a page: a crash can damage tables";
        return Finding::doubtful(DURABILITY, text, advice);
    }
    Finding::good(DURABILITY, text)
}

/// Maximum number of connections that a node opens to the server of a URL: each database there has its own.
fn connections_of_node(settings: &Settings, url: &str) -> i64 {
    let (main, memory) = (&settings.database.url, &settings.knowledge.database.url);
    let urls = main.iter().chain(memory).chain(settings.log.part.iter().map(|part| &part.url));
    let server = servers_of(url);
    urls.filter(|url| servers_of(url) == server).map(|_| i64::from(settings.database.connections_max)).sum()
}

fn connections(status: &ServerStatus, per_node: i64) -> Finding {
    let ServerStatus { connections_max, connections_open, .. } = status;
    if status.servers > 1 {
        let advice = "let the URL lead to the primary alone: locks and notifications hold on one server";
        return Finding::bad(CONNECTIONS, format!("sessions are on {} servers", status.servers), advice);
    }
    let nodes = connections_max / per_node.max(1);
    let text = format!(
        "{connections_open} of {connections_max} are open; a node opens at most {per_node}, so there is room for {nodes} nodes"
    );
    if nodes > 0 {
        return Finding::good(CONNECTIONS, text);
    }
    Finding::doubtful(CONNECTIONS, text, "raise max_connections, or lower database.connections_max")
}

fn transactions(status: &ServerStatus) -> Finding {
    match status.transaction_seconds {
        Some(seconds) if seconds > TRANSACTION_SECONDS_MAX => Finding::doubtful(
            TRANSACTIONS,
            format!("one has been open for {seconds} s"),
            "see pg_stat_activity: it keeps old rows from being removed, and may hold locks",
        ),
        _ => Finding::good(TRANSACTIONS, "none is open for long"),
    }
}

#[cfg(test)]
mod tests {
    use app::config::LogPartSettings;
    use store::pool::Standby;

    use super::super::finding::State;
    use super::*;

    fn status() -> ServerStatus {
        ServerStatus {
            synchronous_names: String::new(),
            fsync: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            connections_max: 97,
            connections_open: 20,
            transaction_seconds: None,
            standbys: Vec::new(),
            servers: 1,
        }
    }

    fn standby(sync_state: &str) -> Standby {
        Standby { name: "two".to_owned(), sync_state: sync_state.to_owned(), bytes_behind: Some(9) }
    }

    #[test]
    fn a_node_has_connections_for_each_database_of_a_server() {
        let mut settings = Settings::default();
        settings.database.connections_max = 10;
        settings.database.url = Some("postgres://one/main".to_owned());
        settings.knowledge.database.url = Some("postgres://two/memory".to_owned());
        let part = |number, url: &str| LogPartSettings { number, url: url.to_owned(), weight: 1 };
        settings.log.part = vec![part(1, "postgres://one/part"), part(2, "postgres://two/part")];
        for (url, expected) in [("postgres://one/any", 20), ("postgres://two/any", 20), ("postgres://three/any", 0)] {
            assert_eq!(connections_of_node(&settings, url), expected, "{url}");
        }
    }

    #[test]
    fn a_standby_that_can_lose_events_is_reported() {
        let judged = |standbys, names: &str, commit: &str| {
            let status = ServerStatus {
                standbys,
                synchronous_names: names.to_owned(),
                synchronous_commit: commit.to_owned(),
                ..status()
            };
            replicated(&status, "").state
        };
        assert_eq!(judged(vec![], "", "on"), State::Good);
        assert_eq!(judged(vec![], "two", "on"), State::Doubtful);
        assert_eq!(judged(vec![standby("async")], "", "on"), State::Doubtful);
        assert_eq!(judged(vec![standby("")], "", "on"), State::Doubtful);
        assert_eq!(judged(vec![standby("async"), standby("quorum")], "two", "on"), State::Good);
        assert_eq!(judged(vec![standby("sync")], "two", "local"), State::Doubtful);
        let found = replicated(&ServerStatus { standbys: vec![standby("async")], ..status() }, "").found;
        assert_eq!(found, "standby \"two\" is async, 9 bytes behind");
    }

    #[test]
    fn durability_connections_and_transactions_are_judged() {
        let torn = ServerStatus { full_page_writes: "off".to_owned(), ..status() };
        let lossy = ServerStatus { synchronous_commit: "off".to_owned(), ..status() };
        assert_eq!([&status(), &torn, &lossy].map(|it| durable(it).state), [State::Good, State::Doubtful, State::Bad]);
        assert_eq!(connections(&status(), 32).state, State::Good);
        assert!(connections(&status(), 32).found.ends_with("room for 3 nodes"));
        assert_eq!(connections(&status(), 98).state, State::Doubtful);
        let long = ServerStatus { transaction_seconds: Some(301), ..status() };
        assert_eq!([&status(), &long].map(|it| transactions(it).state), [State::Good, State::Doubtful]);
    }
}
