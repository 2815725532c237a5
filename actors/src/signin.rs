//! Signing people in (`docs/decisions/0003-sign-in.md` and `docs/decisions/0001-credentials.md`; the rules are in [`domain::signin`]).
//!
//! 1. A browser requests a code. It receives a ticket, and the code is mailed to the address, with or without an account: the response
//!    does not disclose which addresses have one.
//! 2. A person types a code in that browser. The store counts the try before the comparison.
//! 3. With the right code the person and account are found or created. Then one transaction consumes the ticket and creates a new session
//!    for the browser; its previous session ends, so that a session from before the sign-in never becomes a signed-in one.
//!
//! A sign-in through an OpenID provider starts at step 3. No state is kept in memory: every step is a guarded write, run independently of
//! the request so that a browser that disconnects does not interrupt it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::ids::Email;
use domain::mail;
use domain::secret::{CodeKey, Secret, SecretHash, SecretKind};
use domain::signin::{
    CODE_SECONDS, ReturnPath, SignInCode, SignInMethod, SignInRefusal, TRIES_MAX, Ticket, TicketState,
};
use domain::{Clock, Rng, Timestamp};
use store::session::NewSession;
use store::signin::{CodeLimits, TicketRequest, TicketStart};
use store::{Store, StoreError};
use supervision::detached;

use crate::infra_error::InfraError;
use crate::mail::Mail;

const WINDOW: TimeDelta = TimeDelta::hours(1);

/// The dependencies of signing in.
#[derive(Debug)]
pub struct Dependencies {
    /// The database of tickets, sessions and persons.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// The server's key for short codes.
    pub codes: CodeKey,
    /// Sends the codes.
    pub mail: Mail,
    /// Prefix of links in mails.
    pub base_url: String,
    /// Whether a first sign-in creates an account.
    pub create_account: bool,
    /// Maximum number of codes for one address within an hour, requested from one network.
    pub codes_per_hour: u32,
    /// Maximum number of codes for one address within an hour, from all browsers.
    pub codes_per_hour_total: u32,
    /// How long a session lives after it was last used.
    pub session_valid_for: Duration,
}

/// The browser that signs in.
#[derive(Debug, Clone, Default)]
pub struct Browser {
    /// The IP address of the browser.
    pub address: Option<String>,
    /// The name by which the browser identifies itself.
    pub user_agent: Option<String>,
    /// The browser's previous session, which the new one ends.
    pub session: Option<SecretHash>,
}

/// The party that requests a code; each has its own `codes_per_hour`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// An unknown browser, identified by its network. All unknown browsers share `codes_per_hour_total`.
    Stranger(IpAddr),
    /// A browser that signed in with this address before, by its name. Requests of unknown browsers do not count against it.
    Known(String),
}

/// The limit of requested codes is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// Time until the next request is permitted.
    pub retry_after: Duration,
}

/// A browser that has just signed in.
#[derive(Debug)]
pub struct Entered {
    /// The secret of the new session, for the cookie.
    pub session: Secret,
    /// The verified address of the person.
    pub email: Email,
    /// Where the browser is redirected.
    pub next: Option<ReturnPath>,
}

/// The operations of signing in.
#[derive(Debug, Clone)]
pub struct SignIns(Arc<Dependencies>);

impl SignIns {
    /// Creates the operations from their dependencies.
    pub fn new(dependencies: Dependencies) -> Self {
        Self(Arc::new(dependencies))
    }

    /// Mails a code to `email` and returns a new ticket for the browser, which replaces its previous one.
    #[boxed]
    pub async fn ask(
        &self,
        email: Email,
        next: Option<ReturnPath>,
        asker: Asker,
        previous: Option<&Secret>,
    ) -> Result<Result<Secret, TooMany>, InfraError> {
        let (dependencies, previous) = (Arc::clone(&self.0), previous.map(Secret::hash));
        detached(async move { dependencies.ask(email, next, asker, previous).await }).await?
    }

    /// The ticket of a browser, in any state.
    #[boxed]
    pub async fn ticket(&self, ticket: &Secret) -> Result<Option<Ticket>, StoreError> {
        self.0.store.signin_ticket(&ticket.hash()).await
    }

    /// A person typed a code.
    #[boxed]
    pub async fn answer(
        &self,
        ticket: &Secret,
        code: SignInCode,
        browser: Browser,
    ) -> Result<Result<Entered, SignInRefusal>, InfraError> {
        let (dependencies, token) = (Arc::clone(&self.0), ticket.hash());
        detached(async move { dependencies.answer(token, code, browser).await }).await?
    }

