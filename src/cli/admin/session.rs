//! `attache admin session`: creates, lists and ends browser sessions.

use app::acts::Acting;
use app::config::{Settings, Urls};
use app::objects::ObjectChange;
use app::queues;
use chrono::TimeDelta;
use clap::Subcommand;
use domain::act::{ActKind, ActReason};
use domain::ids::{Email, PersonId};
use domain::secret::{Secret, SecretKind};
use domain::signin::SignInMethod;
use domain::{Clock, Rng};
use serde_json::json;
use store::Store;
use store::account::Person;
use store::session::{NewSession, PersonSessionFilter};

use super::context::AdminContext;
use super::objects::{ObjectOptions, change, list};
use super::options::{AccountFilter, Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin session`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a session for a person and print its cookie as `name=value`; creates person and account if necessary
    ///
    /// The session lasts an hour. The person is mailed about it and sees it in the list of sessions.
    Create {
        /// E-mail address of the person; it counts as verified
        #[arg(long)]
        email: Email,
        /// Send no mail to the person, which the record of this act states
        #[arg(long)]
        silent: bool,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List valid sessions, oldest first
    List {
        #[command(flatten)]
        whose: AccountFilter,
        /// Only of the person with this id
        #[arg(long)]
        person: Option<PersonId>,
        #[command(flatten)]
        listing: Listing,
    },
    /// End a session at once
    End(ObjectOptions),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::Create { email, silent, because, format } => {
            let entry = SignInAs { email: &email, silent, reason: because.reason };
            let made = sign_in(&context.store, context.settings, (&context.clock, &context.rng), entry).await?;
            let value = json!({
                "name": made.name,
                "value": made.secret.expose(),
                "person_id": made.person.id,
                "user_account_id": made.person.account,
            });
            output::show(format.json, &value, || made.cookie().expose().to_owned());
            Ok(())
        }
        Command::List { whose, person, listing } => {
            let filter = PersonSessionFilter { person, account: context.filter(whose).await? };
            let rows = context.store.sessions_valid(&filter, None, context.clock.now(), listing.limit).await;
            let columns = ["id", "person_id", "user_account_id", "kind", "created_at", "last_used_at", "expires_at"];
            list(listing, rows, queues::session, &columns)
        }
        Command::End(options) => change(context, ObjectChange::EndSession, options, "is ended").await,
    }
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

/// Maximum duration of a session that an operator creates. Its use does not extend it.
const LASTS_MAX: TimeDelta = TimeDelta::hours(1);

/// An operator's sign-in as a person.
pub struct SignInAs<'e> {
    /// The person.
    pub email: &'e Email,
    /// Whether the person is not mailed.
    pub silent: bool,
    /// The operator's reason.
    pub reason: Option<ActReason>,
}

/// Creates a session for a person without their participation.
pub async fn sign_in(
    store: &Store,
    settings: &Settings,
    (clock, rng): (&Clock, &Rng),
    SignInAs { email, silent, reason }: SignInAs<'_>,
) -> Result<OpenedSession, Failure> {
    let now = clock.now();
    let person = person_of(store, settings, (clock, rng), email).await?;
    let secret = Secret::mint(SecretKind::Session, rng);
    let lasts = TimeDelta::from_std(settings.sessions.valid_for).unwrap_or(LASTS_MAX).min(LASTS_MAX);
    let expires_at = now + lasts;
    let new = NewSession {
        token: secret.hash(),
        id: rng.uuid_v7(now).into(),
        person: person.id,
        via: SignInMethod::Operator,
        address: None,
        user_agent: None,
        expires_at,
    };
    let base_url = Urls::configured(settings, settings.http.bind, settings.knowledge.bind).base;
    let mail = domain::mail::signed_in_by_operator(email.clone(), reason.as_ref(), now, expires_at, &base_url);
    let mail = (!silent).then(|| actors::mail::queued(mail, rng, now));
    let act = by_shell(ActKind::SessionCreate).on("person", person.id).because(reason).until(expires_at);
    let acting = Acting::new(store, (clock, rng), act.to(json!({ "session_id": new.id, "silent": silent })));
    let created = acting.store.session_create_by_operator(&new, mail.as_ref(), now).await;
    acting.settle(created).await.map_err(Failure::caused)?;
    // With this prefix browsers accept and send the cookie over https only.
    let secure = settings.http.base_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    let name = format!("{}{}.session_token", if secure { "__Secure-" } else { "" }, settings.http.auth_name);
    Ok(OpenedSession { person, name, secret })
}

/// Finds or creates a person. The account of a new one is an act.
pub async fn person_of(
    store: &Store,
    settings: &Settings,
    (clock, rng): (&Clock, &Rng),
    email: &Email,
) -> Result<Person, Failure> {
    let acting = Acting::new(store, (clock, rng), by_shell(ActKind::AccountCreate));
    let person = acting.store.person_sign_in(email, settings.signin.create_account, clock.now(), rng).await;
    person.map_err(Failure::caused)
}
