//! Bodies of the operator's API (`docs/operations.md#the-operators-api`).

mod objects;

use domain::Digest;
use domain::act::{ActKind, ActOutcome, ActReason};
use domain::ids::{EventId, HeldId, MachineUuid, NodeId, ReceiptId, UserAccountId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use self::objects::{
    AccountWebhookEntry, ObjectChanged, ObjectPage, PersonSessionEntry, RunningBatchEntry, UnsentMailEntry,
};
use crate::schema;

/// An error of the operator's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatorError {
    /// The code.
    pub error: String,
    /// What happened, why, and a remedy.
    pub detail: String,
    /// The mistakes of a configuration, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Id of the recorded act, if the request was to change something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// `GET /ops/v1/acts`: acts of operators, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActPage {
    /// The requested acts.
    pub acts: Vec<ActEntry>,
    /// The `before` of the next page; null on the last one.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub next: Option<EventId>,
}

/// An act of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActEntry {
    /// Id of the act and of its event.
    #[schema(value_type = schema::UuidV7)]
    pub id: EventId,
    /// Time of the act, RFC 3339.
    pub done_at: String,
    /// Kind of the act.
    #[schema(value_type = String)]
    pub act: ActKind,
    /// Who did it, such as `token (desk)`.
    pub by: String,
    /// Name of the host on which it was done.
    pub node: String,
    /// The object, such as `setting:actors.queue_max`.
    #[schema(required = true)]
    pub target: Option<String>,
    /// The value before.
    #[schema(required = true)]
    pub before: Option<Value>,
    /// The value after.
    #[schema(required = true)]
    pub after: Option<Value>,
    /// How it ended.
    #[schema(value_type = String)]
    pub outcome: ActOutcome,
    /// The reason.
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<ActReason>,
    /// Time at which the effect ends, RFC 3339.
    #[schema(required = true)]
    pub until: Option<String>,
    /// Time at which the statistics service had accepted the event, RFC 3339.
    #[schema(required = true)]
    pub sent_at: Option<String>,
}

/// `GET /ops/v1/acts/{id}`: an act with its event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActShown {
    /// The act.
    #[serde(flatten)]
    pub act: ActEntry,
    /// The event, as it is sent to the statistics service.
    #[schema(value_type = Object)]
    pub event: Value,
    /// The proof that the embedded log contains it, as `GET /v1/audit/verify` returns it; absent until a signed tree has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub proof: Option<Value>,
}

/// The body of a change without other members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
}

/// Whether a node is drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDrained {
    /// Name of the host of the node.
    pub node: String,
    /// Whether it is unready, and its responses close their connections.
    pub draining: bool,
    /// Id of the recorded act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// `GET /ops/v1/config`: settings of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingList {
    /// The settings, by path.
    pub settings: Vec<SettingEntry>,
}

/// A setting with its value and the places of it. Values of secrets are `"…"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingEntry {
    /// Its path, such as `actors.queue_max`.
    pub path: String,
    /// The value in force.
    pub value: Value,
    /// The place of the value: `default`, `file`, `environment` or `override`.
    pub source: String,
    /// When a change takes effect: `live`, `reload`, `restart` or `never`.
    pub change: String,
    /// The default.
    pub default: Value,
    /// The value of the file; null if it has none.
    pub file: Value,
    /// The value of the environment variable; null if there is none.
    pub environment: Value,
    /// The value of the override; null if there is none.
    #[serde(rename = "override")]
    pub overridden: Value,
}

/// The body of `POST /ops/v1/config/reload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Name of the host, or id, of the node; the node that answers if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Whether to report the changes without applying them; `false` if absent.
    #[serde(default)]
    pub dry_run: bool,
}

/// The result of reading the configuration of a node again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadReport {
    /// Name of the host of the node.
    pub node: String,
    /// Whether nothing was applied.
    pub dry_run: bool,
    /// Changed settings that are in force.
    pub applied: Vec<SettingChanged>,
    /// Paths of changed settings that the next start applies.
    pub restart_needed: Vec<String>,
    /// Changed settings that an override hides.
    pub shadowed: Vec<SettingChanged>,
    /// Id of the recorded act; absent in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// A setting with another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChanged {
    /// Its path.
    pub path: String,
    /// The value before.
    pub before: Value,
    /// The value after.
    pub after: Value,
}

