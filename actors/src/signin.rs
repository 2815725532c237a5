//! Signing people in (decisions, sections 2 and 3; the rules are in [`domain::signin`]).
//!
//! 1. A browser asks for a code. It is given a ticket, and the code goes to the address, whether somebody has an account there or not:
//!    nobody learns from here who has one.
//! 2. Somebody types a code in that browser. A try is spent in the store before anything is compared.
//! 3. With the right one the ticket is used up, person and account are found or made, and the browser gets a new session; the one that it
//!    had ends, so that a session from before can never become a signed-in one.
//!
//! A person whom an OpenID provider vouches for enters at step 3. Nothing lives here: every step is a guarded write, run apart from the
//! request so that a browser that hangs up does not cut it in half.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::ids::Email;
use domain::letter;
use domain::secret::{CodeKey, Secret, SecretHash, SecretKind};
use domain::signin::{CODE_SECONDS, Next, SignInCode, SignInRefusal, TRIES_MAX, Ticket, TicketState, Via};
use domain::{Chance, Clock};
use store::session::NewSession;
use store::signin::TicketStart;
use store::{Store, StoreError};

use crate::detached::detached;
use crate::mail::Mail;
use crate::trouble::Trouble;

/// The window of `signin.codes_per_hour`.
const WINDOW: TimeDelta = TimeDelta::hours(1);

/// What signing in works with.
#[derive(Debug)]
pub struct Wiring {
    /// The rows.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub chance: Chance,
    /// The server's key for short codes.
    pub codes: CodeKey,
    /// How codes leave.
    pub mail: Mail,
    /// What links in letters begin with.
    pub base_url: String,
    /// Whether a first sign-in makes an account.
    pub create_account: bool,
    /// Codes for one address within an hour.
    pub codes_per_hour: u32,
    /// How long a session lives after it was last used.
    pub session_valid_for: Duration,
}

/// The browser that signs in.
#[derive(Debug, Clone, Default)]
pub struct Browser {
    /// Where it is.
    pub address: Option<String>,
    /// What it calls itself.
    pub user_agent: Option<String>,
    /// The session that it had: ended by a new one.
    pub session: Option<SecretHash>,
}

/// Too many codes were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// When the next may be.
    pub retry_after: Duration,
}

/// A browser that is signed in now.
#[derive(Debug)]
pub struct Entered {
    /// The session's secret.
    pub session: Secret,
    /// Where it wanted to go.
    pub next: Option<Next>,
}

/// What HTTP talks to.
#[derive(Debug, Clone)]
pub struct SignIns(Arc<Wiring>);

impl SignIns {
    /// With everything it needs.
    pub fn new(wiring: Wiring) -> Self {
        Self(Arc::new(wiring))
    }

    /// Mails a code to `email` and gives the ticket that the browser keeps for it.
    pub async fn ask(&self, email: Email, next: Option<Next>) -> Result<Result<Secret, TooMany>, Trouble> {
        let wiring = Arc::clone(&self.0);
        detached(async move { wiring.ask(email, next).await }).await?
    }

    /// The ticket of a browser, whatever became of it.
    pub async fn ticket(&self, ticket: &Secret) -> Result<Option<Ticket>, StoreError> {
        self.0.store.signin_ticket(&ticket.hash()).await
    }

    /// Somebody typed a code.
    pub async fn answer(
        &self,
        ticket: &Secret,
        code: SignInCode,
        browser: Browser,
    ) -> Result<Result<Entered, SignInRefusal>, Trouble> {
        let (wiring, token) = (Arc::clone(&self.0), ticket.hash());
        detached(async move { wiring.answer(token, code, browser).await }).await?
    }

    /// Signs in whoever owns this verified address.
    pub async fn enter(&self, email: Email, via: Via, browser: Browser) -> Result<Secret, Trouble> {
        let wiring = Arc::clone(&self.0);
        detached(async move { wiring.enter(email, via, browser).await }).await?
    }
}

impl Wiring {
    async fn ask(&self, email: Email, next: Option<Next>) -> Result<Result<Secret, TooMany>, Trouble> {
        let now = self.clock.now();
        let secret = Secret::mint(SecretKind::SignInTicket, &self.chance);
        let code = SignInCode::draw(&self.chance);
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
        match self.store.signin_start(&ticket, self.codes_per_hour, WINDOW, now).await? {
            TicketStart::TooMany { retry_after } => {
                Ok(Err(TooMany { retry_after: retry_after.to_std().unwrap_or_default() }))
            }
            TicketStart::Started => {
                self.mail.send(letter::sign_in_code(email, &code, &self.base_url)).await?;
                Ok(Ok(secret))
            }
        }
    }

    async fn answer(
        &self,
        token: SecretHash,
        code: SignInCode,
        browser: Browser,
    ) -> Result<Result<Entered, SignInRefusal>, Trouble> {
        let now = self.clock.now();
        let Some(ticket) = self.store.signin_try(&token, TRIES_MAX, now).await? else {
            let ticket = self.store.signin_ticket(&token).await?;
            let why = ticket.and_then(|ticket| ticket.may_try(now).err());
            return Ok(Err(why.unwrap_or(SignInRefusal::Expired)));
        };
        if let Err(refusal) = ticket.opens(&code, &self.codes) {
            return Ok(Err(refusal));
        }
        if !self.store.signin_use(&token, now).await? {
            return Ok(Err(SignInRefusal::Expired));
        }
        let session = self.enter(ticket.email, Via::Code, browser).await?;
        Ok(Ok(Entered { session, next: ticket.next }))
    }

    async fn enter(&self, email: Email, via: Via, browser: Browser) -> Result<Secret, Trouble> {
        let Self { store, clock, chance, .. } = self;
        let now = clock.now();
        let person = store.person_sign_in(&email, self.create_account, now, chance).await?;
        let secret = Secret::mint(SecretKind::Session, chance);
        let new = NewSession {
            token: secret.hash(),
            id: chance.uuid_v7(now).into(),
            person: person.id,
            via,
            address: browser.address.as_deref(),
            user_agent: browser.user_agent.as_deref(),
            expires_at: now + TimeDelta::from_std(self.session_valid_for).unwrap_or_default(),
        };
        store.session_create(&new, browser.session.as_ref(), now).await?;
        tracing::info!(session.id = %new.id, session.via = %new.via, "a person signed in");
        Ok(secret)
    }
}
