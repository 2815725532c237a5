//! Ed25519 for `jsonwebtoken`, the only algorithm of identity assertions. The library's provider contains all algorithms of JWTs, and
//! a build would compile RSA, two curves and a second version of most crates below them.

use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Error};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| signer(*algorithm, key),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    // `AssertionKeys` writes the JWKs.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs this provider for the process. Signing and verification require it.
pub fn install() {
    // Fails if a provider is already installed, and only this function installs one.
    let _ = PROVIDER.install_default();
}

/// A signing key from a seed.
pub fn encoding_key(seed: &[u8; 32]) -> EncodingKey {
    // The library only passes the bytes to the provider.
    EncodingKey::from_ed_der(seed)
}

struct Ed25519Signer(SigningKey);

struct Ed25519Verifier(VerifyingKey);

fn signer(algorithm: Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if algorithm != Algorithm::EdDSA || key.family() != Algorithm::EdDSA.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let seed: &[u8; 32] = key.as_bytes().try_into().map_err(|_| ErrorKind::InvalidEddsaKey)?;
    Ok(Box::new(Ed25519Signer(SigningKey::from_bytes(seed))))
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if algorithm != Algorithm::EdDSA || key.family() != Algorithm::EdDSA.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let public: &[u8; 32] = key.try_get_as_bytes()?.try_into().map_err(|_| ErrorKind::InvalidEddsaKey)?;
    let public = VerifyingKey::from_bytes(public).map_err(|_| ErrorKind::InvalidEddsaKey)?;
    Ok(Box::new(Ed25519Verifier(public)))
}

impl signature::Signer<Vec<u8>> for Ed25519Signer {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(self.0.sign(message).to_bytes().to_vec())
    }
}

impl JwtSigner for Ed25519Signer {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

impl signature::Verifier<Vec<u8>> for Ed25519Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let signature = Signature::from_slice(signature).map_err(|_| Error::new())?;
        self.0.verify(message, &signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ed25519Verifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}
