//! The metadata of a provider (OpenID Connect Discovery 1.0, section 4) and its keys.

use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::Value;

use super::fetch::{FetchError, fetch};
use super::keys::{Algorithm, Keys};
use crate::config::is_protected;

/// What a provider says about itself.
#[derive(Debug)]
pub(super) struct Metadata {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub userinfo_endpoint: Option<Url>,
    /// Whether the client sends its secret in the body: the provider takes it there and not in the header.
    pub has_secret_in_body: bool,
    /// The algorithms of its ID tokens that sign with a key pair.
    pub algorithms: Vec<Algorithm>,
    pub keys: Keys,
}

/// Why a provider cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum DiscoveryFault {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("its metadata is that of another issuer")]
    Issuer,
    #[error("its {0} is no https:// URL")]
    Unprotected(&'static str),
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    id_token_signing_alg_values_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Requests the metadata and the keys of a provider.
pub(super) async fn discover(http: &Client, issuer: &str) -> Result<Metadata, DiscoveryFault> {
    let at = format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(issuer));
    let document: Document = fetch(http.get(at)).await?.success()?;
    // Another provider's keys would sign for this one (Discovery, section 4.3; RFC 9700, section 4.4).
    if document.issuer != issuer {
        return Err(DiscoveryFault::Issuer);
    }
    let set: KeySet = fetch(http.get(endpoint("jwks_uri", &document.jwks_uri)?)).await?.success()?;
    let methods = document.token_endpoint_auth_methods_supported.unwrap_or_default();
    let has = |method: &str| methods.iter().any(|name| name == method);
    let names = document.id_token_signing_alg_values_supported;
    let userinfo = document.userinfo_endpoint.map(|url| endpoint("userinfo_endpoint", &url)).transpose()?;
    Ok(Metadata {
        authorization_endpoint: endpoint("authorization_endpoint", &document.authorization_endpoint)?,
        token_endpoint: endpoint("token_endpoint", &document.token_endpoint)?,
        userinfo_endpoint: userinfo,
        has_secret_in_body: has("client_secret_post") && !has("client_secret_basic"),
        algorithms: names.iter().filter_map(|name| Algorithm::named(name)).collect(),
        keys: Keys::new(set.keys),
    })
}

fn endpoint(name: &'static str, url: &str) -> Result<Url, DiscoveryFault> {
    let url = Some(url).filter(|url| is_protected(url)).and_then(|url| url.parse().ok());
    url.ok_or(DiscoveryFault::Unprotected(name))
}