/// `GET /ops/v1/config/overrides`: overrides in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverrideList {
    /// The overrides, by path.
    pub overrides: Vec<OverrideEntry>,
}

/// An override of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverrideEntry {
    /// Path of the setting.
    pub path: String,
    /// Name of the host of the only node that is affected; null for all nodes.
    #[schema(required = true)]
    pub node: Option<String>,
    /// The value in force.
    pub value: Value,
    /// Time at which it ends, RFC 3339; null until it is removed.
    #[schema(required = true)]
    pub until: Option<String>,
    /// Who set it.
    pub set_by: String,
    /// Its effect on the present numbers of the node that answers, in the answer to the request that set it or to its dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Id of the recorded act, in the answer to the request that set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// The body of `PUT /ops/v1/config/overrides/{path}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideRequest {
    /// The value, as in the configuration file.
    pub value: Value,
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Name of the host of the only node that is affected; all nodes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Time after which the override ends, such as `30m`; `1h` if absent.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// Whether it is in force until it is removed; `false` if absent.
    #[serde(default)]
    pub until_unset: bool,
    /// Whether an override of another operator is replaced; `false` if absent.
    #[serde(default)]
    pub replace: bool,
    /// Whether the value is only checked, and its effect reported; `false` if absent.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to `DELETE /ops/v1/config/overrides/{path}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverrideRemoved {
    /// Path of the setting.
    pub path: String,
    /// Name of the host of the only node that was affected; null for all nodes.
    #[schema(required = true)]
    pub node: Option<String>,
    /// Id of the recorded act.
    #[schema(value_type = schema::UuidV7)]
    pub act_id: EventId,
}

/// `GET /ops/v1/pauses`: pauses in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePauseList {
    /// The pauses, by part.
    pub pauses: Vec<ServicePauseEntry>,
}

/// A pause of a part of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePauseEntry {
    /// Id of the pause, and of the act that began it.
    #[schema(value_type = schema::UuidV7)]
    pub id: EventId,
    /// The paused part, such as `intake`.
    pub part: String,
    /// For whom: `all`, `account:ID`, `machine:ID` or `lane:NAME`.
    pub scope: String,
    /// Time at which it ends by itself, RFC 3339.
    pub until: String,
    /// Who began it.
    pub set_by: String,
    /// The reason.
    #[schema(value_type = String)]
    pub reason: ActReason,
    /// Id of the recorded act, in the answer to the request that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// The body of `POST /ops/v1/pauses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicePauseRequest {
    /// `intake`, `batches`, `mail`, `backfill`, `webhooks`, `sign-in` or `registration`.
    pub part: String,
    /// For whom: `account:ID` (intake, batches, webhooks), `machine:ID` or `lane:NAME` (intake); `all` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Time after which the pause ends, such as `30m`; `1h` if absent.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// Whether a pause of the same part and scope is replaced; `false` if absent.
    #[serde(default)]
    pub replace: bool,
}

/// The answer to `DELETE /ops/v1/pauses/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePauseEnded {
    /// Id of the pause.
    #[schema(value_type = schema::UuidV7)]
    pub id: EventId,
    /// Id of the recorded act.
    #[schema(value_type = schema::UuidV7)]
    pub act_id: EventId,
}

/// The answer to an order that another node has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrderPending {
    /// Always `true`.
    pub pending: bool,
    /// Id of the act, which is recorded when the order is executed or has failed; of no act in a dry run.
    #[schema(value_type = schema::UuidV7)]
    pub act_id: EventId,
}

/// `GET /ops/v1/cluster`: the nodes on one database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// The nodes, in the order of their starts.
    pub nodes: Vec<NodeEntry>,
    /// Differences between nodes that should be equal, as sentences with the paths of settings.
    pub differences: Vec<String>,
    /// Overrides in force.
    pub overrides: Vec<OverrideEntry>,
    /// Pauses in force.
    pub pauses: Vec<ServicePauseEntry>,
}

