//! Sessions of operators in a browser. They are kept in memory: a restart ends them, and each node has its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::api::connection::Peer;
use app::App;
use app::config::OperatorClaim;
use app::services::oidc::OidcState;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use chrono::TimeDelta;
use domain::act::{ActAuthor, ActDoor};
use domain::operator::OperatorRole;
use domain::secret::{Secret, SecretHash};
use domain::{Digest, Timestamp};

/// Time after the sign-in at which a session ends.
pub const LASTS: TimeDelta = TimeDelta::hours(8);

/// Time after the sign-in within which an operator may do what needs the role `admin`.
const ADMINISTERS_FOR: TimeDelta = TimeDelta::minutes(15);

/// Maximum number of sessions; the oldest one ends.
const SESSIONS_MAX: usize = 256;

/// Name of the cookie; over https with the prefix `__Host-`.
pub const COOKIE_NAME: &str = "attache_operator";

/// Name of the cookie while the browser is at an OpenID provider.
pub const RETURN_COOKIE: &str = "attache_operator_return";

/// Time within which the browser returns from a provider.
pub const RETURNS_WITHIN: TimeDelta = TimeDelta::minutes(10);

/// The sessions of this process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct ConsoleSessions {
    browsers: Arc<Mutex<HashMap<SecretHash, BrowserSession>>>,
    /// Sign-ins at a provider that have not returned.
    errands: Arc<Mutex<HashMap<SecretHash, ProviderErrand>>>,
}

/// A sign-in that is at an OpenID provider.
#[derive(Debug)]
pub struct ProviderErrand {
    /// What the provider has to send back.
    pub state: OidcState,
    /// Page after the sign-in.
    pub next: String,
    /// Whether the page with the form came over https.
    pub is_https: bool,
    /// Time at which the browser left.
    pub begun_at: Timestamp,
}

/// What an operator showed at the sign-in. The configuration says at each request whose it is.
#[derive(Debug, Clone)]
pub enum ConsoleCredential {
    /// SHA-256 of a token.
    Token(Digest),
    /// A statement of an OpenID provider.
    Claim {
        /// The claim of the operator.
        claim: OperatorClaim,
        /// Hash of the person's identity there.
        subject: String,
    },
}

/// The session of one browser.
#[derive(Debug, Clone)]
pub struct BrowserSession {
    /// The credential of its operator.
    pub credential: ConsoleCredential,
    /// Time of the sign-in.
    pub signed_in_at: Timestamp,
    /// Whether its page came over https.
    pub is_https: bool,
    /// The secret that each form of its pages contains.
    pub csrf: String,
    /// The message for its next page.
    pub flash: Option<NextMessage>,
}

/// A message for the next page.
#[derive(Debug, Clone)]
pub struct NextMessage {
    /// The sentence of the message.
    pub text: String,
    /// Label and address of the question that undoes the change.
    pub undo: Option<(String, String)>,
}

/// A signed-in operator. As an argument of a handler it redirects others to the sign-in.
#[derive(Debug, Clone)]
pub struct ConsoleOperator {
    /// Name in the configuration.
    pub name: String,
    /// Hash of the identity at a provider, after a sign-in there.
    pub subject: Option<String>,
    /// The rights of the operator.
    pub role: OperatorRole,
    /// Whether changes are offered: by the role, and with `admin.changes`.
    pub may_change: bool,
    /// Whether the sign-in is recent enough for what needs the role `admin`.
    pub is_fresh: bool,
    /// The secret that each form of the pages contains.
    pub csrf: String,
    /// The message for this page.
    pub flash: Option<NextMessage>,
    /// The browser's connection.
    pub peer: Peer,
    /// SHA-256 of the session's secret.
    pub id: SecretHash,
}

impl ConsoleOperator {
    /// The author of an act.
    pub fn author(&self) -> ActAuthor {
        let (operator, from) = (Some(self.name.clone()), Some(self.peer.0.address()));
        ActAuthor { operator, subject: self.subject.clone(), from, ..ActAuthor::at(ActDoor::Console) }
    }

