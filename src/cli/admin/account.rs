//! `attache admin account`: creates, lists and closes accounts.

use app::config::Urls;
use clap::Subcommand;
use domain::act::ActKind;
use domain::ids::{Email, UserAccountId, UserCuid};
use serde_json::{Value, json};
use store::account::Provision;

use super::context::AdminContext;
use super::options::{AccountFilter, AccountSelector, Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;
use domain::clock::date_time;

/// Maximum number of parties of one account that `--dry-run` counts.
const COUNTED_MAX: usize = 10_000;

/// Subcommands of `attache admin account`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Close an account: its access ends at once, and its contents are deleted; recorded events stay
    Close {
        #[command(flatten)]
        which: AccountSelector,
        /// Show what would end, and close nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Create an account for a person, an identity, both or neither
    Create {
        /// Identity to link to the account
        #[arg(long)]
        user_cuid: Option<UserCuid>,
        /// E-mail address of the owner
        #[arg(long)]
        email: Option<Email>,
        /// Name of the account
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List accounts with their owners
    List {
        #[command(flatten)]
        whose: AccountFilter,
        #[command(flatten)]
        listing: Listing,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, rng, settings } = context;
    match command {
        Command::Close { which, dry_run: true, format, .. } => {
            show_closing(context, &context.account(&which).await?, &format).await
        }
        Command::Close { which, dry_run: false, because, format } => {
            let (account, now) = (context.account(&which).await?, clock.now());
            let owner = store.account_by_id(&account).await.map_err(Failure::caused)?.and_then(|found| found.owner);
            let base_url = Urls::configured(settings, settings.http.bind, settings.knowledge.bind).base;
            let notice = owner.map(|(_, email)| domain::mail::closed(email, &account, now, &base_url));
            let notice = notice.map(|mail| actors::mail::queued(mail, rng, now));
            let act = by_shell(ActKind::AccountClose).on("account", &account).because(because.reason);
            let acting = context.acting(act);
            let closed = acting.store.account_close(&account, notice.as_ref(), now).await;
            if !acting.settle(closed).await.map_err(Failure::caused)? {
                return Err(Failure::refused("the account does not exist, or is closed already"));
            }
            output::show(format.json, &json!({ "user_account_id": account }), || {
                format!("account {account} is closed")
            });
            Ok(())
        }
        Command::Create { user_cuid, email, name, because, format } => {
            let acting = context.acting(by_shell(ActKind::AccountCreate).because(because.reason));
            let (cuid, email, name) = (user_cuid.as_ref(), email.as_ref(), name.as_deref());
            let made = acting.store.account_provision(cuid, email, name, clock.now(), rng).await;
            match acting.settle(made).await.map_err(Failure::caused)? {
                Provision::Created(id) => {
                    output::show(format.json, &json!({ "user_account_id": id }), || format!("account {id} is created"));
                    Ok(())
                }
                Provision::IdentityLinked => Err(Failure::refused("the identity is already linked to an account")),
                Provision::PersonHasAccount => Err(Failure::refused("the person already has an account")),
            }
        }
        Command::List { whose, listing } => {
            let account = context.filter(whose).await?;
            let accounts = store.accounts(account.as_ref(), listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = accounts
                .iter()
                .map(|(account, closed_at)| {
                    json!({
                        "user_account_id": account.id,
                        "state": if closed_at.is_some() { "closed" } else { "open" },
                        "closed_at": closed_at.map(date_time),
                        "email": account.owner.as_ref().map(|(_, email)| email),
                        "plan": account.plan.as_str(),
                        "balance_cents": account.balance_cents,
                        "name": account.name,
                        "created_at": date_time(account.created_at),
                    })
                })
                .collect();
            output::list(
                listing.format.json,
                &rows,
                &["user_account_id", "state", "email", "plan", "balance_cents", "name", "created_at"],
            );
            Ok(())
        }
    }
}

/// Prints the objects that closing the account would end.
async fn show_closing(context: &AdminContext<'_>, account: &UserAccountId, format: &OutputFormat) -> Done {
    let store = &context.store;
    let row = store.accounts(Some(account), 1).await.map_err(Failure::caused)?.pop();
    let Some((row, None)) = row else {
        return Err(Failure::refused("the account does not exist, or is closed already"));
    };
    let computers = store.computers_of_account(account, COUNTED_MAX).await.map_err(Failure::caused)?.len();
    let agents = store.agents_of_account(account, COUNTED_MAX).await.map_err(Failure::caused)?;
    let agents = agents.iter().filter(|agent| agent.revoked_at.is_none()).count();
    let keys = store.api_keys_of_account(account, COUNTED_MAX).await.map_err(Failure::caused)?;
    let keys = keys.iter().filter(|key| key.is_good(context.clock.now())).count();
    let email = row.owner.map(|(_, email)| email);
    let value = json!({
        "user_account_id": account, "email": email, "computers": computers, "agents": agents, "api_keys": keys,
        "closed": false,
    });
    output::show(format.json, &value, || {
        let owner = email.as_ref().map_or("nobody", |email| email.as_str());
        format!(
            "account {account} of {owner} would be closed: {computers} computers, {agents} agents and {keys} API keys would lose their \
             access, and its memories, spaces and batches would be deleted; recorded events stay"
        )
    });
    Ok(())
}
