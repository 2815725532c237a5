//! `attache event pending`: shows or drops the event of a chain that has no response yet.

use clap::Args;
use domain::envelope::AgentKinds;
use domain::foreign::visible;
use serde_json::{Value, json};

use super::agent_kind::agent_id;
use super::chain::LocalChain;
use crate::connection::Remote;
use crate::failure::Done;
use crate::output;

/// Options of `attache event pending`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Drop the event, so that later events can be sent
    #[arg(long)]
    drop: bool,
    /// Agent kind, which selects the chain
    #[arg(long, value_name = "KIND", default_value = AgentKinds::CLI, value_parser = agent_id)]
    agent_id: String,
    #[command(flatten)]
    remote: Remote,
}

/// Shows or drops the pending event; sends no request.
pub fn run(arguments: &Arguments) -> Done {
    let connection = arguments.remote.open()?;
    let mut chain = LocalChain::open(&connection.folder, connection.machine()?, &arguments.agent_id)?;
    let pending_event = chain.pending().map(|pending| (pending.event_id, pending.event_type.clone()));
    let position = chain.next();
    let shown = pending_event.as_ref().map_or(Value::Null, |(event_id, event_type)| {
        json!({
            "event_id": event_id,
            "event_type": event_type,
            "chain_epoch": position.chain_epoch,
            "seq": position.seq,
        })
    });
    if arguments.drop {
        chain.give_up()?;
    }
    let dropped = arguments.drop && pending_event.is_some();
    output::show(connection.json, &json!({ "pending": shown, "dropped": dropped }), || {
        let Some((event_id, event_type)) = &pending_event else {
            return "no pending event on this chain".to_owned();
        };
        let event = format!("event {event_id}, {}, for seq {}", visible(event_type), position.seq);
        if dropped {
            format!(
                "{event}, is dropped\n  if the server has recorded it nevertheless, the next event continues after it automatically"
            )
        } else {
            format!("{event}, is pending: the next `attache event send` sends it first\n  --drop drops it")
        }
    });
    Ok(())
}