/// A server on the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeEntry {
    /// Id of its process.
    #[schema(value_type = schema::UuidV7)]
    pub id: NodeId,
    /// Name of its host.
    pub name: String,
    /// Bound address of the public listener.
    pub address: String,
    /// Bound address of the operator's listener.
    pub operator_address: String,
    /// `ready`, `unready`, `draining` or `silent`.
    pub status: String,
    /// Why it is not ready; null while it is.
    #[schema(required = true)]
    pub unready: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Start of the SHA-256 of the settings that all nodes share.
    pub configuration: String,
    /// Time of its start, RFC 3339.
    pub started_at: String,
    /// Time of its last beat, RFC 3339.
    pub last_beat_at: String,
    /// How far its machine's clock is ahead of the database's.
    pub clock_ahead_ms: i64,
    /// Whether it signs the log.
    pub sequencer: bool,
    /// Number of running batches that it works on.
    pub batches: u32,
}

/// `GET /ops/v1/nodes/{node}/tree`: the actors of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeTree {
    /// Id of the node.
    #[schema(value_type = schema::UuidV7)]
    pub id: NodeId,
    /// Name of its host.
    pub node: String,
    /// Time at which the tree was so, RFC 3339. Another node than the one that answers writes its tree every five seconds.
    pub at: String,
    /// Milliseconds since then.
    pub age_ms: u64,
    /// The tree, as in `GET /actors`, or one child of it; null if its supervisor did not answer.
    #[schema(value_type = Option<Object>, required = true)]
    pub tree: Value,
}

/// `GET /ops/v1/flow`: work that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// Held events by reason.
    pub held: Vec<HeldNumber>,
    /// Running batches of all accounts, 1,000 at most.
    pub batches: usize,
    /// Mails that were not sent, 1,000 at most.
    pub mails: usize,
}

/// The number of events that are held for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldNumber {
    /// Why they are held.
    pub reason: String,
    /// How many are held.
    pub number: u64,
    /// Time at which the oldest was received, RFC 3339.
    pub oldest_at: String,
}

/// `GET /ops/v1/log`: the embedded event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogState {
    /// Name of the log (`log.origin`).
    pub origin: String,
    /// Number of events in the signed tree.
    pub tree_size: u64,
    /// Time of the newest checkpoint, RFC 3339.
    pub signed_at: String,
    /// Events that wait for their place in the tree.
    pub unplaced: u64,
    /// SQLite: events that are not in the indexes yet.
    pub unindexed: u64,
    /// Whether this node signs the log.
    pub signs: bool,
    /// Why the log takes no events; null while it does.
    #[schema(required = true)]
    pub halted: Option<String>,
}

/// One event of `GET /ops/v1/stream`, in the fields of server-sent events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamEvent {
    /// `tree`, `flow` or `act`.
    pub event: String,
    /// Of an act its id: a client that sends it as `Last-Event-ID` gets the acts since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub id: Option<EventId>,
    /// The actors of this node, the numbers, or the act, as in their own routes.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// The first event, `begun`, of `GET /ops/v1/tap`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TapBegun {
    /// Id of the recorded act.
    #[schema(value_type = schema::UuidV7)]
    pub act_id: EventId,
    /// End of the tap, RFC 3339.
    pub until: String,
}

/// An event `sample` of `GET /ops/v1/tap`: one event that a sender submitted, without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TapEntry {
    /// Time of the answer to its sender, RFC 3339.
    pub at: String,
    /// Who is charged for it: `account:ID`, `machine:UUID` or `registration:UUID`.
    pub payer: String,
    /// `forwarded`, `held`, `passed_through` or `unavailable`.
    pub outcome: String,
    /// Why it was not forwarded: a hold reason, the reason of a 424, or the status of the statistics service.
    #[schema(required = true)]
    pub reason: Option<String>,
    /// Size of its body, in bytes.
    pub bytes: usize,
    /// Time to the answer, in milliseconds.
    pub took_ms: f64,
    /// Id that its sender chose; null if it cannot be read.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub event_id: Option<EventId>,
    /// Its type; null if the event is invalid.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// Its lane; null if the event is invalid.
    #[schema(required = true)]
    pub lane: Option<String>,
    /// The computer that it names.
    #[schema(value_type = Option<String>, required = true)]
    pub machine_id: Option<MachineUuid>,
    /// Matching events since the sample before that were too many for a second.
    pub skipped: u64,
}

