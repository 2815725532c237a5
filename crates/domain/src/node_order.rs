//! Orders of operators to another node (`docs/decisions/0042-orders-to-nodes.md`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;
use crate::act::{ActOutcome, OperatorAct};
use crate::ids::{EventId, NodeId};

/// An order to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOrder {
    /// Id of the order, and of its act.
    pub id: EventId,
    /// The node that executes and answers it; `None` for every node, without an answer.
    pub node: Option<NodeId>,
    /// The act, which the node executes.
    pub act: OperatorAct,
    /// Whether the node only reports the changes, which is no act.
    pub dry_run: bool,
    /// Time at which an order without an answer has failed, and an order to all nodes ends.
    pub until: Timestamp,
}

/// The answer to an order: status and body of the operator's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAnswer {
    /// Status of the response.
    pub status: u16,
    /// Body of the response.
    pub body: Value,
}

/// An executed or failed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedOrder {
    /// The act with the changed values.
    pub act: OperatorAct,
    /// How it ended.
    pub outcome: ActOutcome,
    /// The answer for the operator.
    pub answer: OrderAnswer,
}
