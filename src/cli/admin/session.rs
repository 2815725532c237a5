//! `attache admin session`

use clap::Subcommand;
use domain::ids::Email;
use domain::secret::{Secret, SecretKind};
use domain::signin::Via;
use serde_json::json;
use store::session::NewSession;

use super::{Format, Office};
use crate::cli::{Done, Failure, output};

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sign a person in and print the cookie as `name=value`; makes person and account when they are new
    Create {
        /// The person's address; it counts as verified
        #[arg(long)]
        email: Email,
        #[command(flatten)]
        format: Format,
    },
}

/// Does it.
pub async fn run(command: Command, office: &Office<'_>) -> Done {
    let Office { settings, store, clock, chance } = office;
    let Command::Create { email, format } = command;
    let now = clock.now();
    let person = store.person_sign_in(&email, settings.signin.create_account, now, chance).await;
    let person = person.map_err(Failure::refused)?;
    let secret = Secret::mint(SecretKind::Session, chance);
    let expires_at = now + chrono::TimeDelta::from_std(settings.sessions.valid_for).unwrap_or_default();
    let new = NewSession {
        token: secret.hash(),
        id: chance.uuid_v7(now).into(),
        person: person.id,
        via: Via::Operator,
        address: None,
        user_agent: None,
        expires_at,
    };
    store.session_create(&new, None, now).await.map_err(Failure::refused)?;
    // Over https browsers refuse to let plain http set or send this name.
    let secure = settings.http.base_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    let name = format!("{}{}.session_token", if secure { "__Secure-" } else { "" }, settings.http.auth_name);
    let cookie = format!("{name}={}", secret.expose());
    let value =
        json!({ "name": name, "value": secret.expose(), "person_id": person.id, "user_account_id": person.account });
    output::show(format.json, &value, || cookie);
    Ok(())
}
