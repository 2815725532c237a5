//! `attache admin node`: each server lists all servers on its PostgreSQL database.

use blackbox::eventually;
use blackbox::process::{Home, Server};
use serde_json::Value;

/// Name of the list's member with the address of the operator's listener.
const OPERATOR: &str = "operator_address";

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_database_is_listed_until_it_stops() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = || Home::new().set("database.url", &database.url);
    let (one, two) = (home(), home());
    let (first, mut second) = (one.serve().await, two.serve().await);
    for home in [&one, &two] {
        let nodes = listed(home, 2).await;
        for server in [&first, &second] {
            let node = nodes.iter().find(|node| node[OPERATOR] == address(server)).unwrap();
            assert_eq!(node["version"], env!("CARGO_PKG_VERSION"), "{node}");
            assert_eq!(node["configuration"], nodes[0]["configuration"], "both have the same settings: {node}");
        }
        let with_sequencer = nodes.iter().filter(|node| node["sequencer"] == true).count();
        assert!(with_sequencer <= 1, "{nodes:?}");
        let table = home.run(&["admin", "node", "list"]);
        let table = table.said();
        for server in [&first, &second] {
            assert!(table.contains(address(server)), "{table}");
        }
    }
    second.process.signal("TERM");
    assert!(second.process.exit().await.success(), "{}", second.process.stderr.text());
    let nodes = listed(&two, 1).await;
    assert_eq!(nodes[0][OPERATOR], address(&first), "a node that stopped has left the list");
}

/// The nodes, as soon as there are this many and all are ready.
async fn listed(home: &Home, count: usize) -> Vec<Value> {
    eventually("all nodes are ready", async || {
        let nodes = home.run(&["admin", "node", "list", "--json"]).json();
        let nodes = nodes.as_array().unwrap().clone();
        (nodes.len() == count && nodes.iter().all(|node| node["status"] == "ready")).then_some(nodes)
    })
    .await
}

/// The address of the operator's listener, without the scheme.
fn address(server: &Server) -> &str {
    server.operator.strip_prefix("http://").unwrap()
}
