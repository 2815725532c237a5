//! `attache consent`: shows and sets consent levels.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use domain::consent::ConsentLevel;
use domain::ids::MachineUuid;
use domain::lane::Lane;
use serde_json::json;
use wire::consent::{ConsentAnswer, ConsentRecord, ConsentRequest};

use crate::connection::{CredentialArgs, Remote, failed};
use crate::failure::{Done, Failure};
use crate::terminal::STRONG;
use crate::{moment, output, terminal};

/// Subcommands of `attache consent`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the effective consent level of a computer, or all levels of the account
    Get(Get),
    /// Set a consent level, effective from the next event on; the change itself is recorded
    ///
    /// If the person and the computer both set a level, the lower one is effective: a computer cannot raise its level above its person's.
    Set(Set),
}

/// The computer and lane that a command refers to.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConsentTarget {
    /// Computer [default: this one, or with the agent's credential all]
    #[arg(long, value_name = "MACHINE_UUID")]
    machine: Option<MachineUuid>,
    /// Lane [default: memory for get, all for set]
    #[arg(long, value_parser = lanes())]
    lane: Option<Lane>,
}

/// Options of `attache consent get`.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    place: ConsentTarget,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Options of `attache consent set`.
#[derive(Debug, Args)]
pub struct Set {
    /// Maximum that may be recorded
    #[arg(value_parser = levels())]
    level: ConsentLevel,
    #[command(flatten)]
    place: ConsentTarget,
    /// Reason to record with the change, at most 256 characters
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Parses a lane argument and lists the possible values in the help.
pub fn lanes() -> impl clap::builder::TypedValueParser<Value = Lane> {
    use clap::builder::TypedValueParser;
    PossibleValuesParser::new(Lane::ALL.iter().map(|lane| lane.as_str())).try_map(|lane| lane.parse::<Lane>())
}

fn levels() -> impl clap::builder::TypedValueParser<Value = ConsentLevel> {
    use clap::builder::TypedValueParser;
    let levels = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full];
    PossibleValuesParser::new(levels.map(ConsentLevel::as_str)).try_map(|level| level.parse::<ConsentLevel>())
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Get(arguments) => get(&arguments).await,
        Command::Set(arguments) => set(arguments).await,
    }
}

async fn get(arguments: &Get) -> Done {
    let mut connection = arguments.remote.open()?;
    let ConsentTarget { machine, lane } = arguments.place;
    let answer = connection.send_as(arguments.whom, async |client| client.consent(machine, lane).await).await?;
    let value = serde_json::to_value(&answer).map_err(Failure::caused)?;
    output::show(connection.json, &value, || match &answer {
        ConsentAnswer::Effective { level, paused_until } => {
            let place = machine.map_or("this computer".to_owned(), |machine| machine.to_string());
            let lane = lane.unwrap_or(Lane::Memory);
            let paused =
                paused_until.map(|until| format!(", paused until {}", moment::minute(until))).unwrap_or_default();
            format!("on {place}, in the lane {lane}: {}{paused}", terminal::styled(STRONG, level))
        }
        ConsentAnswer::Levels { levels, .. } if levels.is_empty() => {
            "no levels set: the server's default level is effective everywhere".to_owned()
        }
        ConsentAnswer::Levels { levels, .. } => {
            output::table(&["identity", "computer", "lane", "level", "set by"], levels.iter().map(row))
        }
    });
    Ok(())
}

async fn set(arguments: Set) -> Done {
    let mut connection = arguments.remote.open()?;
    let client = connection.as_whom(arguments.whom).await?;
    let ConsentTarget { machine, lane } = arguments.place;
    let level = arguments.level;
    let request = ConsentRequest { level, reason: arguments.reason, machine_uuid: machine, lane };
    let written = match client.consent_set(&request).await {
        Ok(written) => written,
        Err(error) if error.code() == Some("consent_audit_forward_failed") => {
            let written = error.refusal().and_then(|refusal| refusal.number("written")).unwrap_or_default();
            return Err(Failure::refused(format!(
                "{level} is set ({written} changed), but the statistics service has not accepted the record yet; the server continues to try"
            )));
        }
        Err(error) => return Err(failed(error)),
    };
    output::show(connection.json, &json!({ "level": written.level, "written": written.written }), || {
        let in_force = terminal::styled(STRONG, written.level);
        if written.level != level {
            return format!(
                "{level} is set, but {in_force} is effective: if the person and the computer both set a level, the lower one is"
            );
        }
        let level = in_force;
        match written.written {
            0 => format!("the level was already {level}"),
            1 => format!("the level is {level} now"),
            changed => format!("the level is {level} now, in {changed} places"),
        }
    });
    Ok(())
}

fn row(record: &ConsentRecord) -> Vec<String> {
    let or_all = |name: Option<String>| name.unwrap_or_else(|| "all".to_owned());
    vec![
        record.user_cuid.to_string(),
        or_all(record.machine_uuid.map(|machine| machine.to_string())),
        or_all(record.lane.map(|lane| lane.to_string())),
        record.level.to_string(),
        record.set_by.as_str().to_owned(),
    ]
}
