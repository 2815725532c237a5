//! `attache admin plan`: sets the plan of an account.

use clap::Subcommand;
use domain::act::ActKind;
use domain::usage::Plan;
use serde_json::json;

use super::context::{AdminContext, no_account};
use super::options::{AccountSelector, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin plan`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set the plan of an account
    Set {
        #[command(flatten)]
        which: AccountSelector,
        /// Plan: FREE, PLUS, PRO or MAX
        #[arg(long)]
        plan: Plan,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::Set { which, plan, because, format } = command;
    let account = context.account(&which).await?;
    let acting = context.acting(by_shell(ActKind::PlanSet).on("account", &account).because(because.reason));
    let set = acting.store.account_plan_set(&account, plan, context.clock.now()).await;
    if !acting.settle(set).await.map_err(Failure::caused)? {
        return Err(no_account());
    }
    let answer = json!({ "user_account_id": account, "plan": plan });
    output::show(format.json, &answer, || format!("{account} has the plan {} now", plan.as_str()));
    Ok(())
}
