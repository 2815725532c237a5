//! Metadata for clients that got 401: the authorization server that a resource trusts (RFC 9728), and the capabilities of that server
//! (RFC 8414, with a block for agents).

use std::collections::BTreeMap;
use std::sync::Arc;

use app::config::Urls;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::api_key::ApiKeyScope;
use serde_json::{Value, json};
use wire::agent_auth::{ASSERTION_GRANT, CLAIM_GRANT, SCOPE_ACCOUNT, SCOPE_EVENTS};

use crate::accepts::Accepts;
use crate::document::Document;
use crate::error::{ApiResult, Code};
use crate::named::Named;
use crate::route::{KNOWLEDGE_PREFIX, Route};

/// The resources that require a credential, and the credentials that each accepts.
#[derive(Debug)]
pub struct Resources {
    accepts: BTreeMap<&'static str, Accepts>,
    /// Whether the public listener serves the knowledge API, too.
    has_one_listener: bool,
}

impl Resources {
    /// The resources of these two route tables: each path, and each surface as a whole.
    pub fn of<S>(routes: &[Route<S>], knowledge_routes: &[Route<S>], has_one_listener: bool) -> Self {
        let mut resources = BTreeMap::<_, Accepts>::new();
        let mut add = |path, accepts| {
            let known = resources.entry(path).or_insert(Accepts::NONE);
            *known = known.or(accepts);
        };
        for route in routes.iter().filter(|route| route.accepts != Accepts::NONE) {
            add(route.path, route.accepts);
            add("/api/v1", route.accepts);
        }
        for route in knowledge_routes {
            add(route.path, route.accepts);
            add(KNOWLEDGE_PREFIX.trim_end_matches('/'), route.accepts);
        }
        Self { accepts: resources, has_one_listener }
    }

    /// Whether the public listener serves the knowledge API, too.
    fn has_one_listener(&self) -> bool {
        self.has_one_listener
    }

    /// The credentials that the resource at this path accepts.
    fn accepts(&self, path: &str) -> Option<Accepts> {
        let fits =
            |(segment, template): (&str, &str)| segment == template || template.starts_with('{') && !segment.is_empty();
        let is_at = |template: &str| {
            path.split('/').count() == template.split('/').count() && path.split('/').zip(template.split('/')).all(fits)
        };
        self.accepts.iter().find(|(template, _)| is_at(template)).map(|(_, accepts)| *accepts)
    }
}

/// `GET /.well-known/oauth-protected-resource`: the account and agent API as a whole.
pub async fn protected_resource(
    State(resources): State<Arc<Resources>>,
    State(urls): State<Arc<Urls>>,
    headers: HeaderMap,
) -> ApiResult {
    let accepts = resources.accepts("/api/v1").ok_or(Code::NotFound)?;
    Ok(Document::json(&metadata(&urls.base, accepts, &urls)).answer(&headers))
}

/// `GET /.well-known/oauth-protected-resource` on the knowledge API's own listener.
pub async fn knowledge_resource(State(urls): State<Arc<Urls>>, headers: HeaderMap) -> Response {
    Document::json(&metadata(&urls.rag, Accepts::API_KEY, &urls)).answer(&headers)
}

/// `GET /.well-known/oauth-protected-resource/{*path}`: one resource, or the surface with this path prefix.
pub async fn protected_resource_at(
    State(resources): State<Arc<Resources>>,
    State(urls): State<Arc<Urls>>,
    Named(path): Named,
    headers: HeaderMap,
) -> ApiResult {
    resource_at(&resources, &urls, &path, &headers, |is_knowledge| !is_knowledge || resources.has_one_listener())
}

/// The same on the knowledge API's own listener.
pub async fn knowledge_resource_at(
    State(resources): State<Arc<Resources>>,
    State(urls): State<Arc<Urls>>,
    Named(path): Named,
    headers: HeaderMap,
) -> ApiResult {
    resource_at(&resources, &urls, &path, &headers, |is_knowledge| is_knowledge)
}

fn resource_at(
    resources: &Resources,
    urls: &Urls,
    path: &str,
    headers: &HeaderMap,
    is_here: impl Fn(bool) -> bool,
) -> ApiResult {
    let path = format!("/{path}");
    let accepts = resources.accepts(&path).ok_or(Code::NotFound)?;
    let is_knowledge = accepts.includes(Accepts::API_KEY);
    if !is_here(is_knowledge) {
        return Err(Code::NotFound.into());
    }
    let surface = if is_knowledge { &urls.rag } else { &urls.base };
    Ok(Document::json(&metadata(&format!("{surface}{path}"), accepts, urls)).answer(headers))
}