/// `GET /ops/v1/outbox`: events of the service itself that wait for the statistics service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutboxPage {
    /// Chains with waiting events, longest waiting first, 200 at most.
    pub chains: Vec<OutboxChain>,
}

/// A chain of the service itself with waiting events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutboxChain {
    /// `operator_acts`, or the identity with changes of consent.
    pub chain: String,
    /// Number of waiting events.
    pub waiting: u64,
    /// Time of the oldest one, RFC 3339.
    pub oldest_at: String,
}

/// An actor that ends, so that another is started in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActorReplaced {
    /// Name of the host of the node.
    pub node: String,
    /// Name of the actor in the tree.
    pub actor: String,
    /// Id of the recorded act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// Keys of actors on all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// The keys that operators have quarantined, then the keys with recently crashed actors, most crashes first.
    pub keys: Vec<KeyEntry>,
}

/// A key that an operator has quarantined, or with actors that crashed recently on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyEntry {
    /// Name of the host of the node on which they crashed; null for the quarantine of an operator, which holds on all nodes, and for a key
    /// without a crash.
    #[schema(required = true)]
    pub node: Option<String>,
    /// Kind of actor: `claims`, `devices` or `batches`.
    pub kind: String,
    /// Id of the registration, computer or batch.
    pub key: String,
    /// Crashes within `quarantine_window`, or before the quarantine.
    pub crashes: u32,
    /// Why the last actor crashed.
    #[schema(required = true)]
    pub error: Option<String>,
    /// Id of the request that the last actor handled, as log lines and `X-Request-Id` have it; null if it handled none.
    #[schema(required = true)]
    pub request_id: Option<String>,
    /// Time of the last crash, RFC 3339.
    #[schema(required = true)]
    pub last_crash_at: Option<String>,
    /// End of the quarantine, RFC 3339; null if the key is in none.
    #[schema(required = true)]
    pub quarantined_until: Option<String>,
    /// The operator; null if crashes led to it.
    #[schema(required = true)]
    pub quarantined_by: Option<String>,
    /// The operator's reason.
    #[schema(required = true, value_type = Option<String>)]
    pub reason: Option<ActReason>,
}

/// `GET /ops/v1/keys/{kind}/{key}`: one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyShown {
    /// Kind of actor: `claims`, `devices` or `batches`.
    pub kind: String,
    /// Id of the registration, computer or batch.
    pub key: String,
    /// Crashes and quarantines, as in the list.
    pub entries: Vec<KeyEntry>,
    /// Its actor on the node that answers; null if none runs there.
    #[schema(required = true)]
    pub actor: Option<KeyActor>,
    /// What actor and row say, without secrets; empty if there is neither.
    pub facts: Vec<KeyFact>,
}

/// A running actor of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyActor {
    /// Name of the host of its node.
    pub node: String,
    /// Messages that wait or are being handled.
    pub queued: u32,
    /// Milliseconds since it last finished a message, or since it was started.
    pub unmoved_ms: u64,
    /// Whether it is handling a message, so that its state cannot be read.
    pub busy: bool,
}

/// A value in the state of an actor and in its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyFact {
    /// Name of the value.
    pub name: String,
    /// Its value in the state of the actor; null if no actor can be read, or it has no such value.
    #[schema(required = true)]
    pub actor: Option<String>,
    /// Its value in the row; null without a row, or if the row has no such value.
    #[schema(required = true)]
    pub row: Option<String>,
    /// Whether both have it and differ. An actor reads its row again before it decides.
    pub differs: bool,
}

