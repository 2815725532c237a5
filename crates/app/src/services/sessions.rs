//! Browser sessions of a person.

pub use store::session::Session;

use std::time::Duration;

use actors::InfraError;
use domain::ids::{PersonId, SessionId};
use domain::secret::{Secret, SecretHash};
use domain::signin::SignInMethod;
use store::StoreError;
use store::session::SessionFacts;

use super::Ports;
use crate::config::SessionSettings;

/// Maximum number of sessions in a list.
const LISTED_MAX: usize = 100;

/// Minimum time between two written uses of a session.
const USE_WRITTEN_AFTER: Duration = Duration::from_hours(1);

/// Finds, lists and ends sessions. Clones share the database.
#[derive(Debug, Clone)]
pub struct Sessions {
    ports: Ports,
    settings: SessionSettings,
}

impl Sessions {
    /// `settings` is the section `[sessions]`.
    pub fn new(ports: Ports, settings: SessionSettings) -> Self {
        Self { ports, settings }
    }

    /// The valid session with this secret. The use, which is written at most once an hour, extends its expiry, up to `sessions.ends_after`
    /// after the sign-in. A session that an operator created is not extended.
    #[boxed]
    pub async fn find(&self, secret: &Secret) -> Result<Option<SessionFacts>, InfraError> {
        let Ports { store, clock, .. } = &self.ports;
        let (hash, now) = (secret.hash(), clock.now());
        let Some(session) = store.session_by_hash(&hash, now).await? else { return Ok(None) };
        let SessionSettings { valid_for, ends_after } = self.settings;
        let expires_at = (now + valid_for).min(session.created_at + ends_after);
        if session.via != SignInMethod::Operator && session.last_used_at + USE_WRITTEN_AFTER < now {
            let store = store.clone();
            actors::detached(async move { store.session_slide(&hash, expires_at, now).await }).await??;
        }
        Ok(Some(session))
    }

    /// The valid sessions of a person, newest first.
    #[boxed]
    pub async fn list(&self, person: PersonId) -> Result<Vec<Session>, StoreError> {
        self.ports.store.sessions_of_person(person, self.ports.clock.now(), LISTED_MAX).await
    }

    /// Ends one session of a person; `false` if the person has no such session.
    #[boxed]
    pub async fn end(&self, id: SessionId, person: PersonId) -> Result<bool, InfraError> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        Ok(actors::detached(async move { store.session_revoke_by_id(id, Some(person), now).await }).await??)
    }

    /// Ends all sessions of a person except `current`.
    #[boxed]
    pub async fn end_others(&self, current: SessionId, person: PersonId) -> Result<(), InfraError> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        actors::detached(async move { store.sessions_revoke_others(person, current, now).await }).await??;
        Ok(())
    }

    /// Ends the session with this secret.
    #[boxed]
    pub async fn sign_out(&self, session: SecretHash) -> Result<(), InfraError> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        actors::detached(async move { store.session_revoke(&session, now).await }).await??;
        Ok(())
    }
}
