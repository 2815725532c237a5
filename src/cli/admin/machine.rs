//! `attache admin machine`: registers, attaches, lists and removes computers.

use clap::Subcommand;
use domain::act::ActKind;
use domain::device::approval::ApprovalRefusal;
use domain::ids::{MachineUuid, UserAccountId, UserCuid};
use domain::secret::{Secret, SecretKind};
use serde_json::{Value, json};
use store::machine::{NewMachine, Register};

use super::context::AdminContext;
use super::options::{AccountFilter, Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;
use domain::clock::date_time;

/// Subcommands of `attache admin machine`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register a computer and print its secret once
    Add {
        /// Identity of the computer
        #[arg(long)]
        user_cuid: UserCuid,
        /// Id of the computer, a UUIDv7
        #[arg(long)]
        machine_uuid: MachineUuid,
        /// Name of the computer
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Attach a computer, and its identity, to an account
    Attach {
        /// Id of the computer
        #[arg(long)]
        machine_uuid: MachineUuid,
        /// Id of the account
        #[arg(long)]
        account: UserAccountId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List computers
    List {
        #[command(flatten)]
        whose: AccountFilter,
        #[command(flatten)]
        listing: Listing,
    },
    /// Remove a computer and revoke its secret
    Remove {
        /// Id of the computer
        machine_uuid: MachineUuid,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, rng, .. } = context;
    match command {
        Command::Add { user_cuid, machine_uuid, name, because, format } => {
            let secret = Secret::mint(SecretKind::Machine, rng);
            let new = NewMachine {
                machine_uuid,
                user_cuid: &user_cuid,
                name: name.as_deref(),
                secret: secret.hash(),
                part: context.settings.log.weights().unwrap_or_default().part_of(machine_uuid),
            };
            let acting =
                context.acting(by_shell(ActKind::MachineAdd).on("machine", machine_uuid).because(because.reason));
            let registered = acting.store.machine_register(&new, clock.now()).await;
            match acting.settle(registered).await.map_err(Failure::caused)? {
                Register::Registered => {
                    let value = json!({ "machine_uuid": machine_uuid, "user_cuid": user_cuid, "machine_secret": secret.expose() });
                    output::show(format.json, &value, || secret.expose().to_owned());
                    Ok(())
                }
                Register::AlreadyRegistered => Err(Failure::refused("the computer is already registered")),
            }
        }
        Command::Attach { machine_uuid, account, because, format } => {
            let act = by_shell(ActKind::MachineAttach).on("machine", machine_uuid).because(because.reason);
            let acting = context.acting(act.to(json!({ "user_account_id": account })));
            let attached = acting.store.machine_attach(machine_uuid, &account, clock.now(), rng).await;
            match acting.settle(attached).await.map_err(Failure::caused)? {
                Ok(()) => {
                    let value = json!({ "machine_uuid": machine_uuid, "user_account_id": account });
                    output::show(format.json, &value, || format!("{machine_uuid} is attached to {account}"));
                    Ok(())
                }
                Err(ApprovalRefusal::MachineNotRegistered) => {
                    Err(Failure::not_found("no computer with this id is registered"))
                }
                // An operator may attach any computer of the identity, not only the first one.
                Err(refusal) => Err(Failure::refused(refusal.to_string())),
            }
        }
        Command::List { whose, listing } => {
            let machines = match context.filter(whose).await? {
                None => store.machines(listing.limit).await,
                Some(account) => store.computers_of_account(&account, listing.limit).await,
            };
            let machines = machines.map_err(Failure::caused)?;
            let rows: Vec<Value> = machines
                .iter()
                .map(|machine| {
                    json!({
                        "machine_uuid": machine.machine_uuid,
                        "user_cuid": machine.user_cuid,
                        "name": machine.name,
                        "user_account_id": machine.account,
                        "first_seen_at": date_time(machine.first_seen_at),
                        "last_seen_at": date_time(machine.last_seen_at),
                    })
                })
                .collect();
            let columns = ["machine_uuid", "user_cuid", "name", "user_account_id", "first_seen_at", "last_seen_at"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Remove { machine_uuid, because, format } => {
            let act = by_shell(ActKind::MachineRemove).on("machine", machine_uuid).because(because.reason);
            let acting = context.acting(act);
            let removed = acting.store.machine_remove(machine_uuid, clock.now()).await;
            if acting.settle(removed).await.map_err(Failure::caused)? {
                output::show(format.json, &json!({ "removed": machine_uuid }), || format!("{machine_uuid} is removed"));
                Ok(())
            } else {
                Err(Failure::not_found("no computer with this id is registered"))
            }
        }
    }
}
