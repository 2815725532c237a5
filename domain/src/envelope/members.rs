//! The members of the envelope, typed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chain::{ChainKey, Position, Prev};
use crate::consent::ConsentLevel;
use crate::digest::Digest;
use crate::ids::{EventId, MachineUuid, SessionUuid, UserAccountId, UserCuid};
use crate::lane::Lane;

/// The eight kinds of agent that may stand in `scope.agent_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKinds(BTreeSet<String>);

impl AgentKinds {
    /// Our own command line.
    pub const CLI: &'static str = "svc-cli";
    /// The service itself, when it reports a change that it made for a person.
    pub const CONTROL_PLANE: &'static str = "svc-control-plane";

    /// The two fixed kinds and the configured third-party ones.
    pub fn new(third_party: impl IntoIterator<Item = String>) -> Self {
        let fixed = [Self::CLI, Self::CONTROL_PLANE].map(String::from);
        Self(fixed.into_iter().chain(third_party).collect())
    }

    /// Whether `kind` is one of the eight.
    pub fn contains(&self, kind: &str) -> bool {
        self.0.contains(kind)
    }

    /// All of them, in alphabetical order.
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

/// One event as its sender described it; every member typed, none beyond those listed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Always `v1`.
    pub schema_version: SchemaVersion,
    /// Chosen by the sender, unique for all time.
    pub event_id: EventId,
    /// A registered type.
    pub event_type: String,
    /// The lane that the registry gives to the type.
    pub lane: Lane,
    /// The sender's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// How much the sender says that the person allowed.
    pub consent_level: ConsentLevel,
    /// Whether the sender took something out.
    pub redacted: bool,
    /// Epoch of the chain, from 0.
    pub chain_epoch: u64,
    /// Place in the epoch, from 0.
    pub seq: u64,
    /// Whose event it is.
    pub scope: EventScope,
    /// The link and the seal.
    pub hash_chain: HashChain,
    /// Members of the event type.
    pub payload: Map<String, Value>,
}

/// Whose event it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventScope {
    /// Identity on the computer.
    pub user_id: UserCuid,
    /// Computer.
    pub machine_id: MachineUuid,
    /// Account, when the sender knows it.
    #[serde(default, deserialize_with = "present")]
    pub user_account_id: Option<UserAccountId>,
    /// One of the eight agent kinds.
    pub agent_id: String,
    /// At least 1 character.
    #[serde(default, deserialize_with = "present")]
    pub project_id: Option<ProjectId>,
    /// Working session.
    #[serde(default, deserialize_with = "present")]
    pub session_uuid: Option<SessionUuid>,
}

/// An optional member may be absent, but not `null`: the specification lists no such type.
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

/// The link backwards and the seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashChain {
    /// `GENESIS` or the previous event's `self`.
    pub prev: Prev,
    /// What the sender says the seal is.
    #[serde(rename = "self")]
    pub self_hash: Digest,
}

impl Envelope {
    /// The chain that the event belongs to.
    pub fn chain_key(&self) -> ChainKey {
        ChainKey { machine_id: self.scope.machine_id, agent_id: self.scope.agent_id.clone() }
    }

    /// The place in the chain that the event claims.
    pub fn position(&self) -> Position {
        Position { chain_epoch: self.chain_epoch, seq: self.seq, prev: self.hash_chain.prev }
    }
}
