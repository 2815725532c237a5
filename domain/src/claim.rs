//! Registrations of agents and the attempts by which people claim them (`docs/protocol/agents.md#registration-states`
//! and `docs/decisions/0014-claims-of-agents.md`). Pure: these functions decide transitions, the actors execute them.

use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::ids::{Email, PersonId, RegistrationId, UserAccountId};
use crate::secret::{CodeKey, SecretHash};
use crate::{Rng, Timestamp, UnknownName};

/// How long a link and its code are valid: always 1800 seconds.
pub const ATTEMPT_SECONDS: i64 = 1800;

/// How long the claim token of an agent that was claimed gives a token at least, however soon after the claim it would have
/// ended: whoever confirms in time leaves no agent without its token.
pub const FIRST_EXCHANGE: TimeDelta = TimeDelta::hours(1);

/// How often an agent may ask: always 5 seconds.
pub const INTERVAL_SECONDS: u32 = 5;

/// How many wrong codes an attempt bears; the last of them burns it.
pub const WRONG_TRIES_MAX: u32 = 5;

/// How an agent registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum RegistrationType {
    /// For nobody yet.
    Anonymous,
    /// For the person behind an e-mail address.
    ServiceAuth,
}

impl RegistrationType {
    /// The name in requests, assertions and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Six decimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    /// A new code, all million equally likely.
    pub fn draw(rng: &Rng) -> Self {
        Self(format!("{:06}", rng.below(1_000_000)))
    }

    /// The digits, for the one answer that hands them out and for sealing.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserCode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err("expected six decimal digits")
        }
    }
}

impl fmt::Debug for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCode(…)")
    }
}

/// Who claimed a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The account that the agent acts for.
    pub account: UserAccountId,
    /// The person who confirmed.
    pub person: PersonId,
    /// That person's verified e-mail address.
    pub email: Email,
    /// When.
    pub at: Timestamp,
}

/// An agent's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// `registration_id`.
    pub id: RegistrationId,
    /// How it was made.
    pub registration_type: RegistrationType,
    /// For `service_auth`: for whom.
    pub login_hint: Option<Email>,
    /// SHA-256 of the claim token.
    pub claim_token: SecretHash,
    /// Until when the claim token starts claims. It goes on to tell of an attempt that is still live then, and of a claim for
    /// [`FIRST_EXCHANGE`].
    pub claim_token_expires: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// Address that it was made from.
    pub ip_address: Option<String>,
    /// When an account token was last issued.
    pub last_token_at: Option<Timestamp>,
    /// Set when claimed.
    pub claim: Option<Claim>,
    /// Set when revoked, for ever.
    pub revoked_at: Option<Timestamp>,
}

/// Why a claim cannot be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartRefusal {
    /// Claimed or revoked already: nothing is left to confirm.
    #[error("the registration is claimed or revoked")]
    Settled,
    /// The claim token is past its time.
    #[error("the claim token has expired")]
    Expired,
    /// The registration is for another e-mail address.
    #[error("the registration is for another e-mail address")]
    EmailMismatch,
}

/// What the claim grant gives (RFC 6749, section 5.2 and RFC 8628, section 3.5 name the refusals).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimGrant {
    /// Ask again after [`INTERVAL_SECONDS`].
    Pending,
    /// The attempt or the claim token is over.
    Expired,
    /// The registration was revoked.
    Invalid,
    /// An account token may be issued.
    Claimed(Claim),
}

impl Registration {
    /// Whether a claim may be started, and to whom the attempt is then bound.
    pub fn start(&self, email: Option<&Email>, now: Timestamp) -> Result<Option<Email>, StartRefusal> {
        if self.claim.is_some() || self.revoked_at.is_some() {
            return Err(StartRefusal::Settled);
        }
        if now >= self.claim_token_expires {
            return Err(StartRefusal::Expired);
        }
        match (&self.login_hint, email) {
            (Some(hint), Some(email)) if hint != email => Err(StartRefusal::EmailMismatch),
            (Some(hint), _) => Ok(Some(hint.clone())),
            (None, email) => Ok(email.cloned()),
        }
    }

