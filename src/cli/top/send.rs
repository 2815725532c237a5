//! Sends an act to the server, and describes its answer.

use std::time::Duration;

use domain::act::ActReason;
use wire::ops::{
    ActorReplaced, NodeDrained, ObjectChanged, OverrideEntry, OverrideRemoved, OverrideRequest, QuarantineRequest,
    ReasonRequest, ReloadReport, ReloadRequest, ServicePauseEnded, ServicePauseEntry, ServicePauseRequest,
};

use super::act::{Act, LASTS, LEVEL_LASTS, LOG, NodeName};
use crate::cli::configuration::reported;
use crate::cli::operator_client::OperatorClient;
use crate::cli::tap::TapSamples;
use commands::failure::Failure;

/// The answer to an act.
pub enum ActAnswer {
    /// It was carried out, or ordered.
    Done(String),
    /// The changes of a reload, one a line, which another act applies.
    Preview(NodeName, String),
    /// Samples of events, until the tap ends.
    Tap(TapSamples),
}

/// Time for which events are shown.
const TAP_LASTS: Duration = Duration::from_mins(1);

/// Sends an act with its reason.
pub async fn send(client: &OperatorClient, act: &Act, reason: &ActReason) -> Result<ActAnswer, Failure> {
    let because = ReasonRequest { reason: Some(reason.as_str().to_owned()) };
    let text = match act {
        Act::Tap => {
            return TapSamples::open(client, TAP_LASTS, vec![("reason", reason.as_str().to_owned())])
                .await
                .map(ActAnswer::Tap);
        }
        Act::RestartActor(node, actor) => {
            let route = format!("/ops/v1/nodes/{}/actors/{actor}/restart", node.id);
            let replaced: ActorReplaced = client.post(&route, &because).await?;
            format!("{} on {} ends after its messages, and another is started", replaced.actor, replaced.node)
        }
        Act::RestartKey(key) => {
            let route = format!("/ops/v1/keys/{}/{}/restart", key.kind.as_str(), key.id);
            let ordered: ObjectChanged = client.post(&route, &because).await?;
            format!("{} is restarted by its next message", ordered.target)
        }
        Act::Release(key) => {
            let route = format!("/ops/v1/keys/{}/{}/release", key.kind.as_str(), key.id);
            let ordered: ObjectChanged = client.post(&route, &because).await?;
            format!("{} is released: its next message starts an actor", ordered.target)
        }
        Act::Quarantine(key) => {
            let route = format!("/ops/v1/keys/{}/{}/quarantine", key.kind.as_str(), key.id);
            let request = QuarantineRequest { reason: because.reason, lasts: Some(LASTS.to_owned()), replace: false };
            let pause: ServicePauseEntry = client.post(&route, &request).await?;
            format!("{} is refused until {}", pause.scope, pause.until)
        }
        Act::Pause(part) => {
            let (part, lasts) = (part.as_str().to_owned(), Some(LASTS.to_owned()));
            let request = ServicePauseRequest { part, scope: None, reason: because.reason, lasts, replace: false };
            let pause: ServicePauseEntry = client.post("/ops/v1/pauses", &request).await?;
            format!("{} is paused until {}", pause.part, pause.until)
        }
        Act::Resume(id, target, _) => {
            let _ended: ServicePauseEnded = client.delete(&format!("/ops/v1/pauses/{id}"), reason).await?;
            format!("{target} continues within a second or two")
        }
        Act::Drain(node) => {
            let drained: NodeDrained = client.post(&drain(node), &because).await?;
            format!("{} is out of service", drained.node)
        }
        Act::Undrain(node) => {
            let undrained: NodeDrained = client.delete(&drain(node), reason).await?;
            format!("{} is in service again", undrained.node)
        }
        Act::Level(node, level) => set_level(client, node, level, reason).await?,
        Act::LevelEnd(host) => end_level(client, host.as_deref(), reason).await?,
        Act::PreviewReload(node) => {
            let report = reload(client, node, true, reason).await?;
            if !(report.applied.is_empty() && report.restart_needed.is_empty() && report.shadowed.is_empty()) {
                return Ok(ActAnswer::Preview(node.clone(), reported(&report)));
            }
            reported(&report)
        }
        Act::Reload(node) => reported(&reload(client, node, false, reason).await?),
    };
    Ok(ActAnswer::Done(text))
}

/// Overrides the log filter of a node for a time.
async fn set_level(
    client: &OperatorClient,
    node: &NodeName,
    level: &str,
    reason: &ActReason,
) -> Result<String, Failure> {
    let request = OverrideRequest {
        value: level.into(),
        reason: Some(reason.as_str().to_owned()),
        node: Some(node.host.clone()),
        lasts: Some(LEVEL_LASTS.to_owned()),
        until_unset: false,
        replace: false,
        dry_run: false,
    };
    let set: OverrideEntry = client.put(&level_route(), &request).await?;
    Ok(format!("{} of {} is {} until {}", set.path, node.host, set.value, set.until.unwrap_or_default()))
}

async fn end_level(client: &OperatorClient, host: Option<&str>, reason: &ActReason) -> Result<String, Failure> {
    let node = host.map(|host| format!("?node={host}")).unwrap_or_default();
    let removed: OverrideRemoved = client.delete(&format!("{}{node}", level_route()), reason).await?;
    Ok(format!("the override of {} has ended", removed.path))
}

/// Route of the override of the log filter.
fn level_route() -> String {
    format!("/ops/v1/config/overrides/{LOG}")
}

fn drain(node: &NodeName) -> String {
    format!("/ops/v1/nodes/{}/drain", node.id)
}

async fn reload(
    client: &OperatorClient,
    node: &NodeName,
    dry_run: bool,
    reason: &ActReason,
) -> Result<ReloadReport, Failure> {
    let (node, reason) = (Some(node.id.to_string()), Some(reason.as_str().to_owned()));
    client.post("/ops/v1/config/reload", &ReloadRequest { node, reason, dry_run }).await
}
