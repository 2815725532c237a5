//! Token scopes and identity assertions (`docs/decisions/0001-credentials.md`).
//!
//! Access tokens are opaque ([`crate::secret`]), so that revocation takes effect immediately. Identity assertions are
//! JWTs (RFC 7519, RFC 7523) signed with Ed25519 (RFC 8037) under keys that rotate `next → active → retired`.

mod eddsa;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::claim::RegistrationType;
use crate::ids::{Email, RegistrationId};
use crate::{Rng, Timestamp, UnknownName};

/// Scope of an access token.
#[derive(Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenScope {
    /// Send events as an unclaimed agent; they are held.
    #[serde(rename = "svc.events")]
    #[strum(serialize = "svc.events")]
    Events,
    /// Act for the account that claimed the agent.
    #[serde(rename = "svc.account")]
    #[strum(serialize = "svc.account")]
    Account,
}

impl TokenScope {
    /// The name in responses and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// `typ` of an identity assertion. Prevents other JWTs of the same issuer from being accepted (RFC 8725, section 3.11).
pub const ASSERTION_TYPE: &str = "identity-assertion+jwt";

/// The claims of an identity assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionClaims {
    /// Issuer: the configured base URL.
    pub iss: String,
    /// Audience: equal to the issuer.
    pub aud: String,
    /// Subject: the registration.
    pub sub: RegistrationId,
    /// Issued at, seconds since 1970.
    pub iat: i64,
    /// Expires, seconds since 1970.
    pub exp: i64,
    /// Unique id of the assertion.
    pub jti: String,
    /// How the agent registered.
    pub registration_type: RegistrationType,
    /// After the claim: e-mail address of the person who confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Email>,
    /// After the claim: always true, since only signed-in people confirm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
}

/// State of a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum KeyState {
    /// Published, but does not sign yet, so that verifiers can fetch it.
    Next,
    /// Signs new assertions.
    Active,
    /// Verifies earlier assertions until they have expired.
    Retired,
}

impl KeyState {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A key that signs, or has signed, identity assertions.
#[derive(Clone)]
pub struct AssertionKey {
    /// Key id in the header of a JWT.
    pub kid: String,
    /// Ed25519 seed.
    pub seed: [u8; 32],
    /// Position in the rotation.
    pub state: KeyState,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which the key became active.
    pub activated_at: Option<Timestamp>,
    /// Time at which the key was retired.
    pub retired_at: Option<Timestamp>,
}

impl AssertionKey {
    /// A new key in the state `next`.
    pub fn draw(rng: &Rng, now: Timestamp) -> Self {
        let kid = BASE64_URL_SAFE_NO_PAD.encode(rng.bytes::<12>());
        Self { kid, seed: rng.bytes(), state: KeyState::Next, created_at: now, activated_at: None, retired_at: None }
    }

    fn public_x(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(SigningKey::from_bytes(&self.seed).verifying_key().as_bytes())
    }
}

impl fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionKey").field("kid", &self.kid).field("state", &self.state).finish_non_exhaustive()
    }
}

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key cannot be encoded.
    #[error("the signing key {kid} cannot be used")]
    Unusable {
        /// Id of the key.
        kid: String,
    },
    /// No key is active.
    #[error("no signing key is active")]
    NoneActive,
}

/// A rejected assertion. Gives no reason, which would only help an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the assertion is not valid")]
pub struct InvalidAssertion;

/// The keys of an issuer, prepared to sign and verify.
pub struct AssertionKeys {
    issuer: String,
    signer: (String, EncodingKey),
    verifiers: Vec<(String, DecodingKey)>,
    jwks: Value,
}

impl AssertionKeys {
    /// Prepares the active and all other usable keys. Fails if none is active.
    pub fn new(issuer: String, keys: &[AssertionKey]) -> Result<Self, KeyError> {
        eddsa::install();
        let mut signer = None;
        let mut verifiers = Vec::new();
        let mut published = Vec::new();
        for key in keys {
            let x = key.public_x();
            let verifier =
                DecodingKey::from_ed_components(&x).map_err(|_| KeyError::Unusable { kid: key.kid.clone() })?;
            verifiers.push((key.kid.clone(), verifier));
            published.push(json!({
                "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": key.kid, "x": x,
            }));
            if key.state == KeyState::Active {
                signer = Some((key.kid.clone(), eddsa::encoding_key(&key.seed)));
            }
        }
        let signer = signer.ok_or(KeyError::NoneActive)?;
        Ok(Self { issuer, signer, verifiers, jwks: json!({ "keys": published }) })
    }

    /// Body of `/.well-known/jwks.json` (RFC 7517).
    pub fn jwks(&self) -> &Value {
        &self.jwks
    }

    /// The issuer, which is also the audience.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Signs the claims with the active key.
    pub fn sign(&self, claims: &AssertionClaims) -> Result<String, KeyError> {
        let (kid, key) = &self.signer;
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(ASSERTION_TYPE.into());
        header.kid = Some(kid.clone());
        jsonwebtoken::encode(&header, claims, key).map_err(|_| KeyError::Unusable { kid: kid.clone() })
    }