/// Quarantines a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineRequest {
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Time after which the quarantine ends, such as `30m`; `1h` if absent.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// Whether the quarantine of another operator is replaced; `false` if absent.
    #[serde(default)]
    pub replace: bool,
}

/// Held events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldPage {
    /// The events of this page.
    pub held: Vec<HeldShown>,
    /// The `before` of the next page; null on the last one.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub next: Option<HeldId>,
}

/// A held event without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldShown {
    /// Id of the entry.
    #[schema(value_type = schema::UuidV7)]
    pub id: HeldId,
    /// `held`, `released` or `discarded`.
    pub state: String,
    /// Why it is held, such as `unknown_event_type`.
    pub reason: String,
    /// Location and kind of the fault.
    pub detail: String,
    /// `machine:UUID`, `registration:UUID` or `account:ID`.
    pub sender: String,
    /// The account that pays.
    #[schema(value_type = Option<String>, required = true)]
    pub user_account_id: Option<UserAccountId>,
    /// `event_id` of the envelope, if it could be read.
    #[schema(value_type = Option<schema::Uuid>, required = true)]
    pub event_id: Option<EventId>,
    /// `event_type` of the envelope.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// `agent_id` of the envelope.
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// `machine_id` of the envelope.
    #[schema(value_type = Option<schema::Uuid>, required = true)]
    pub machine_id: Option<MachineUuid>,
    /// The computed hash of the event.
    #[serde(rename = "self")]
    #[schema(value_type = Option<schema::Sha256>, required = true)]
    pub seal: Option<Digest>,
    /// SHA-256 of the received bytes.
    #[schema(value_type = schema::Sha256)]
    pub body_sha256: Digest,
    /// Number of received bytes.
    pub body_bytes: u64,
    /// When it was received, RFC 3339.
    pub received_at: String,
    /// When it was released or discarded, RFC 3339.
    #[schema(required = true)]
    pub state_at: Option<String>,
    /// The receipt of a released event.
    #[schema(value_type = Option<schema::Uuid>, required = true)]
    pub receipt_id: Option<ReceiptId>,
}

/// Releases or discards held events: with these ids, or the matches of a filter that a dry run has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldEndRequest {
    /// Ids of 1 to 1,000 entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::UuidV7>>, min_items = 1, max_items = 1000)]
    pub ids: Option<Vec<HeldId>>,
    /// Held events with all these properties; it must name one at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<HeldSelection>,
    /// Only count the matches of the filter and return a token; `false` if absent.
    #[serde(default)]
    pub dry_run: bool,
    /// The token of a dry run within ten minutes: only events before it are ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub token: Option<HeldId>,
    /// `next` of the answer before, if more than 1,000 events match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub after: Option<HeldId>,
    /// The reason: 1 to 500 characters on one line.
    #[schema(value_type = String, min_length = 1, max_length = 500)]
    pub reason: Option<String>,
}

/// Properties of held events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldSelection {
    /// Why they are held, such as `unknown_event_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Their sender: `machine:UUID`, `registration:UUID` or `account:ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

/// The outcomes of an end of held events, or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldEnded {
    /// Number of events that were tried, or that match a dry run, up to 100,000.
    pub matches: usize,
    /// The token of a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub token: Option<HeldId>,
    /// The outcome of each, oldest first.
    pub ended: Vec<HeldEndOutcome>,
    /// The `after` of the next request, if more events may match; null otherwise.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub next: Option<HeldId>,
    /// Id of the recorded act; absent in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UuidV7>)]
    pub act_id: Option<EventId>,
}

/// The outcome of one held event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldEndOutcome {
    /// Id of the entry.
    #[schema(value_type = schema::UuidV7)]
    pub id: HeldId,
    /// `released`, `discarded`, `still_held`, `without_body`, `already_ended`, `unknown`, `refused`, `unavailable` or `not_tried`.
    pub outcome: String,
    /// Why it was neither released nor discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The receipt of a released event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Uuid>)]
    pub receipt_id: Option<ReceiptId>,
}
