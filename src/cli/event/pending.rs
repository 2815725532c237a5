//! `attache event pending`: the event that was begun on a chain and not settled, and the way to give it up.

use clap::Args;
use domain::envelope::AgentKinds;
use domain::foreign::visible;
use serde_json::{Value, json};

use super::agent_id;
use super::chain::Chain;
use crate::cli::remote::Remote;
use crate::cli::{Done, output};

/// On which chain, and what to do with it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Give it up: it is not sent any more, and those after it are
    #[arg(long)]
    drop: bool,
    /// The kind of agent on whose chain it waits
    #[arg(long, value_name = "KIND", default_value = AgentKinds::CLI, value_parser = agent_id)]
    agent_id: String,
    #[command(flatten)]
    remote: Remote,
}

/// Does it; asks no server.
pub fn run(arguments: &Arguments) -> Done {
    let connection = arguments.remote.open()?;
    let mut chain = Chain::open(&connection.folder, connection.machine()?, &arguments.agent_id)?;
    let known = chain.pending().map(|pending| (pending.event_id, pending.event_type.clone()));
    let position = chain.next();
    let shown = known.as_ref().map_or(Value::Null, |(event_id, event_type)| {
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
    let dropped = arguments.drop && known.is_some();
    output::show(connection.json, &json!({ "pending": shown, "dropped": dropped }), || {
        let Some((event_id, event_type)) = &known else {
            return "nothing waits on this chain".to_owned();
        };
        let event = format!("event {event_id}, {}, for seq {}", visible(event_type), position.seq);
        if dropped {
            format!("{event}, is given up\n  if the server has it all the same, the next one goes behind it by itself")
        } else {
            format!("{event}, waits: the next `attache event send` sends it first\n  --drop gives it up")
        }
    });
    Ok(())
}
