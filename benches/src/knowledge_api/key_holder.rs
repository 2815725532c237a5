//! A client of the knowledge API with a key.

use crate::options::Result;
use crate::plan;
use crate::product::Product;

/// Builds requests with the credential of an account.
#[derive(Debug)]
pub(super) struct KeyHolder {
    credential: String,
}

impl KeyHolder {
    /// Creates an account and its API key.
    pub(super) fn new(product: &Product, email: &str) -> Result<Self> {
        Ok(Self { credential: format!("Authorization: Bearer {}", product.api_key(email)?) })
    }

    pub(super) fn post(&self, target: &str, body: &serde_json::Value) -> bytes::Bytes {
        let headers = [self.credential.as_str(), "Content-Type: application/json"];
        plan::request("POST", target, &headers, body.to_string().as_bytes())
    }

    pub(super) fn get(&self, target: &str) -> bytes::Bytes {
        plan::request("GET", target, &[&self.credential], b"")
    }
}
