//! Registrations of agents and the attempts by which people claim them (`docs/protocol/agents.md#registration-states`
//! and `docs/decisions/0005-agents.md`). These functions decide transitions; the actors execute them.

use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::agent_right::AgentRights;
use crate::ids::{Email, PersonId, RegistrationId, UserAccountId};
use crate::label::Label;
use crate::secret::{CodeKey, SecretHash};
use crate::{Rng, Timestamp, UnknownName};

/// Lifetime of a claim attempt: 1800 seconds, fixed by the protocol.
pub const ATTEMPT_SECONDS: i64 = 1800;

/// After a claim, the claim token can be exchanged for at least this long, even if it was about to expire.
pub const FIRST_EXCHANGE: TimeDelta = TimeDelta::hours(1);

/// Interval of an agent's polls: 5 seconds, fixed by the protocol.
pub const INTERVAL_SECONDS: u32 = 5;

/// Wrong codes that end an attempt.
pub const WRONG_TRIES_MAX: u32 = 5;

/// How an agent registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum RegistrationType {
    /// Without a person: anyone may claim it.
    Anonymous,
    /// For the person with an e-mail address.
    ServiceAuth,
}

impl RegistrationType {
    /// The name in requests, assertions and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The six decimal digits that a person types to claim an agent.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimCode(String);

impl ClaimCode {
    /// A random code out of a million.
    pub fn draw(rng: &Rng) -> Self {
        Self(format!("{:06}", rng.below(1_000_000)))
    }

    /// The digits, for the response that shows them and for [`CodeKey::seal`].
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClaimCode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err("expected six decimal digits")
        }
    }
}

impl fmt::Debug for ClaimCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCode(…)")
    }
}

/// The confirmation of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The account that the agent acts for.
    pub account: UserAccountId,
    /// The person who confirmed.
    pub person: PersonId,
    /// That person's verified e-mail address at the time of the claim.
    pub email: Email,
    /// Rights that the person gave; `None` for the rights that the protocol gives account bearers. An agent that another agent confirmed
    /// has the other agent's rights.
    pub rights: Option<AgentRights>,
    /// Time of the confirmation.
    pub at: Timestamp,
}

/// An agent's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// `registration_id` of the protocol.
    pub id: RegistrationId,
    /// `anonymous` or `service_auth`.
    pub registration_type: RegistrationType,
    /// E-mail address of a `service_auth` registration.
    pub login_hint: Option<Email>,
    /// SHA-256 of the claim token.
    pub claim_token: SecretHash,
    /// After this, the claim token cannot start a claim. It still polls a live attempt, and can be exchanged for
    /// [`FIRST_EXCHANGE`] after a claim.
    pub claim_token_expires: Timestamp,
    /// Time of the registration.
    pub created_at: Timestamp,
    /// IP address that sent the registration.
    pub ip_address: Option<String>,
    /// Time at which an account token was last issued.
    pub last_token_at: Option<Timestamp>,
    /// Name that its account gave it.
    pub label: Option<Label>,
    /// Set once the agent is claimed.
    pub claim: Option<Claim>,
    /// Set once the agent is revoked, permanently.
    pub revoked_at: Option<Timestamp>,
}

/// Why a claim attempt cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttemptRefusal {
    /// The registration is already claimed or revoked.
    #[error("the registration is claimed or revoked")]
    Settled,
    /// The claim token has expired.
    #[error("the claim token has expired")]
    Expired,
    /// The registration is for another e-mail address.
    #[error("the registration is for another e-mail address")]
    EmailMismatch,
}

/// Result of the claim grant (RFC 6749, section 5.2 and RFC 8628, section 3.5 name the errors).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimGrant {
    /// `authorization_pending`: poll again after [`INTERVAL_SECONDS`].
    Pending,
    /// `expired_token`: the attempt or the claim token has expired.
    Expired,
    /// `invalid_grant`: the registration was revoked.
    Invalid,
    /// An account token can be issued.
    Claimed(Claim),
}

impl Registration {
    /// Checks whether an attempt can start, and returns the e-mail address that it is bound to.
    pub fn start(&self, email: Option<&Email>, now: Timestamp) -> Result<Option<Email>, AttemptRefusal> {
        if self.claim.is_some() || self.revoked_at.is_some() {
            return Err(AttemptRefusal::Settled);
        }
        if now >= self.claim_token_expires {
            return Err(AttemptRefusal::Expired);
        }
        match (&self.login_hint, email) {
            (Some(hint), Some(email)) if hint != email => Err(AttemptRefusal::EmailMismatch),
            (Some(hint), _) => Ok(Some(hint.clone())),
            (None, email) => Ok(email.cloned()),
        }
    }

