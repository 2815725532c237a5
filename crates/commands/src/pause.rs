//! `attache pause`: recording stops for a time and continues by itself (`docs/protocol/consent.md#pauses`).

use std::time::Duration;

use clap::Args;
use domain::clock::date_time;
use domain::ids::MachineUuid;
use serde_json::json;
use wire::consent::PauseRequest;

use crate::connection::{CredentialArgs, CredentialKind, Remote, failed};
use crate::failure::{Done, Failure};
use crate::terminal::STRONG;
use crate::{moment, output, terminal};

/// Options of `attache pause`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Length of the pause, such as 1h, 30m or 1d; the server limits it
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = length)]
    length: Duration,
    /// End the pause now; the pause of another party only a person ends, on the consent page
    #[arg(long, conflicts_with = "length")]
    end: bool,
    /// Computer [default: this one, or with the agent's credential all]
    #[arg(long, value_name = "MACHINE_UUID")]
    machine: Option<MachineUuid>,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = moment::duration(text)?;
    if length.as_secs() == 0 { Err("the shortest pause is 1s".to_owned()) } else { Ok(length) }
}

/// Pauses recording, or ends a pause.
pub async fn pause(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let client = connection.as_whom(arguments.whom).await?;
    let (machine, base) = (arguments.machine, connection.client.base_url());
    let is_all = machine.is_none()
        && (arguments.whom.whom == Some(CredentialKind::Agent) || connection.profile.machine.is_none());
    let place = match machine {
        Some(machine) => machine.to_string(),
        None if is_all => "all computers of the account".to_owned(),
        None => "this computer".to_owned(),
    };
    if arguments.end {
        client.recording_continue(machine).await.map_err(|error| match error.code() {
            Some("session_required") => Failure::of_request(
                &error,
                format!(
                    "another party began this pause; a person ends it at {base}/account/consent, or it ends by itself"
                ),
            ),
            _ => failed(error),
        })?;
        let said =
            format!("the pause of {place} has ended; a pause of the whole account is ended at {base}/account/consent");
        output::show(connection.json, &json!({ "paused_until": null }), || said);
        return Ok(());
    }
    let request = PauseRequest { seconds: arguments.length.as_secs(), machine_uuid: machine };
    let until = client.recording_pause(&request).await.map_err(failed)?.paused_until;
    let value = json!({ "paused_until": until.map(date_time) });
    output::show(connection.json, &value, || match until {
        Some(until) => {
            format!("recording of {place} is paused until {}", terminal::styled(STRONG, moment::minute(until)))
        }
        None => format!("recording of {place} is not paused"),
    });
    Ok(())
}
