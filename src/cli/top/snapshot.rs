//! One reading of the state of nodes and their actors.

use std::time::Duration;

use domain::Timestamp;
use domain::clock::date_time;
use domain::ids::NodeId;
use futures_util::future::join_all;
use serde_json::{Value, json};
use supervision::root::Node;
use tokio::time::{sleep, timeout};
use wire::ops::{Cluster, KeyEntry, KeyList, NodeEntry, NodeTree};

use crate::cli::operator_client::OperatorClient;
use commands::failure::{Failure, FailureKind};

/// Maximum time of one reading.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pause before the nodes are read again, if there are none yet.
const ROW_AFTER: Duration = Duration::from_millis(200);

/// Age after which the actors that another node wrote are out of date: three of its beats.
const OLD_MS: u64 = 15_000;

/// Status of a node that writes its row no more.
const SILENT: &str = "silent";

/// The nodes that are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeScope {
    /// The node with this name of its host, or this id.
    One(String),
    /// All nodes that are not silent.
    All,
}

/// The state of nodes at one time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When it was read, by the clock of this computer.
    pub at: Timestamp,
    /// Nodes, overrides and pauses.
    pub cluster: Cluster,
    /// Keys with crashed or quarantined actors.
    pub keys: Vec<KeyEntry>,
    /// The actors of the nodes that are shown.
    pub trees: Vec<ActorTree>,
    /// Nodes without current actors, as sentences.
    pub problems: Vec<String>,
}

/// The actors of one node.
#[derive(Debug, Clone)]
pub struct ActorTree {
    /// The answer of the server.
    pub answer: NodeTree,
    /// The supervisor with its children; `None` if it did not answer.
    pub root: Option<Node>,
}

impl ActorTree {
    fn read(answer: NodeTree) -> Result<Self, String> {
        let root =
            match &answer.tree {
                Value::Null => None,
                // A copy: the answer is printed as it came.
                tree => Some(serde_json::from_value(tree.clone()).map_err(|error| {
                    format!("the actors of {} have the form of another version: {error}", answer.node)
                })?),
            };
        Ok(Self { answer, root })
    }

    /// Why the actors are absent or not current; `None` if they are current.
    fn problem(&self) -> Option<String> {
        let NodeTree { node, age_ms, .. } = &self.answer;
        match &self.root {
            None => Some(format!("the supervisor of {node} does not answer")),
            Some(_) if *age_ms > OLD_MS => Some(format!("{node} wrote its actors {} s ago", age_ms / 1_000)),
            Some(_) => None,
        }
    }
}

impl Snapshot {
    /// Reads the state of the nodes in this scope. `at` is the current time.
    pub async fn read(client: &OperatorClient, scope: &NodeScope, at: Timestamp) -> Result<Self, Failure> {
        let read = timeout(DEADLINE, Self::read_patiently(client, scope, at)).await;
        let late = || Failure::of(FailureKind::Temporary, format!("no answer within {} s", DEADLINE.as_secs()));
        read.map_err(|_| late())?
    }

    async fn read_patiently(client: &OperatorClient, scope: &NodeScope, at: Timestamp) -> Result<Self, Failure> {
        let (cluster, keys) = loop {
            let (cluster, keys) =
                tokio::try_join!(client.get::<Cluster>("/ops/v1/cluster"), client.get::<KeyList>("/ops/v1/keys"))?;
            // A server adds its row to the table of nodes a moment after its start.
            if *scope != NodeScope::All || !cluster.nodes.is_empty() {
                break (cluster, keys);
            }
            sleep(ROW_AFTER).await;
        };
        let mut problems = Vec::new();
        let answers = match scope {
            NodeScope::One(node) => vec![tree(client, node).await?],
            NodeScope::All => {
                let nodes = cluster.nodes.iter().filter(|node| node.status != SILENT);
                let read = async |node: &NodeEntry| {
                    let answer = tree(client, &node.id.to_string()).await;
                    answer.map_err(|failure| format!("{}: {}", node.name, failure.reason()))
                };
                let (answers, failures) = parted(join_all(nodes.map(read)).await);
                problems.extend(failures);
                answers
            }
        };
        let (trees, unreadable) = parted(answers.into_iter().map(ActorTree::read));
        problems.extend(unreadable.into_iter().chain(trees.iter().filter_map(ActorTree::problem)));
        Ok(Self { at, cluster, keys: keys.keys, trees, problems })
    }

    /// The row of a node in the table of nodes; `None` if it has none yet.
    pub fn entry(&self, node: NodeId) -> Option<&NodeEntry> {
        self.cluster.nodes.iter().find(|entry| entry.id == node)
    }

    /// An actor of a node, by its name.
    pub fn actor(&self, node: NodeId, name: &str) -> Option<&Node> {
        let tree = self.trees.iter().find(|tree| tree.answer.id == node)?;
        tree.root.as_ref()?.children.iter().find(|child| child.name == name)
    }

    /// All data, for scripts.
    pub fn described(&self) -> Value {
        let Cluster { nodes, differences, overrides, pauses } = &self.cluster;
        let trees: Vec<&NodeTree> = self.trees.iter().map(|tree| &tree.answer).collect();
        json!({
            "at": date_time(self.at), "nodes": nodes, "differences": differences, "overrides": overrides, "pauses": pauses,
            "keys": self.keys, "trees": trees, "problems": self.problems,
        })
    }
}

async fn tree(client: &OperatorClient, node: &str) -> Result<NodeTree, Failure> {
    client.get(&format!("/ops/v1/nodes/{node}/tree")).await
}

fn parted<T, E>(results: impl IntoIterator<Item = Result<T, E>>) -> (Vec<T>, Vec<E>) {
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error),
        }
    }
    (values, errors)
}
