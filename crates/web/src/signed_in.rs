//! The person who looks at a page.

use domain::Timestamp;
use domain::ids::{Email, PersonId, SessionId, UserAccountId};
use domain::secret::SecretHash;

use super::Flash;

use app::services::confirmation::DecidesWith;

/// A signed-in person. As an argument of a handler it redirects other visitors to the sign-in page, which redirects back.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The person.
    pub person: PersonId,
    /// The person's verified e-mail address.
    pub email: Email,
    /// The person's name, if it is known.
    pub name: Option<String>,
    /// The person's account, if there is one.
    pub account: Option<UserAccountId>,
    /// Time of the sign-in.
    pub signed_in_at: Timestamp,
    /// The id of this browser in the person's list.
    pub id: SessionId,
    /// SHA-256 of its session's secret.
    pub session: SecretHash,
    /// The message for this page.
    pub flash: Flash,
}

impl SignedIn {
    /// The credential with which the person decides.
    pub fn decides(&self) -> DecidesWith {
        DecidesWith::Session { signed_in_at: self.signed_in_at }
    }
}
