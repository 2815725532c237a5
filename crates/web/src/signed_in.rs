//! The person who looks at a page.

use domain::Timestamp;
use domain::ids::{Email, PersonId, SessionId, UserAccountId};
use domain::secret::SecretHash;

use super::Flash;

use app::services::confirmation::DecidesWith;

/// A signed-in person. As an argument of a handler it redirects everyone else to the sign-in page, which leads back.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The person.
    pub person: PersonId,
    /// Their verified address.
    pub email: Email,
    /// Their name, if it is known.
    pub name: Option<String>,
    /// Their account, if they have one.
    pub account: Option<UserAccountId>,
    /// When they signed in.
    pub signed_in_at: Timestamp,
    /// This browser, as its person's list names it.
    pub id: SessionId,
    /// SHA-256 of its session's secret.
    pub session: SecretHash,
    /// The message that waits for the next page.
    pub flash: Flash,
}

impl SignedIn {
    /// The credential with which the person decides.
    pub fn decides(&self) -> DecidesWith {
        DecidesWith::Session { signed_in_at: self.signed_in_at }
    }
}
