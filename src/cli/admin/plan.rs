//! `attache admin plan`

use clap::Subcommand;
use domain::usage::Plan;
use serde_json::json;

use super::{AdminContext, Format, Which, no_account};
use crate::cli::{Done, Failure, output};

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Give an account a plan
    Set {
        #[command(flatten)]
        which: Which,
        /// FREE, PLUS, PRO or MAX
        #[arg(long)]
        plan: Plan,
        #[command(flatten)]
        format: Format,
    },
}

/// Does it.
pub async fn run(command: Command, office: &AdminContext<'_>) -> Done {
    let Command::Set { which, plan, format } = command;
    let account = office.account(&which).await?;
    if !office.store.account_plan_set(&account, plan).await.map_err(Failure::caused)? {
        return Err(no_account());
    }
    let answer = json!({ "user_account_id": account, "plan": plan });
    output::show(format.json, &answer, || format!("{account} has the plan {} now", plan.as_str()));
    Ok(())
}
