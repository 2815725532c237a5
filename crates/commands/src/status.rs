//! `attache status`: whether the server responds, and which parts of this computer work, in a few lines.

use clap::Args;
use client::{ActivityQuery, Error};
use domain::Timestamp;
use domain::clock::date_time;
use domain::envelope::AgentKinds;
use domain::foreign::visible;
use serde_json::{Value, json};
use wire::consent::ConsentAnswer;

use crate::connection::{ProfileConnection, Remote, failed};
use crate::event::pending_event;
use crate::failure::{Done, Failure};
use crate::hook::{self, ToolStatus};
use crate::terminal::{BAD, GOOD, STRONG, WARNING, styled};
use crate::whoami::{self, Known, key_line};
use crate::{moment, output};

/// Options of `attache status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    remote: Remote,
}

/// Sends requests to the server and prints a line for each part; fails with the exit code of the first part that does not work.
pub async fn status(arguments: &Arguments) -> Done {
    let connection = arguments.remote.open()?;
    connection.check_server()?;
    let base = connection.client.base_url();
    // A route without a credential, which every server has.
    if let Err(error @ Error::Unreachable { .. }) = connection.client.log_keys().await {
        let failure = failed(error);
        let value = json!({ "server": base, "reachable": false });
        output::show(connection.json, &value, || format!("{} server     {base} does not answer", styled(BAD, "✗")));
        return Err(failure);
    }
    let (computer, key) = (whoami::computer(&connection).await?, whoami::key(&connection).await?);
    let account = computer.accepted().and_then(|about| about.account.as_ref());
    let last = match computer.accepted() {
        Some(_) => last_event(&connection).await?,
        None => None,
    };
    let paused = match computer.accepted() {
        Some(_) => paused_until(&connection).await?,
        None => None,
    };
    let pending = pending_event(&connection.folder, AgentKinds::CLI)?;
    let hooks = hook::statuses(arguments.remote.profile.as_str())?;
    let report = json!({
        "server": base,
        "reachable": true,
        "registered": computer.accepted().is_some(),
        "attached": account.is_some(),
        "email": account.and_then(|account| account.email.as_deref()),
        "last_event": last,
        "paused_until": paused.map(date_time),
        "pending_event": pending.as_ref().map(|(id, event_type)| json!({ "event_id": id, "event_type": event_type })),
        "hooks": hooks,
        "api_key": key.accepted(),
    });
    let now = connection.clock().now();
    output::show(connection.json, &report, || {
        let (good, bad, open) = (styled(GOOD, "✓"), styled(BAD, "✗"), styled(WARNING, "!"));
        let computer = match (&computer, account) {
            (Known::Absent, _) => format!("{open} computer   not registered: `attache login`"),
            (Known::Rejected, _) => format!("{bad} computer   the server no longer has it: `attache login`"),
            (Known::Accepted(_), None) => format!("{open} computer   not attached to an account: `attache login`"),
            (Known::Accepted(_), Some(account)) => {
                let owner = account.email.as_deref().unwrap_or(account.user_account_id.as_str());
                format!("{good} computer   attached to the account of {}", styled(STRONG, visible(owner)))
            }
        };
        let key = match &key {
            Known::Absent => format!("{open} memory     no key: `attache login`"),
            Known::Rejected => format!("{bad} memory     the key is revoked or expired: `attache login`"),
            Known::Accepted(key) => format!("{good} memory     key for {}", key_line(key, now)),
        };
        let text = |event: &Value, name| event.get(name).and_then(Value::as_str).map(visible).unwrap_or_default();
        let last = last.as_ref().map_or_else(
            || "none recorded by this computer".to_owned(),
            |event| format!("{}, {}", moment::ago_of(&text(event, "received_at"), now), text(event, "event_type")),
        );
        let pending = pending.as_ref().map_or_else(
            || "none".to_owned(),
            |(id, event_type)| format!("{}, {id}: the next `attache event send` sends it", visible(event_type)),
        );
        let hooks: String = hooks.iter().map(|status| hook_line(status, now)).collect();
        let paused = paused.map_or_else(String::new, |until| {
            format!("\n{open} recording  paused until {}: `attache pause --end`", moment::minute(until))
        });
        format!(
            "{good} server     {base} answers\n{computer}\n{key}{paused}\n  last event {last}\n  pending    {pending}{hooks}"
        )
    });
    if account.is_some() && key.accepted().is_some() {
        return Ok(());
    }
    Err(Failure::unauthorized(match (account, computer.accepted()) {
        (Some(_), _) => "no valid key for the memory: run `attache login`",
        (None, Some(_)) => "this computer is not attached to an account: run `attache login`",
        (None, None) => "this computer is not known to the server: run `attache login`",
    }))
}

/// The events of the hooks of one coding agent.
fn hook_line(status: &ToolStatus, now: Timestamp) -> String {
    let ToolStatus { tool, spooled, progress, .. } = status;
    let last = progress.sent_at.map(|at| format!(", last {}", moment::ago(at, now))).unwrap_or_default();
    let error = progress.error.as_deref().map(|error| format!("\n             {}", visible(error))).unwrap_or_default();
    format!("\n  hooks      {tool}: {} sent, {spooled} waiting{last}{error}", progress.sent)
}

/// The end of the current pause.
async fn paused_until(connection: &ProfileConnection) -> Result<Option<Timestamp>, Failure> {
    match connection.as_machine()?.consent(None, None).await {
        Ok(ConsentAnswer::Effective { paused_until, .. }) => Ok(paused_until),
        Ok(ConsentAnswer::Levels { .. }) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The newest recorded event of this computer.
async fn last_event(connection: &ProfileConnection) -> Result<Option<Value>, Failure> {
    let query = ActivityQuery { limit: Some(1), cursor: None, since: None, lane: None };
    match connection.as_machine()?.activity(&query).await {
        Ok(page) => Ok(page.upstream.get("events").and_then(|events| events.get(0)).cloned()),
        // The statistics service may be unavailable while all other parts work.
        Err(error) if error.is_temporary() => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
