//! Opaque secrets and short codes, and the forms in which they are stored.
//!
//! A secret has 256 random bits, so a plain SHA-256 at rest suffices. A code of six digits could be recovered from a
//! plain hash by trying all million codes, so codes are stored as HMAC-SHA-256 under a key of the server.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Digest, Rng, webhook};

/// Kind of a secret. Each has its own prefix, so that secret scanners and people can distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum SecretKind {
    /// Issued at the registration of an agent; exchanged for an account token after the claim.
    ClaimToken,
    /// Part of the link with which a person confirms an agent.
    ClaimAttempt,
    /// Bearer token of the agent API.
    AccessToken,
    /// Machine secret of a registered computer.
    Machine,
    /// With it, a computer polls until a person approves or denies.
    DeviceCode,
    /// Bearer credential of the knowledge API.
    ApiKey,
    /// Session cookie of a signed-in browser.
    Session,
    /// Part of the link of a feed.
    Feed,
    /// Part of an audit link.
    AuditLink,
    /// Cookie of a browser that waits for its sign-in code.
    SignInTicket,
    /// Bearer credential of the operator's API.
    OperatorToken,
}

impl SecretKind {
    /// All kinds.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// First characters of every secret of this kind.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::ClaimToken => "clm_",
            Self::ClaimAttempt => "cat_",
            Self::AccessToken => "at_",
            Self::Machine => "msk_",
            Self::DeviceCode => "dvc_",
            Self::ApiKey => "ak_",
            Self::Session => "ses_",
            Self::Feed => "fdt_",
            Self::AuditLink => "adl_",
            Self::SignInTicket => "sgn_",
            Self::OperatorToken => "opr_",
        }
    }
}

/// The prefixes of all secrets, including the webhooks' signing secrets.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    SecretKind::ALL.iter().map(|kind| kind.prefix()).chain([webhook::SECRET_PREFIX])
}

/// A secret in the clear: shown to its owner once, never stored, hidden by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new secret of 32 random bytes.
    pub fn mint(kind: SecretKind, rng: &Rng) -> Self {
        let bytes: [u8; 32] = rng.bytes();
        Self(format!("{}{}", kind.prefix(), BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Wraps a credential from a client without checking it. An unknown text hashes to an unknown value.
    pub fn presented(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether the text has the form of this kind of secret. Does not check whether it is known.
    pub fn has_form(&self, kind: SecretKind) -> bool {
        let body = self.0.strip_prefix(kind.prefix());
        body.is_some_and(|body| body.len() == 43 && BASE64_URL_SAFE_NO_PAD.decode(body).is_ok())
    }

    /// Whether the text has the prefix of this kind.
    pub fn has_prefix(&self, kind: SecretKind) -> bool {
        self.0.starts_with(kind.prefix())
    }

    /// The hash to store.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Digest::of(self.0.as_bytes()))
    }

    /// The secret in the clear, for the response that returns it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// SHA-256 of a [`Secret`], as the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash(Digest);

impl SecretHash {
    /// The raw hash.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<SecretHash> for Digest {
    fn from(hash: SecretHash) -> Self {
        hash.0
    }
}

impl From<Digest> for SecretHash {
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

/// The server's HMAC key for short codes.
#[derive(Clone)]
pub struct CodeKey([u8; 32]);

impl CodeKey {
    /// Wraps the stored key.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Computes the HMAC-SHA-256 of a code. `context`, such as the hash of the attempt's token, makes equal codes
    /// differ at rest.
    pub fn seal(&self, context: &[u8], code: &str) -> [u8; 32] {
        self.mac(context, code).finalize().into_bytes().into()
    }

    /// Whether `sealed` is the HMAC of `code`. Compares in constant time.
    pub fn opens(&self, context: &[u8], code: &str, sealed: &[u8]) -> bool {
        self.mac(context, code).verify_slice(sealed).is_ok()
    }

    fn mac(&self, context: &[u8], code: &str) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to its block of 64 bytes (RFC 2104). Padding it here makes the constructor
        // infallible.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(context);
        mac.update(&[0]);
        mac.update(code.as_bytes());
        mac
    }
}

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_kind_and_hides_itself() {
        let secret = Secret::mint(SecretKind::AccessToken, &Rng::seeded(1));
        assert!(secret.expose().starts_with("at_"));
        assert!(secret.has_form(SecretKind::AccessToken) && !secret.has_form(SecretKind::Machine));
        assert!(!Secret::presented("at_short").has_form(SecretKind::AccessToken));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_sealed_code_opens_only_in_its_own_context() {
        let key = CodeKey::new([7; 32]);
        let sealed = key.seal(b"attempt 1", "123456");
        assert!(key.opens(b"attempt 1", "123456", &sealed));
        assert!(!key.opens(b"attempt 1", "123457", &sealed));
        assert!(!key.opens(b"attempt 2", "123456", &sealed));
        assert_ne!(key.seal(b"attempt 2", "123456"), sealed);
    }
}
