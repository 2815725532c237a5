//! The current signing keys of identity assertions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::claim::Registration;
use domain::clock::delta;
use domain::token::{AssertionClaims, AssertionKey, AssertionKeys, KeyError};
use domain::{Rng, Timestamp};

use super::settings::ClaimSettings;
use crate::infra_error::InfraError;

/// The keys; replaced as a whole when the store holds others.
#[derive(Debug, Clone)]
pub struct Keyring(Arc<ArcSwap<AssertionKeys>>);

impl Keyring {
    /// Keys of `issuer`, which is the configured base URL.
    pub fn new(issuer: String, keys: &[AssertionKey]) -> Result<Self, KeyError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(AssertionKeys::new(issuer, keys)?))))
    }

    /// The current keys.
    pub fn current(&self) -> Arc<AssertionKeys> {
        self.0.load_full()
    }

    /// Replaces the keys with the stored ones.
    pub fn replace(&self, keys: &[AssertionKey]) -> Result<(), KeyError> {
        let issuer = self.current().issuer().to_owned();
        self.0.store(Arc::new(AssertionKeys::new(issuer, keys)?));
        Ok(())
    }

    /// Signs an assertion for the present state of a registration. Returns it with its expiry.
    pub(super) fn assert(
        &self,
        registration: &Registration,
        settings: &ClaimSettings,
        rng: &Rng,
        now: Timestamp,
    ) -> Result<(String, Timestamp), InfraError> {
        let keys = self.0.load();
        let expires = match &registration.claim {
            Some(_) => now + delta(settings.assertion_claimed_valid_for),
            None => (now + delta(settings.assertion_unclaimed_valid_for)).min(registration.claim_token_expires),
        };
        let email = registration.claim.as_ref().map(|claim| claim.email.clone());
        let claims = AssertionClaims {
            iss: keys.issuer().to_owned(),
            aud: keys.issuer().to_owned(),
            sub: registration.id,
            iat: now.timestamp(),
            exp: expires.timestamp(),
            jti: rng.uuid_v7(now).to_string(),
            registration_type: registration.registration_type,
            email_verified: email.is_some().then_some(true),
            email,
        };
        let signed = keys.sign(&claims).map_err(|error| InfraError::Internal(error.to_string()))?;
        Ok((signed, expires))
    }
}