    /// What the claim grant gives, `attempt` being the newest one.
    pub fn claim_grant(&self, attempt: Option<&Attempt>, now: Timestamp) -> ClaimGrant {
        if self.revoked_at.is_some() {
            return ClaimGrant::Invalid;
        }
        let is_over = match (&self.claim, attempt) {
            (Some(claim), _) => now >= self.claim_token_expires.max(claim.at + FIRST_EXCHANGE),
            (None, Some(attempt)) => attempt.is_over(now),
            (None, None) => now >= self.claim_token_expires,
        };
        match &self.claim {
            _ if is_over => ClaimGrant::Expired,
            Some(claim) => ClaimGrant::Claimed(claim.clone()),
            None => ClaimGrant::Pending,
        }
    }
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum AttemptState {
    /// The link and the code work, until they expire.
    Live,
    /// A newer link and code took its place.
    Superseded,
    /// Too many wrong codes.
    Burnt,
    /// The person confirmed.
    Completed,
}

impl AttemptState {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One link with its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// SHA-256 of the claim attempt token in the link.
    pub token: SecretHash,
    /// Whose attempt it is.
    pub registration: RegistrationId,
    /// The code as [`CodeKey::seal`] keeps it, in the context of `token`.
    pub sealed_code: [u8; 32],
    /// The only e-mail address that may confirm; anyone signed in when absent.
    pub email: Option<Email>,
    /// When the link and the code stop working.
    pub expires_at: Timestamp,
    /// Wrong codes so far.
    pub wrong_tries: u32,
    /// Where it stands.
    pub state: AttemptState,
}

/// Why a claim cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CompleteRefusal {
    /// The attempt is over, or its registration is settled.
    #[error("the link and the code are no longer valid")]
    Expired,
    /// Another person must confirm.
    #[error("the claim is bound to another e-mail address")]
    EmailMismatch,
    /// Not the code; it counts as a try.
    #[error("the code is wrong")]
    WrongCode,
}