    /// Whether a form comes from a page of this session.
    pub fn sent(&self, csrf: &str) -> bool {
        Secret::presented(&self.csrf).hash() == Secret::presented(csrf).hash()
    }
}

impl ConsoleSessions {
    fn locked(&self) -> MutexGuard<'_, HashMap<SecretHash, BrowserSession>> {
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a sign-in until the browser returns.
    pub fn leave(&self, id: SecretHash, errand: ProviderErrand) {
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        insert(&mut errands, (id, errand), |errand| errand.begun_at, RETURNS_WITHIN);
    }

    /// The sign-in of a browser that returned. It returns once.
    pub fn came_back(&self, id: &SecretHash, now: Timestamp) -> Option<ProviderErrand> {
        let errand = self.errands.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        errand.filter(|errand| now - errand.begun_at < RETURNS_WITHIN)
    }

    /// Adds a session.
    pub fn add(&self, id: SecretHash, session: BrowserSession) {
        insert(&mut self.locked(), (id, session), |session| session.signed_in_at, LASTS);
    }

    /// Ends a session.
    pub fn end(&self, id: &SecretHash) {
        self.locked().remove(id);
    }

    /// Shows a message on the next page of this operator.
    pub fn tell(&self, operator: &ConsoleOperator, flash: NextMessage) {
        if let Some(session) = self.locked().get_mut(&operator.id) {
            session.flash = Some(flash);
        }
    }

    /// The operator of a request, whose token the configuration still has.
    pub fn operator(&self, app: &App, headers: &HeaderMap, peer: Peer) -> Option<ConsoleOperator> {
        let (secret, is_https) = presented(headers, COOKIE_NAME)?;
        let id = Secret::presented(secret).hash();
        let now = app.clock.now();
        let mut sessions = self.locked();
        let session = sessions.get_mut(&id)?;
        if session.is_https != is_https || now - session.signed_in_at >= LASTS {
            return None;
        }
        let settings = app.live.get();
        let own = match &session.credential {
            ConsoleCredential::Token(hash) => settings.admin.operator_of_token(hash.as_bytes()),
            ConsoleCredential::Claim { claim, .. } => settings.admin.operator_of_claim(claim),
        }?;
        Some(ConsoleOperator {
            name: own.name.clone(),
            subject: match &session.credential {
                ConsoleCredential::Token(_) => None,
                ConsoleCredential::Claim { subject, .. } => Some(subject.clone()),
            },
            role: own.role,
            may_change: own.role >= OperatorRole::Operate && settings.admin.changes,
            is_fresh: now - session.signed_in_at < ADMINISTERS_FOR,
            csrf: session.csrf.clone(),
            flash: session.flash.take(),
            peer,
            id,
        })
    }
}

/// Inserts an entry. Entries that have ended are removed, and the oldest one if there are too many.
fn insert<T>(
    entries: &mut HashMap<SecretHash, T>,
    (id, new): (SecretHash, T),
    begun_at: impl Fn(&T) -> Timestamp,
    lasts: TimeDelta,
) {
    entries.retain(|_, other| begun_at(&new) - begun_at(other) < lasts);
    if entries.len() >= SESSIONS_MAX
        && let Some(oldest) = entries.iter().min_by_key(|(_, entry)| begun_at(entry)).map(|(id, _)| *id)
    {
        entries.remove(&oldest);
    }
    entries.insert(id, new);
}

/// The secret in the cookie of this name, and whether it has the prefix of https. A name that occurs twice was set by another party too.
pub fn presented<'h>(headers: &'h HeaderMap, cookie: &str) -> Option<(&'h str, bool)> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut own = pairs.filter_map(|(name, value)| {
        let is_https = name.strip_prefix("__Host-") == Some(cookie);
        (is_https || name == cookie).then_some((value, is_https))
    });
    let first = own.next()?;
    own.next().is_none().then_some(first)
}
