//! Typed members of the envelope.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chain::{ChainKey, Position, Prev};
use crate::consent::ConsentLevel;
use crate::digest::Digest;
use crate::ids::{EventId, MachineUuid, SessionUuid, UserAccountId, UserCuid};
use crate::lane::Lane;

/// The eight agent kinds that `scope.agent_id` may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKinds(BTreeSet<String>);

impl AgentKinds {
    /// The command line of attache.
    pub const CLI: &'static str = "svc-cli";
    /// The service itself, in reports of changes that it made.
    pub const CONTROL_PLANE: &'static str = "svc-control-plane";

    /// The two fixed kinds and `third_party`.
    pub fn new(third_party: impl IntoIterator<Item = String>) -> Self {
        let fixed = [Self::CLI, Self::CONTROL_PLANE].map(String::from);
        Self(fixed.into_iter().chain(third_party).collect())
    }

    /// Whether `kind` is one of the configured kinds.
    pub fn contains(&self, kind: &str) -> bool {
        self.0.contains(kind)
    }

    /// The kinds in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

/// `schema_version`: always `v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaVersion {
    /// The only version.
    #[serde(rename = "v1")]
    V1,
}

/// An event as its sender described it. Unknown members are rejected.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Version of the envelope's schema.
    pub schema_version: SchemaVersion,
    /// Chosen by the sender; unique among all events.
    pub event_id: EventId,
    /// A type of the event registry.
    pub event_type: String,
    /// Must be the lane that the registry assigns to the type.
    pub lane: Lane,
    /// The sender's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// The consent level that the sender applied.
    pub consent_level: ConsentLevel,
    /// Whether the sender removed content.
    pub redacted: bool,
    /// Epoch of the chain, counted from 0.
    pub chain_epoch: u64,
    /// Sequence number in the epoch, counted from 0.
    pub seq: u64,
    /// The parties of the event.
    pub scope: EventScope,
    /// Link to the previous event, and seal.
    pub hash_chain: HashChain,
    /// Members of the event type, which the registry's schema describes.
    pub payload: Map<String, Value>,
}

/// The parties of an event: identity, computer, account and agent kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventScope {
    /// Identity of the computer.
    pub user_id: UserCuid,
    /// The computer that recorded the event.
    pub machine_id: MachineUuid,
    /// Account, if the sender knows it.
    #[serde(default, deserialize_with = "present")]
    pub user_account_id: Option<UserAccountId>,
    /// One of the eight agent kinds.
    pub agent_id: String,
    /// Project of the sender, 1 character or more.
    #[serde(default, deserialize_with = "present")]
    pub project_id: Option<ProjectId>,
    /// Working session on the computer.
    #[serde(default, deserialize_with = "present")]
    pub session_uuid: Option<SessionUuid>,
}

/// Deserialises an optional member that may be absent but not `null`.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A project's name: at least 1 character.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ProjectId(String);

impl TryFrom<String> for ProjectId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() { Err("expected at least 1 character") } else { Ok(Self(text)) }
    }
}

/// Link to the previous event, and seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashChain {
    /// `GENESIS` or the previous event's `self`.
    pub prev: Prev,
    /// The seal that the sender computed.
    #[serde(rename = "self")]
    pub self_hash: Digest,
}

impl Envelope {
    /// The chain of the event.
    pub fn chain_key(&self) -> ChainKey {
        ChainKey { machine_id: self.scope.machine_id, agent_id: self.scope.agent_id.clone() }
    }

    /// The position that the event claims in its chain.
    pub fn position(&self) -> Position {
        Position { chain_epoch: self.chain_epoch, seq: self.seq, prev: self.hash_chain.prev }
    }
}