impl Attempt {
    /// Whether the link and the code no longer work.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.state != AttemptState::Live || now >= self.expires_at
    }

    /// Whether a person may complete it with `code`. A person whom it is not bound to spends no try.
    pub fn complete(
        &self,
        code: &UserCode,
        key: &CodeKey,
        person: &Email,
        now: Timestamp,
    ) -> Result<(), CompleteRefusal> {
        if self.is_over(now) {
            Err(CompleteRefusal::Expired)
        } else if self.email.as_ref().is_some_and(|bound| bound != person) {
            Err(CompleteRefusal::EmailMismatch)
        } else if !key.opens(self.token.as_bytes(), code.expose(), &self.sealed_code) {
            Err(CompleteRefusal::WrongCode)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Secret, SecretKind};

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn email(text: &str) -> Email {
        text.parse().unwrap()
    }

    fn registration(hint: Option<&str>) -> Registration {
        let rng = Rng::seeded(1);
        Registration {
            id: rng.uuid_v7(now()).into(),
            registration_type: RegistrationType::ServiceAuth,
            login_hint: hint.map(email),
            claim_token: Secret::mint(SecretKind::ClaimToken, &rng).hash(),
            claim_token_expires: now() + TimeDelta::hours(24),
            created_at: now(),
            ip_address: None,
            last_token_at: None,
            claim: None,
            revoked_at: None,
        }
    }

    fn attempt(bound: Option<&str>, key: &CodeKey, code: &str) -> Attempt {
        let token = Secret::mint(SecretKind::ClaimAttempt, &Rng::seeded(2)).hash();
        Attempt {
            token,
            registration: registration(None).id,
            sealed_code: key.seal(token.as_bytes(), code),
            email: bound.map(email),
            expires_at: now() + TimeDelta::seconds(ATTEMPT_SECONDS),
            wrong_tries: 0,
            state: AttemptState::Live,
        }
    }

    fn claim() -> Claim {
        Claim {
            account: "account1".parse().unwrap(),
            person: Rng::seeded(3).uuid_v7(now()).into(),
            email: email("a@example.com"),
            at: now(),
        }
    }

    #[test]
    fn codes_are_six_digits() {
        for _ in 0..1000 {
            let code = UserCode::draw(&Rng::system());
            assert_eq!(code.expose().parse(), Ok(code.clone()));
        }
        for wrong in ["", "12345", "1234567", "12345a", "１２３４５６"] {
            assert!(wrong.parse::<UserCode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_claim_is_bound_to_the_registered_or_the_given_address() {
        let (ada, bob) = (email("ada@example.com"), email("bob@example.com"));
        let hinted = registration(Some("ada@example.com"));
        assert_eq!(hinted.start(None, now()), Ok(Some(ada.clone())));
        assert_eq!(hinted.start(Some(&ada), now()), Ok(Some(ada)));
        assert_eq!(hinted.start(Some(&bob), now()), Err(StartRefusal::EmailMismatch));
        let free = registration(None);
        assert_eq!(free.start(None, now()), Ok(None));
        assert_eq!(free.start(Some(&bob), now()), Ok(Some(bob)));
    }

    #[test]
    fn a_settled_or_expired_registration_starts_no_claim() {
        let late = now() + TimeDelta::hours(24);
        assert_eq!(registration(None).start(None, late), Err(StartRefusal::Expired));
        let claimed = Registration { claim: Some(claim()), ..registration(None) };
        assert_eq!(claimed.start(None, now()), Err(StartRefusal::Settled));
        let revoked = Registration { revoked_at: Some(now()), ..registration(None) };
        assert_eq!(revoked.start(None, now()), Err(StartRefusal::Settled));
    }

    #[test]
    fn the_claim_grant_follows_the_newest_attempt_until_the_claim() {
        let key = CodeKey::new([1; 32]);
        let live = attempt(None, &key, "123456");
        let burnt = Attempt { state: AttemptState::Burnt, ..live.clone() };
        let open = registration(None);
        assert_eq!(open.claim_grant(None, now()), ClaimGrant::Pending);
        assert_eq!(open.claim_grant(Some(&live), now()), ClaimGrant::Pending);
        assert_eq!(open.claim_grant(Some(&live), live.expires_at), ClaimGrant::Expired);
        assert_eq!(open.claim_grant(Some(&burnt), now()), ClaimGrant::Expired);
        assert_eq!(open.claim_grant(None, open.claim_token_expires), ClaimGrant::Expired);
        let claimed = Registration { claim: Some(claim()), ..open.clone() };
        assert_eq!(claimed.claim_grant(Some(&burnt), now()), ClaimGrant::Claimed(claim()));
        assert_eq!(claimed.claim_grant(None, open.claim_token_expires), ClaimGrant::Expired);
        let revoked = Registration { revoked_at: Some(now()), ..claimed };
        assert_eq!(revoked.claim_grant(None, now()), ClaimGrant::Invalid);
    }

    #[test]
    fn who_may_still_confirm_leaves_an_agent_that_may_still_exchange() {
        let key = CodeKey::new([1; 32]);
        let end = now() + TimeDelta::minutes(1);
        let brief = Registration { claim_token_expires: end, ..registration(None) };
        let live = attempt(None, &key, "123456");
        let last = live.expires_at - TimeDelta::seconds(1);
        assert_eq!(brief.claim_grant(Some(&live), last), ClaimGrant::Pending);
        assert_eq!(brief.claim_grant(Some(&live), live.expires_at), ClaimGrant::Expired);
        let late = Claim { at: last, ..claim() };
        let claimed = Registration { claim: Some(late.clone()), ..brief };
        let completed = Attempt { state: AttemptState::Completed, ..live };
        let grace = last + FIRST_EXCHANGE;
        assert_eq!(claimed.claim_grant(Some(&completed), grace - TimeDelta::seconds(1)), ClaimGrant::Claimed(late));
        assert_eq!(claimed.claim_grant(Some(&completed), grace), ClaimGrant::Expired);
        assert_eq!(claimed.start(None, end), Err(StartRefusal::Settled));
    }

    #[test]
    fn only_the_right_person_with_the_right_code_in_time_completes() {
        let key = CodeKey::new([1; 32]);
        let (ada, bob) = (email("ada@example.com"), email("bob@example.com"));
        let (right, wrong) = ("123456".parse().unwrap(), "654321".parse().unwrap());
        let bound = attempt(Some("ada@example.com"), &key, "123456");
        assert_eq!(bound.complete(&right, &key, &ada, now()), Ok(()));
        assert_eq!(bound.complete(&wrong, &key, &ada, now()), Err(CompleteRefusal::WrongCode));
        assert_eq!(bound.complete(&wrong, &key, &bob, now()), Err(CompleteRefusal::EmailMismatch));
        assert_eq!(bound.complete(&right, &key, &bob, bound.expires_at), Err(CompleteRefusal::Expired));
        for state in [AttemptState::Superseded, AttemptState::Burnt, AttemptState::Completed] {
            let over = Attempt { state, ..bound.clone() };
            assert_eq!(over.complete(&right, &key, &ada, now()), Err(CompleteRefusal::Expired));
        }
        assert_eq!(attempt(None, &key, "123456").complete(&right, &key, &bob, now()), Ok(()));
    }
}
