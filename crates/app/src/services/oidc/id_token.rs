//! ID tokens (OpenID Connect Core 1.0, sections 2 and 3.1.3.7): signature and claims.
//!
//! 1. The algorithm is one of the provider's that sign with a key pair. With a key that both sides know the client's secret could sign,
//!    and with `none` anyone.
//! 2. The key is the one that the header names, of the type that the algorithm needs.
//! 3. The claims are read only after the signature was verified.
//! 4. Issuer, audience, nonce and times are those of this sign-in.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta};
use domain::Timestamp;
use domain::clock::delta;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

use super::keys::{Algorithm, KeyFault, Keys};

/// By how much a provider's clock may differ from the server's.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(60);

/// What the token of this sign-in has to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'e> {
    pub issuer: &'e str,
    pub client_id: &'e str,
    pub nonce: &'e str,
    /// The access token of the same response.
    pub access_token: &'e str,
    /// Maximum time since the person signed in at the provider.
    pub age_max: Duration,
    pub now: Timestamp,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenFault {
    #[error("it is not a signed JWT")]
    Malformed,
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// The text does not contain values of the token, which identify a person.
    #[error("its claims cannot be read")]
    Unreadable,
    #[error("{0}")]
    Claim(&'static str),
}

/// The claims that say who signed in.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    iss: String,
    pub sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: NumericDate,
    iat: NumericDate,
    nbf: Option<NumericDate>,
    auth_time: Option<NumericDate>,
    nonce: Option<String>,
    at_hash: Option<String>,
    #[serde(flatten)]
    pub address: Address,
    /// All other claims.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The address of a person, in an ID token or a user info response (section 5.1).
#[derive(Debug, Deserialize)]
pub(super) struct Address {
    pub email: Option<String>,
    pub email_verified: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// Seconds since 1970, possibly with a fraction (RFC 7519, section 2).
#[derive(Debug, Clone, Copy)]
struct NumericDate(Timestamp);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let since = Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)?;
        let moment = DateTime::UNIX_EPOCH.checked_add_signed(delta(since));
        moment.map(Self).ok_or_else(|| D::Error::custom("a time out of range"))
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader has to understand (RFC 7515, section 4.1.11).
    crit: Option<serde_json::Value>,
}

/// Verifies a token with the keys of the provider, of which only the `algorithms` are accepted.
pub(super) fn verify(
    token: &str,
    keys: &Keys,
    algorithms: &[Algorithm],
    expected: &Expected<'_>,
) -> Result<Claims, TokenFault> {
    let (message, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(TokenFault::Malformed)?;
    let Header { alg, kid, crit } = json(header).ok_or(TokenFault::Malformed)?;
    if crit.is_some() {
        return Err(TokenFault::Claim("its header names an extension that is not supported"));
    }
    let algorithm = algorithms.iter().find(|algorithm| algorithm.as_str() == alg).ok_or(KeyFault::Algorithm)?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
    keys.find(*algorithm, kid.as_deref())?.verify(*algorithm, message.as_bytes(), &signature)?;
    let claims: Claims = json(claims).ok_or(TokenFault::Unreadable)?;
    match claims.broken_rule(*algorithm, expected) {
        Some(rule) => Err(TokenFault::Claim(rule)),
        None => Ok(claims),
    }
}

impl Claims {
    fn broken_rule(&self, algorithm: Algorithm, expected: &Expected<'_>) -> Option<&'static str> {
        let Expected { now, age_max, .. } = *expected;
        let is_ahead = |date: &NumericDate| date.0.signed_duration_since(now) > CLOCKS_DIFFER;
        let is_past = |date: &NumericDate, by: TimeDelta| now.signed_duration_since(date.0) > by;
        // No other client is trusted, so one more audience is one too many, with `azp` or without (steps 3 to 5).
        let is_for_us = match &self.aud {
            Audience::One(audience) => audience == expected.client_id,
            Audience::Several(all) => matches!(&all[..], [audience] if audience == expected.client_id),
        };
        let hash = self.at_hash.as_deref();
        let age_max = delta(age_max).checked_add(&CLOCKS_DIFFER).unwrap_or(TimeDelta::MAX);
        let rules = [
            (self.iss == expected.issuer, "it is of another issuer"),
            (is_for_us, "it was issued to another client, or to several"),
            (self.azp.as_deref().is_none_or(|party| party == expected.client_id), "it was issued to another client"),
            (!is_past(&self.exp, CLOCKS_DIFFER), "it has expired"),
            (!is_ahead(&self.iat), "it was issued in the future: do the clocks differ?"),
            (!self.nbf.as_ref().is_some_and(is_ahead), "it is not valid yet: do the clocks differ?"),
            (self.nonce.as_deref() == Some(expected.nonce), "its nonce is not that of this sign-in"),
            (
                hash.is_none_or(|hash| hash == algorithm.half_hash(expected.access_token)),
                "it is of another access token",
            ),
            (!self.sub.is_empty(), "it names no subject"),
            (self.auth_time.is_some(), "it does not say when the person signed in there"),
            (
                !self.auth_time.as_ref().is_some_and(is_ahead),
                "the person signed in there in the future: do the clocks differ?",
            ),
            (
                !self.auth_time.as_ref().is_some_and(|at| is_past(at, age_max)),
                "the person signed in there too long ago",
            ),
        ];
        rules.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, rule)| rule)
    }
}

fn json<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests;
