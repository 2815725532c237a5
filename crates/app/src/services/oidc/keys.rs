//! The public keys of a provider (RFC 7517) and the algorithms that verify with them (RFC 7518, section 3.1).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{self, SHA256, SHA384, SHA512};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// A signing algorithm with a key pair; there are no others here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDsa,
}

impl Algorithm {
    const ALL: [Self; 9] = [
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::EdDsa,
    ];

    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    /// The name in the header of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The left half of the hash of a text (`at_hash`; OpenID Connect Core, section 3.1.3.6).
    pub fn half_hash(self, text: &str) -> String {
        let algorithm = match self {
            Self::RS256 | Self::PS256 | Self::ES256 => &SHA256,
            Self::RS384 | Self::PS384 | Self::ES384 => &SHA384,
            Self::RS512 | Self::PS512 | Self::EdDsa => &SHA512,
        };
        let hash = digest::digest(algorithm, text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..hash.as_ref().len() / 2])
    }

    /// How the algorithm verifies; the key's type follows from it.
    fn scheme(self) -> Scheme {
        match self {
            Self::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::RS384 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::RS512 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::PS384 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::PS512 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
            Self::ES256 => Scheme::Curve("P-256", &ECDSA_P256_SHA256_FIXED),
            Self::ES384 => Scheme::Curve("P-384", &ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Scheme::Curve("Ed25519", &ED25519),
        }
    }
}

enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static str, &'static dyn VerificationAlgorithm),
}

/// Why a signature is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyFault {
    #[error("its algorithm is not one of the provider's that sign with a key pair")]
    Algorithm,
    /// The provider may have a new key.
    #[error("the provider has no such key")]
    Unknown,
    #[error("the provider has several such keys")]
    Ambiguous,
    #[error("its signature is wrong")]
    Signature,
}

/// The keys that verify signatures. Keys of other types or uses are ignored.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug, Deserialize)]
pub(super) struct Key {
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    #[serde(flatten)]
    material: Material,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kty")]
enum Material {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Ec { crv: String, x: String, y: String },
    #[serde(rename = "OKP")]
    Okp { crv: String, x: String },
}

impl Keys {
    /// The keys of a set (RFC 7517, section 5).
    pub fn new(set: Vec<Value>) -> Self {
        Self(set.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect())
    }

    /// The key of this name, or the only one if the token names none.
    pub fn find(&self, algorithm: Algorithm, kid: Option<&str>) -> Result<&Key, KeyFault> {
        let is_named = |key: &&Key| kid.is_none() || key.kid.as_deref() == kid;
        let mut fitting = self.0.iter().filter(is_named).filter(|key| key.fits(algorithm));
        let key = fitting.next().ok_or(KeyFault::Unknown)?;
        if fitting.next().is_some() { Err(KeyFault::Ambiguous) } else { Ok(key) }
    }
}

impl Key {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_of_type = match (&self.material, algorithm.scheme()) {
            (Material::Rsa { .. }, Scheme::Rsa(_)) => true,
            (Material::Ec { crv, .. } | Material::Okp { crv, .. }, Scheme::Curve(curve, _)) => crv == curve,
            _ => false,
        };
        is_of_type
            && self.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && self.alg.as_deref().is_none_or(|alg| alg == algorithm.as_str())
    }

    /// Verifies a signature with this key.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Result<(), KeyFault> {
        let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyFault::Signature);
        let verified = match (&self.material, algorithm.scheme()) {
            (Material::Rsa { n, e }, Scheme::Rsa(parameters)) => {
                let (n, e) = (decoded(n)?, decoded(e)?);
                // Some providers write the sign byte of the number.
                let key = RsaPublicKeyComponents { n: without_sign(&n), e: without_sign(&e) };
                key.verify(parameters, message, signature)
            }
            (Material::Ec { x, y, .. }, Scheme::Curve(_, curve)) => {
                let point = [vec![4], decoded(x)?, decoded(y)?].concat();
                UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
            (Material::Okp { x, .. }, Scheme::Curve(_, curve)) => {
                UnparsedPublicKey::new(curve, decoded(x)?).verify(message, signature)
            }
            _ => return Err(KeyFault::Unknown),
        };
        verified.map_err(|_| KeyFault::Signature)
    }
}

fn without_sign(number: &[u8]) -> &[u8] {
    number.strip_prefix(&[0]).unwrap_or(number)
}
