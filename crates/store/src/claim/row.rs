//! Rows of registrations and attempts.

use domain::Timestamp;
use domain::claim::{Attempt, Claim, Registration};
use domain::ids::RegistrationId;
use uuid::Uuid;

use crate::error::Corrupt;
use crate::joined;
use crate::row::{bytes, count, parsed, parsed_opt, secret_hash};

/// The columns of [`RegistrationRow`].
const COLUMNS: &str = "r.id, r.registration_type, r.login_hint, r.claim_token_hash, r.claim_token_expires_at, r.created_at,
    r.ip_address, r.last_token_at, r.account_id, r.person_id, r.claimed_email, r.claimed_at, r.claimed_via, r.claimed_by,
    r.revoked_at, r.label, r.rights";

/// Registrations without attempts: [`RegistrationRow`].
pub const SELECT_REGISTRATION: &str = joined!("SELECT ", COLUMNS, " FROM registrations r");

/// Registrations with their newest attempts: [`StandingRow`].
pub const SELECT_STANDING: &str = joined!(
    "SELECT ",
    COLUMNS,
    ", a.token_hash, a.sealed_code, a.email, a.expires_at, a.wrong_tries, a.state
    FROM registrations r LEFT JOIN claim_attempts a ON a.registration_id = r.id
        AND a.number = (SELECT MAX(n.number) FROM claim_attempts n WHERE n.registration_id = r.id)"
);

crate::row! {
    pub struct RegistrationRow {
        id: Uuid,
        registration_type: String,
        login_hint: Option<String>,
        claim_token_hash: Vec<u8>,
        claim_token_expires_at: Timestamp,
        created_at: Timestamp,
        ip_address: Option<String>,
        last_token_at: Option<Timestamp>,
        account_id: Option<String>,
        person_id: Option<Uuid>,
        claimed_email: Option<String>,
        claimed_at: Option<Timestamp>,
        revoked_at: Option<Timestamp>,
        label: Option<String>,
        rights: Option<String>,
    }
}

impl TryFrom<RegistrationRow> for Registration {
    type Error = Corrupt;

    fn try_from(row: RegistrationRow) -> Result<Self, Corrupt> {
        let claim = match (row.account_id, row.person_id, row.claimed_email, row.claimed_at) {
            (None, None, None, None) => None,
            (Some(account), Some(person), Some(email), Some(at)) => Some(Claim {
                account: parsed("registrations.account_id", &account)?,
                person: person.into(),
                email: parsed("registrations.claimed_email", &email)?,
                rights: parsed_opt("registrations.rights", row.rights.as_deref())?,
                at,
            }),
            _ => return Err(Corrupt::new("registrations.claimed_at", "expected a claim with all its members or none")),
        };
        Ok(Self {
            id: row.id.into(),
            registration_type: parsed("registrations.registration_type", &row.registration_type)?,
            login_hint: parsed_opt("registrations.login_hint", row.login_hint.as_deref())?,
            claim_token: secret_hash("registrations.claim_token_hash", &row.claim_token_hash)?,
            claim_token_expires: row.claim_token_expires_at,
            created_at: row.created_at,
            ip_address: row.ip_address,
            last_token_at: row.last_token_at,
            label: parsed_opt("registrations.label", row.label.as_deref())?,
            claim,
            revoked_at: row.revoked_at,
        })
    }
}

crate::row! {
    /// A registration with its newest attempt; all columns of the attempt are null if there is none.
    pub struct StandingRow {
        registration: RegistrationRow,
        token_hash: Option<Vec<u8>>,
        sealed_code: Option<Vec<u8>>,
        email: Option<String>,
        expires_at: Option<Timestamp>,
        wrong_tries: Option<i64>,
        state: Option<String>,
    }
}

impl StandingRow {
    pub fn into_domain(self) -> Result<(Registration, Option<Attempt>), Corrupt> {
        let registration = Registration::try_from(self.registration)?;
        let attempt = match (self.token_hash, self.sealed_code, self.expires_at, self.wrong_tries, self.state) {
            (None, None, None, None, None) => None,
            (Some(token), Some(code), Some(expires_at), Some(tries), Some(state)) => {
                let email = parsed_opt("claim_attempts.email", self.email.as_deref())?;
                Some(attempt(registration.id, &token, &code, email, expires_at, tries, &state)?)
            }
            _ => return Err(Corrupt::new("claim_attempts.state", "expected a whole attempt or none")),
        };
        Ok((registration, attempt))
    }
}

fn attempt(
    registration: RegistrationId,
    token: &[u8],
    sealed_code: &[u8],
    email: Option<domain::ids::Email>,
    expires_at: Timestamp,
    wrong_tries: i64,
    state: &str,
) -> Result<Attempt, Corrupt> {
    Ok(Attempt {
        token: secret_hash("claim_attempts.token_hash", token)?,
        registration,
        sealed_code: bytes("claim_attempts.sealed_code", sealed_code)?,
        email,
        expires_at,
        wrong_tries: count("claim_attempts.wrong_tries", wrong_tries)?,
        state: parsed("claim_attempts.state", state)?,
    })
}