    /// The result of the claim grant, where `attempt` is the newest attempt.
    pub fn claim_grant(&self, attempt: Option<&Attempt>, now: Timestamp) -> ClaimGrant {
        if self.revoked_at.is_some() {
            return ClaimGrant::Invalid;
        }
        let has_ended = match (&self.claim, attempt) {
            (Some(claim), _) => now >= self.claim_token_expires.max(claim.at + FIRST_EXCHANGE),
            (None, Some(attempt)) => attempt.has_ended(now),
            (None, None) => now >= self.claim_token_expires,
        };
        match &self.claim {
            _ if has_ended => ClaimGrant::Expired,
            Some(claim) => ClaimGrant::Claimed(claim.clone()),
            None => ClaimGrant::Pending,
        }
    }
}

impl Claim {
    /// Whether the same person completes the attempt again with the same code, since the first response may have been lost. `true` only
    /// until the attempt expires.
    pub fn is_repeated(
        &self,
        attempt: &Attempt,
        (code, key): (&ClaimCode, &CodeKey),
        (account, person): (&UserAccountId, PersonId),
        now: Timestamp,
    ) -> bool {
        attempt.state == AttemptState::Completed
            && now < attempt.expires_at
            && (&self.account, self.person) == (account, person)
            && key.opens(attempt.token.as_bytes(), code.expose(), &attempt.sealed_code)
    }
}

/// State of a claim attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum AttemptState {
    /// Link and code work until they expire.
    Live,
    /// A newer attempt replaced it.
    Superseded,
    /// Too many wrong codes were typed.
    Burnt,
    /// A person confirmed with it.
    Completed,
}

impl AttemptState {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A claim attempt: one link with one code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// SHA-256 of the claim attempt token in the link.
    pub token: SecretHash,
    /// The registration to claim.
    pub registration: RegistrationId,
    /// The code sealed by [`CodeKey::seal`] in the context of `token`.
    pub sealed_code: [u8; 32],
    /// The only e-mail address that may confirm; `None` if any signed-in person may.
    pub email: Option<Email>,
    /// Expiry of link and code.
    pub expires_at: Timestamp,
    /// Number of wrong codes so far.
    pub wrong_tries: u32,
    /// Current state.
    pub state: AttemptState,
}

/// Why an attempt cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CompleteRefusal {
    /// The attempt has ended, or its registration is claimed or revoked.
    #[error("the link and the code are no longer valid")]
    Expired,
    /// The attempt is bound to another e-mail address.
    #[error("the claim is bound to another e-mail address")]
    EmailMismatch,
    /// The code is wrong. The try counts.
    #[error("the code is wrong")]
    WrongCode,
}

impl Attempt {
    /// Whether link and code no longer work.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.state != AttemptState::Live || now >= self.expires_at
    }

    /// Checks whether `person` can complete the attempt with `code`. A person with another e-mail address uses no try.
    pub fn complete(
        &self,
        code: &ClaimCode,
        key: &CodeKey,
        person: &Email,
        now: Timestamp,
    ) -> Result<(), CompleteRefusal> {
        if self.has_ended(now) {
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
            label: None,
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
            rights: None,
            at: now(),
        }
    }

    #[test]
    fn codes_are_six_digits() {
        for _ in 0..1000 {
            let code = ClaimCode::draw(&Rng::system());
            assert_eq!(code.expose().parse(), Ok(code.clone()));
        }
        for wrong in ["", "12345", "1234567", "12345a", "１２３４５６"] {
            assert!(wrong.parse::<ClaimCode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_claim_is_bound_to_the_registered_or_the_given_address() {
        let (ada, bob) = (email("ada@example.com"), email("bob@example.com"));
        let hinted = registration(Some("ada@example.com"));
        assert_eq!(hinted.start(None, now()), Ok(Some(ada.clone())));
        assert_eq!(hinted.start(Some(&ada), now()), Ok(Some(ada)));
        assert_eq!(hinted.start(Some(&bob), now()), Err(AttemptRefusal::EmailMismatch));
        let free = registration(None);
        assert_eq!(free.start(None, now()), Ok(None));
        assert_eq!(free.start(Some(&bob), now()), Ok(Some(bob)));
    }

    #[test]
    fn a_settled_or_expired_registration_starts_no_claim() {
        let late = now() + TimeDelta::hours(24);
        assert_eq!(registration(None).start(None, late), Err(AttemptRefusal::Expired));
        let claimed = Registration { claim: Some(claim()), ..registration(None) };
        assert_eq!(claimed.start(None, now()), Err(AttemptRefusal::Settled));
        let revoked = Registration { revoked_at: Some(now()), ..registration(None) };
        assert_eq!(revoked.start(None, now()), Err(AttemptRefusal::Settled));
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
        assert_eq!(claimed.start(None, end), Err(AttemptRefusal::Settled));
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