    /// Verifies algorithm, type, key, signature, issuer, audience and expiry. The caller checks in the store whether
    /// the registration is revoked.
    pub fn verify(&self, assertion: &str, now: Timestamp) -> Result<AssertionClaims, InvalidAssertion> {
        let header = jsonwebtoken::decode_header(assertion).map_err(|_| InvalidAssertion)?;
        if header.alg != Algorithm::EdDSA || header.typ.as_deref() != Some(ASSERTION_TYPE) {
            return Err(InvalidAssertion);
        }
        let named = |(kid, _): &&(String, DecodingKey)| header.kid.as_ref() == Some(kid);
        let (_, key) = self.verifiers.iter().find(named).ok_or(InvalidAssertion)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.issuer]);
        validation.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
        // The library would read the system clock; expiry is checked below against `now`.
        validation.validate_exp = false;
        let token =
            jsonwebtoken::decode::<AssertionClaims>(assertion, key, &validation).map_err(|_| InvalidAssertion)?;
        if token.claims.exp > now.timestamp() { Ok(token.claims) } else { Err(InvalidAssertion) }
    }
}

impl fmt::Debug for AssertionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionKeys").field("active", &self.signer.0).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::Sha256;

    use super::*;

    const ISSUER: &str = "http://127.0.0.1:8080";

    fn key(seed: u64, state: KeyState) -> AssertionKey {
        AssertionKey { state, ..AssertionKey::draw(&Rng::seeded(seed), Timestamp::UNIX_EPOCH) }
    }

    fn claims() -> AssertionClaims {
        AssertionClaims {
            iss: ISSUER.into(),
            aud: ISSUER.into(),
            sub: Rng::seeded(9).uuid_v7(Timestamp::UNIX_EPOCH).into(),
            iat: 0,
            exp: 100,
            jti: "1".into(),
            registration_type: RegistrationType::Anonymous,
            email: None,
            email_verified: None,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn an_assertion_holds_until_it_expires_and_through_a_rotation() {
        let old_keys = AssertionKeys::new(ISSUER.into(), &[key(1, KeyState::Active), key(2, KeyState::Next)]).unwrap();
        let token = old_keys.sign(&claims()).unwrap();
        assert_eq!(old_keys.verify(&token, at(99)), Ok(claims()));
        assert_eq!(old_keys.verify(&token, at(100)), Err(InvalidAssertion));
        let after = AssertionKeys::new(ISSUER.into(), &[key(1, KeyState::Retired), key(2, KeyState::Active)]).unwrap();
        assert_eq!(after.verify(&token, at(0)), Ok(claims()));
        // The key was published before it signed, so a verifier with the older key set accepts it too.
        assert_eq!(old_keys.verify(&after.sign(&claims()).unwrap(), at(0)), Ok(claims()));
        let gone = AssertionKeys::new(ISSUER.into(), &[key(2, KeyState::Active)]).unwrap();
        assert_eq!(gone.verify(&token, at(0)), Err(InvalidAssertion));
    }

    #[test]
    fn issuer_audience_type_algorithm_and_signature_are_pinned() {
        let keys = AssertionKeys::new(ISSUER.into(), &[key(1, KeyState::Active)]).unwrap();
        for (iss, aud) in [("http://other", ISSUER), (ISSUER, "http://other")] {
            let token = keys.sign(&AssertionClaims { iss: iss.into(), aud: aud.into(), ..claims() }).unwrap();
            assert_eq!(keys.verify(&token, at(0)), Err(InvalidAssertion));
        }
        let (kid, signer) = &keys.signer;
        let plain = Header { kid: Some(kid.clone()), ..Header::new(Algorithm::EdDSA) };
        let token = jsonwebtoken::encode(&plain, &claims(), signer).unwrap();
        assert_eq!(keys.verify(&token, at(0)), Err(InvalidAssertion), "typ is JWT");
        let header = json!({ "alg": "HS256", "typ": ASSERTION_TYPE, "kid": kid }).to_string();
        let body = serde_json::to_string(&claims()).unwrap();
        let text = [header, body].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".");
        let secret = key(1, KeyState::Active).public_x();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(text.as_bytes());
        let token = format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        assert_eq!(keys.verify(&token, at(0)), Err(InvalidAssertion), "HMAC under the public key");
        let token = keys.sign(&claims()).unwrap();
        let (head, signature) = token.rsplit_once('.').unwrap();
        let forged = format!("{head}.{}{}", if signature.starts_with('A') { "B" } else { "A" }, &signature[1..]);
        assert_eq!(keys.verify(&forged, at(0)), Err(InvalidAssertion), "another signature");
        assert_eq!(keys.verify("", at(0)), Err(InvalidAssertion));
    }

    #[test]
    fn the_key_set_shows_public_halves_only() {
        let keys = AssertionKeys::new(ISSUER.into(), &[key(1, KeyState::Active), key(2, KeyState::Next)]).unwrap();
        let public_keys = keys.jwks()["keys"].as_array().unwrap();
        assert_eq!(public_keys.len(), 2);
        assert!(public_keys.iter().all(|key| key["kty"] == "OKP" && key.get("d").is_none()));
        assert!(matches!(AssertionKeys::new(ISSUER.into(), &[key(2, KeyState::Next)]), Err(KeyError::NoneActive)));
    }
}
