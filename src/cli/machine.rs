//! `attache machine`: this computer and the secret with which it opens the server.

use clap::{Args, Subcommand};
use client::Credential;
use domain::Rng;
use domain::clock::date_time;
use domain::ids::{MachineUuid, UserCuid};
use domain::secret::Secret;
use serde_json::{Value, json};
use wire::device::MachineRequest;

use super::profile::Machine;
use super::remote::{Connection, Remote, failed};
use super::{Done, Failure, attach, output};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Give this computer an identity and a secret, kept in the profile
    #[command(after_help = "The computer belongs to nobody until `attache attach`, which registers it too if need be.")]
    Register(Register),
    /// Show what the profile knows of this computer
    Show(Remote),
}

/// How to register.
#[derive(Debug, Args)]
pub struct Register {
    #[command(flatten)]
    how: How,
    /// Anew, although it is registered. What it was before stays on the server, attached if it was, and is removed on the account page
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    remote: Remote,
}

/// What a computer says of itself.
#[derive(Debug, Clone, Args)]
pub struct How {
    /// What the computer is called where its person approves it [default: its host name]
    #[arg(long)]
    name: Option<String>,
    /// What the server asks for where not everybody may register
    #[arg(long, env = "ATTACHE_ENROLMENT_KEY", value_name = "KEY", hide_env_values = true)]
    enrolment_key: Option<String>,
}

impl How {
    /// With a name, where everybody may register.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), enrolment_key: None }
    }
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Register(arguments) => {
            let mut connection = arguments.remote.open()?;
            let json = connection.json;
            if let (Some(machine), false) = (&connection.profile.machine, arguments.again) {
                return Err(Failure::refused(format!(
                    "this computer is registered already, as {}\n  --again registers it anew",
                    machine.machine_uuid
                )));
            }
            let registered = register(&mut connection, &arguments.how).await?;
            output::show(json, &registered, || {
                format!(
                    "this computer is {} for {} now\n  its secret is kept in {}\n  next: `attache attach` attaches it to your account",
                    registered["machine_uuid"].as_str().unwrap_or_default(),
                    connection.client.base_url(),
                    connection.folder.path().display(),
                )
            });
        }
        Command::Show(remote) => {
            let connection = remote.open()?;
            let machine = connection.machine()?;
            let known = shown(machine);
            output::show(connection.json, &known, || {
                let account =
                    machine.user_account_id.as_ref().map_or("nobody, as far as is known here", |id| id.as_str());
                format!(
                    "computer  {}\nidentity  {}\nserver    {}\nattached  to {account}",
                    machine.machine_uuid,
                    machine.user_cuid,
                    connection.client.base_url(),
                )
            });
        }
    }
    Ok(())
}

/// Registers this computer and keeps its secret. An identity that lived here before goes on living here.
pub async fn register(connection: &mut Connection, how: &How) -> Result<Value, Failure> {
    let rng = Rng::system();
    let machine_uuid = MachineUuid::from(rng.uuid_v7(connection.clock().now()));
    let user_cuid: UserCuid = match &connection.profile.machine {
        Some(machine) => machine.user_cuid.clone(),
        None => rng.cuid2().parse().map_err(Failure::refused)?,
    };
    // No profile that could not be kept: the secret is shown only once.
    connection.may_keep()?;
    let client = match &how.enrolment_key {
        Some(key) => connection.client.with(Credential::Bearer(Secret::presented(key))),
        None => connection.client.clone(),
    };
    let request = MachineRequest { user_cuid, machine_uuid, name: how.name.clone().or_else(host_name) };
    let registered = client.machine_register(&request).await.map_err(failed)?;
    let (user_cuid, secret) = (registered.user_cuid, registered.machine_secret);
    let machine = Machine { user_cuid, machine_uuid: registered.machine_uuid, secret, user_account_id: None };
    let known = json!({
        "machine_uuid": machine.machine_uuid,
        "user_cuid": machine.user_cuid,
        "first_seen_at": date_time(registered.first_seen_at),
    });
    connection.change(|profile| profile.machine = Some(machine))?;
    // A code that an earlier registration waits for is not this one's.
    connection.folder.forget(attach::PENDING)?;
    Ok(known)
}

/// What of a computer is no secret.
pub fn shown(machine: &Machine) -> Value {
    json!({
        "machine_uuid": machine.machine_uuid,
        "user_cuid": machine.user_cuid,
        "user_account_id": machine.user_account_id,
    })
}

/// What the network calls this computer.
fn host_name() -> Option<String> {
    /// Characters of a name, at most.
    const NAME_MAX: usize = 100;
    let name = hostname::get().ok()?.into_string().ok()?;
    Some(name.chars().take(NAME_MAX).collect())
}