/// RFC 9728, section 2. API keys and machine secrets are no tokens of an authorization server, so a resource that only accepts these names
/// no authorization server.
fn metadata(resource: &str, accepts: Accepts, urls: &Urls) -> Value {
    let base = &urls.base;
    if accepts.includes(Accepts::API_KEY) {
        return json!({
            "resource": resource,
            "resource_name": "attache: the knowledge API",
            "resource_documentation": format!("{base}/llms-full.txt"),
            "bearer_methods_supported": ["header"],
            "scopes_supported": ApiKeyScope::KNOWLEDGE,
        });
    }
    let granted = [(Accepts::ACCOUNT, SCOPE_ACCOUNT), (Accepts::PRE_CLAIM, SCOPE_EVENTS)];
    let scopes: Vec<&str> =
        granted.into_iter().filter(|(kind, _)| accepts.includes(*kind)).map(|(_, scope)| scope).collect();
    let by_header = !scopes.is_empty() || accepts.includes(Accepts::MACHINE);
    let mut metadata = json!({
        "resource": resource,
        "resource_name": "attache: the account and agent API",
        "resource_documentation": format!("{base}/auth.md"),
        "bearer_methods_supported": if by_header { json!(["header"]) } else { json!([]) },
    });
    if !scopes.is_empty() {
        metadata["authorization_servers"] = json!([base]);
        metadata["scopes_supported"] = json!(scopes);
    }
    metadata
}

/// `GET /.well-known/oauth-authorization-server`
///
/// There is no authorization endpoint: people confirm on pages of this server. The device flow is not listed, because it attaches
/// computers and issues no token.
pub async fn authorization_server(State(urls): State<Arc<Urls>>, headers: HeaderMap) -> Response {
    let base = &urls.base;
    let at = |path: &str| format!("{base}/api/v1/agent-auth/{path}");
    let guide = format!("{base}/auth.md");
    let scopes = [SCOPE_ACCOUNT, SCOPE_EVENTS];
    let grants = [CLAIM_GRANT, ASSERTION_GRANT];
    let metadata = json!({
        "issuer": base,
        "token_endpoint": at("token"),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint": at("revoke"),
        "revocation_endpoint_auth_methods_supported": ["none"],
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "response_types_supported": [],
        "grant_types_supported": grants,
        "scopes_supported": scopes,
        "service_documentation": guide,
        "protected_resources": [base],
        "agent_auth": {
            "skill": guide,
            "identity_endpoint": at("identity"),
            "claim_endpoint": at("claim"),
            "claim_completion_endpoint": at("claim/complete"),
            "token_endpoint": at("token"),
            "revocation_endpoint": at("revoke"),
            "identity_types_supported": ["anonymous", "service_auth"],
            "grant_types_supported": grants,
            "scopes_supported": scopes,
            "anonymous": { "pre_claim_scopes": [SCOPE_EVENTS], "post_claim_scopes": [SCOPE_ACCOUNT] },
            "service_auth": { "post_claim_scopes": [SCOPE_ACCOUNT] },
        },
    });
    Document::json(&metadata).answer(&headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_a_path_that_asks_for_a_credential() {
        let resources = Resources::of(&crate::routes(), &crate::knowledge_routes(), true);
        let accepts = |path: &str| resources.accepts(path);
        assert!(accepts("/api/v1").unwrap().includes(Accepts::ACCOUNT.or(Accepts::PRE_CLAIM)));
        assert_eq!(accepts("/api/v1/device/code"), Some(Accepts::MACHINE));
        assert_eq!(accepts("/api/v1/agents/x"), Some(Accepts::ACCOUNT.or(Accepts::SESSION)));
        assert_eq!(
            accepts("/api/v1/keys"),
            Some(Accepts::agent(domain::agent_right::AgentRight::Read).or(Accepts::SESSION))
        );
        assert_eq!(accepts("/v1"), Some(Accepts::API_KEY));
        assert_eq!(accepts("/v1/batch-add/x"), Some(Accepts::API_KEY));
        for open in ["/", "/api", "/api/v1/", "/api/v1/mcp", "/api/v1/agents/", "/api/v1/agents/x/y", "/v1/search/x"] {
            assert_eq!(accepts(open), None, "{open}");
        }
    }
}
