//! `attache machine`: registers this computer and shows its registration.

use clap::{Args, Subcommand};
use client::Credential;
use domain::Rng;
use domain::clock::date_time;
use domain::ids::{MachineUuid, UserCuid};
use domain::secret::Secret;
use serde_json::{Value, json};
use wire::device::MachineRequest;

use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::output;
use crate::profile_folder::{Machine, PENDING_CODE};

/// Subcommands of `attache machine`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register this computer and store its secret in the profile
    ///
    /// The computer has no account until `attache login` or `attache attach`, which also register it if necessary.
    Register(Register),
    /// Show this computer as stored in the profile
    Show(Remote),
}

/// Options of `attache machine register`.
#[derive(Debug, Args)]
pub struct Register {
    #[command(flatten)]
    how: RegistrationArgs,
    /// Register again under a new id; the earlier registration stays on the server until it is removed on the account page
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Data that a computer registers with.
#[derive(Debug, Clone, Args)]
pub struct RegistrationArgs {
    /// Name of the computer, shown on the approval page [default: its host name]
    #[arg(long)]
    name: Option<String>,
    /// Enrolment key, if the server requires one
    #[arg(long, env = "ATTACHE_ENROLMENT_KEY", value_name = "KEY", hide_env_values = true)]
    enrolment_key: Option<String>,
}

impl RegistrationArgs {
    /// A registration with a name and without an enrolment key.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), enrolment_key: None }
    }
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Register(arguments) => {
            let mut connection = arguments.remote.open()?;
            let json = connection.json;
            if let (Some(machine), false) = (&connection.profile.machine, arguments.again) {
                return Err(Failure::refused(format!(
                    "this computer is already registered as {}\n  --again registers it under a new id",
                    machine.machine_uuid
                )));
            }
            let registered = register(&mut connection, &arguments.how).await?;
            output::show(json, &registered, || {
                format!(
                    "this computer is registered with {server} as {id}\n  its secret is stored in {folder}\n  next: `attache attach` attaches it to your account",
                    id = registered["machine_uuid"].as_str().unwrap_or_default(),
                    server = connection.client.base_url(),
                    folder = connection.folder.path().display(),
                )
            });
        }
        Command::Show(remote) => {
            let connection = remote.open()?;
            let machine = connection.machine()?;
            let value = shown(machine);
            output::show(connection.json, &value, || {
                let account =
                    machine.user_account_id.as_ref().map_or("no account, according to this profile", |id| id.as_str());
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

/// Registers this computer and stores its secret. A second registration keeps the identity.
pub async fn register(connection: &mut ProfileConnection, how: &RegistrationArgs) -> Result<Value, Failure> {
    let rng = Rng::system();
    let machine_uuid = MachineUuid::from(rng.uuid_v7(connection.clock().now()));
    let user_cuid: UserCuid = match &connection.profile.machine {
        Some(machine) => machine.user_cuid.clone(),
        None => rng.cuid2().parse().map_err(Failure::caused)?,
    };
    // Fail before the request if the profile cannot be written: the secret is shown only once.
    connection.check_writable()?;
    let client = match &how.enrolment_key {
        Some(key) => connection.client.with(Credential::Bearer(Secret::presented(key))),
        None => connection.client.clone(),
    };
    let request = MachineRequest { user_cuid, machine_uuid, name: how.name.clone().or_else(host_name) };
    let registered = client.machine_register(&request).await.map_err(failed)?;
    let (user_cuid, secret) = (registered.user_cuid, registered.machine_secret);
    let machine = Machine { user_cuid, machine_uuid: registered.machine_uuid, secret, user_account_id: None };
    let value = json!({
        "machine_uuid": machine.machine_uuid,
        "user_cuid": machine.user_cuid,
        "first_seen_at": date_time(registered.first_seen_at),
    });
    connection.change(|profile| profile.machine = Some(machine))?;
    // A pending code of the earlier registration is not valid for this one.
    connection.folder.forget(PENDING_CODE)?;
    Ok(value)
}

/// A computer as JSON, without its secret.
pub fn shown(machine: &Machine) -> Value {
    json!({
        "machine_uuid": machine.machine_uuid,
        "user_cuid": machine.user_cuid,
        "user_account_id": machine.user_account_id,
    })
}

/// The host name, shortened to the server's limit.
fn host_name() -> Option<String> {
    /// Maximum number of characters of a name.
    const NAME_MAX: usize = 100;
    let system = rustix::system::uname();
    Some(system.nodename().to_str().ok()?.chars().take(NAME_MAX).collect())
}
