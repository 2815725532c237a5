//! The acts that a key of the view asks for, in words before they are sent.

use domain::actor_key::ActorKey;
use domain::ids::{EventId, NodeId};
use domain::service_pause::ServicePart;
use wire::ops::{NodeEntry, ServicePauseEntry};

use super::row::TopRow;

/// Path of the setting of the log filter.
pub const LOG: &str = "telemetry.log";

/// Time after which a quarantine or a pause ends by itself.
pub const LASTS: &str = "1h";

/// Time after which another level of the log ends by itself.
pub const LEVEL_LASTS: &str = "10m";

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    /// Id of its process, which several processes of one host do not share.
    pub id: NodeId,
    /// Name of its host.
    pub host: String,
}

/// An act of the operator, which needs a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Show events that senders submit to the server of this view.
    Tap,
    /// Let an actor of a node end, so that another is started.
    RestartActor(NodeName, String),
    /// Let the actor of a key end.
    RestartKey(ActorKey),
    /// Refuse a key.
    Quarantine(ActorKey),
    /// End each quarantine of a key.
    Release(ActorKey),
    /// Pause a part for everybody.
    Pause(ServicePart),
    /// End a pause of this part and scope; the second text names its author and reason.
    Resume(EventId, String, String),
    /// Take a node out of service.
    Drain(NodeName),
    /// Put a node back into service.
    Undrain(NodeName),
    /// Set the log filter of a node for a time.
    Level(NodeName, &'static str),
    /// End the override of the log filter, of one host or of all nodes.
    LevelEnd(Option<String>),
    /// Show the changes of a reload.
    PreviewReload(NodeName),
    /// Read the configuration of a node again.
    Reload(NodeName),
}

impl NodeName {
    /// The node of a row.
    pub fn of(row: &TopRow) -> Self {
        Self { id: row.id.node, host: row.node.clone() }
    }
}

impl Act {
    /// The restart of the actor or key of a row, or why there is none.
    pub fn restart(row: &TopRow) -> Result<Self, String> {
        match row.id.key {
            None => Ok(Self::RestartActor(NodeName::of(row), row.id.actor.clone())),
            Some(_) => key_of(row).map(Self::RestartKey),
        }
    }

    /// The quarantine of the key of a row, or its release.
    pub fn quarantine_or_release(row: &TopRow) -> Result<Self, String> {
        if row.id.key.is_none() {
            return Err("q quarantines or releases a key: select one below claims, devices or batches".to_owned());
        }
        let key = key_of(row)?;
        Ok(if row.is_quarantined_key() { Self::Release(key) } else { Self::Quarantine(key) })
    }

    /// The drain of a node, or its end.
    pub fn drain_or_undrain(row: &TopRow, entry: Option<&NodeEntry>) -> Self {
        let node = NodeName::of(row);
        if entry.is_some_and(|entry| entry.status == "draining") { Self::Undrain(node) } else { Self::Drain(node) }
    }

    /// The end of a pause.
    pub fn resume(pause: &ServicePauseEntry) -> Self {
        Self::Resume(pause.id, target(pause), format!("{} ({})", pause.set_by, pause.reason.as_str()))
    }

    /// The effect on the target, as a sentence without a full stop.
    pub fn sentence(&self) -> String {
        match self {
            Self::Tap => "show events of the server of this view as they come, without content, for 1m".to_owned(),
            Self::RestartActor(node, actor) => {
                format!("restart {actor} on {}: it handles its messages and ends, and another is started", node.host)
            }
            Self::RestartKey(key) => format!("restart {key}: its actor ends, and its next message starts another"),
            Self::Quarantine(key) => format!("quarantine {key} on all nodes for {LASTS}: its messages are refused"),
            Self::Release(key) => format!("release {key} on all nodes: its next message starts an actor"),
            Self::Pause(part) => format!("pause {} on all nodes for {LASTS}", part.as_str()),
            Self::Resume(_, target, by) => format!("end on all nodes the pause of {target} by {by}"),
            Self::Drain(node) => format!("drain {}: it is unready until it is undrained or restarted", node.host),
            Self::Undrain(node) => format!("undrain {}: it is in service again", node.host),
            Self::Level(node, level) => format!("set {LOG} of {} to {level} for {LEVEL_LASTS}", node.host),
            Self::LevelEnd(None) => format!("end the override of {LOG} on all nodes"),
            Self::LevelEnd(Some(host)) => format!("end the override of {LOG} on {host}"),
            Self::PreviewReload(node) => format!("reload the configuration of {}: shows the changes first", node.host),
            Self::Reload(node) => format!("reload the configuration of {}", node.host),
        }
    }
}

/// The part of a pause with its scope, such as `intake@lane:llm`.
pub fn target(ServicePauseEntry { part, scope, .. }: &ServicePauseEntry) -> String {
    if scope == "all" { part.clone() } else { format!("{part}@{scope}") }
}

/// The part of the service that the work of a kind of actor belongs to; `None` for a kind that no pause stops.
pub fn part_of(kind: &str) -> Option<ServicePart> {
    Some(match kind {
        "intake" | "ordered" | "hold" => ServicePart::Intake,
        "batches" | "drift" => ServicePart::Batches,
        "mail" => ServicePart::Mail,
        "backfill" => ServicePart::Backfill,
        "webhook" => ServicePart::Webhooks,
        "claims" | "devices" => ServicePart::Registration,
        _ => return None,
    })
}

/// The key of a row, as the operator's API names it.
fn key_of(row: &TopRow) -> Result<ActorKey, String> {
    let name = row.name();
    name.parse().map_err(|_| format!("{name} cannot be restarted or quarantined: claims, devices and batches can"))
}