    /// Signs in the person with this verified address.
    #[boxed]
    pub async fn enter(&self, email: Email, via: SignInMethod, browser: Browser) -> Result<Secret, InfraError> {
        let dependencies = Arc::clone(&self.0);
        detached(async move { dependencies.enter(email, via, browser).await }).await?
    }
}

impl Dependencies {
    async fn ask(
        &self,
        email: Email,
        next: Option<ReturnPath>,
        asker: Asker,
        before: Option<SecretHash>,
    ) -> Result<Result<Secret, TooMany>, InfraError> {
        let now = self.clock.now();
        let secret = Secret::mint(SecretKind::SignInTicket, &self.rng);
        let code = SignInCode::draw(&self.rng);
        let token = secret.hash();
        let ticket = Ticket {
            token,
            email: email.clone(),
            sealed_code: self.codes.seal(token.as_bytes(), code.expose()),
            next,
            created_at: now,
            expires_at: now + TimeDelta::seconds(CODE_SECONDS),
            tries: 0,
            state: TicketState::Live,
        };
        let (counted_as, total) = match asker {
            Asker::Stranger(address) => (network(address), self.codes_per_hour_total),
            Asker::Known(browser) => (format!("browser {browser}"), u32::MAX),
        };
        let asking = TicketRequest { network: &counted_as, instead_of: before.as_ref() };
        let limits = CodeLimits { per_network: self.codes_per_hour, total, window: WINDOW };
        match self.store.signin_start(&ticket, &asking, &limits, now).await? {
            TicketStart::TooMany { retry_after } => {
                Ok(Err(TooMany { retry_after: retry_after.to_std().unwrap_or_default() }))
            }
            TicketStart::Started => {
                self.mail.send(mail::sign_in_code(email, &code, &self.base_url)).await?;
                Ok(Ok(secret))
            }
        }
    }

    async fn answer(
        &self,
        token: SecretHash,
        code: SignInCode,
        browser: Browser,
    ) -> Result<Result<Entered, SignInRefusal>, InfraError> {
        let now = self.clock.now();
        let Some(ticket) = self.store.signin_try(&token, TRIES_MAX, now).await? else {
            let ticket = self.store.signin_ticket(&token).await?;
            let why = ticket.and_then(|ticket| ticket.may_try(now).err());
            return Ok(Err(why.unwrap_or(SignInRefusal::Expired)));
        };
        if let Err(refusal) = ticket.opens(&code, &self.codes) {
            return Ok(Err(refusal));
        }
        // Before the code is consumed: a failure here can be retried.
        let (new, session) = self.session(&ticket.email, SignInMethod::Code, &browser, now).await?;
        if !self.store.signin_use(&token, &new, browser.session.as_ref(), now).await? {
            return Ok(Err(SignInRefusal::Expired));
        }
        entered(&new);
        Ok(Ok(Entered { session, email: ticket.email, next: ticket.next }))
    }

    async fn enter(&self, email: Email, via: SignInMethod, browser: Browser) -> Result<Secret, InfraError> {
        let now = self.clock.now();
        let (new, session) = self.session(&email, via, &browser, now).await?;
        self.store.session_create(&new, browser.session.as_ref(), now).await?;
        entered(&new);
        Ok(session)
    }

    /// Finds or creates the person with a verified address, and draws a session.
    async fn session<'b>(
        &self,
        email: &Email,
        via: SignInMethod,
        browser: &'b Browser,
        now: Timestamp,
    ) -> Result<(NewSession<'b>, Secret), InfraError> {
        let Self { store, rng, .. } = self;
        let person = store.person_sign_in(email, self.create_account, now, rng).await?;
        let secret = Secret::mint(SecretKind::Session, rng);
        let new = NewSession {
            token: secret.hash(),
            id: rng.uuid_v7(now).into(),
            person: person.id,
            via,
            address: browser.address.as_deref(),
            user_agent: browser.user_agent.as_deref(),
            expires_at: now + TimeDelta::from_std(self.session_valid_for).unwrap_or_default(),
        };
        Ok((new, secret))
    }
}

fn entered(new: &NewSession<'_>) {
    tracing::info!(session.id = %new.id, session.via = %new.via, "a person signed in");
}

/// The network of one customer of a provider: a /24 of IPv4, a /48 of IPv6.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => format!("{}/24", Ipv4Addr::from_bits(v4.to_bits() & 0xffff_ff00)),
        IpAddr::V6(v6) => format!("{}/48", Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_network() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("192.0.2.77"), "192.0.2.0/24");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.0/24");
        assert_eq!(network("2001:db8:1:2:3::4"), "2001:db8:1::/48");
        assert_ne!(network("192.0.3.77"), network("192.0.2.77"));
        assert_ne!(network("2001:db8:2::"), network("2001:db8:1::"));
    }
}
