//! `attache admin session`: creates browser sessions.

use app::config::Settings;
use clap::Subcommand;
use domain::ids::Email;
use domain::secret::{Secret, SecretKind};
use domain::signin::SignInMethod;
use domain::{Clock, Rng};
use serde_json::json;
use store::Store;
use store::account::Person;
use store::session::NewSession;

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::failure::{Done, Failure};
use crate::cli::output;

/// Subcommands of `attache admin session`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a session for a person and print its cookie as `name=value`; creates person and account if necessary
    Create {
        /// E-mail address of the person; it counts as verified
        #[arg(long)]
        email: Email,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::Create { email, format } = command;
    let made = sign_in(&context.store, context.settings, &context.clock, &context.rng, &email).await?;
    let value = json!({
        "name": made.name,
        "value": made.secret.expose(),
        "person_id": made.person.id,
        "user_account_id": made.person.account,
    });
    output::show(format.json, &value, || made.cookie().expose().to_owned());
    Ok(())
}

/// A person with a new session.
pub struct OpenedSession {
    /// The person that the session belongs to.
    pub person: Person,
    name: String,
    secret: Secret,
}

impl OpenedSession {
    /// The cookie as `name=value`.
    pub fn cookie(&self) -> Secret {
        Secret::presented(format!("{}={}", self.name, self.secret.expose()))
    }
}

/// Creates a session for a person without their participation.
pub async fn sign_in(
    store: &Store,
    settings: &Settings,
    clock: &Clock,
    rng: &Rng,
    email: &Email,
) -> Result<OpenedSession, Failure> {
    let now = clock.now();
    let person = store.person_sign_in(email, settings.signin.create_account, now, rng).await;
    let person = person.map_err(Failure::caused)?;
    let secret = Secret::mint(SecretKind::Session, rng);
    let expires_at = now + chrono::TimeDelta::from_std(settings.sessions.valid_for).unwrap_or_default();
    let new = NewSession {
        token: secret.hash(),
        id: rng.uuid_v7(now).into(),
        person: person.id,
        via: SignInMethod::Operator,
        address: None,
        user_agent: None,
        expires_at,
    };
    store.session_create(&new, None, now).await.map_err(Failure::caused)?;
    // With this prefix browsers accept and send the cookie over https only.
    let secure = settings.http.base_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    let name = format!("{}{}.session_token", if secure { "__Secure-" } else { "" }, settings.http.auth_name);
    Ok(OpenedSession { person, name, secret })
}
