//! `[signin]`: who may sign in, and how.

use std::time::Duration;

use axum::http::Uri;
use domain::ids::Email;
use serde::{Deserialize, Serialize};

/// `[signin]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct SigninSettings {
    pub create_account: bool,
    pub domains: Vec<String>,
    #[serde(with = "humantime_serde")]
    pub fresh_within: Duration,
    pub codes_per_hour: u32,
    pub codes_per_hour_total: u32,
    #[serde(with = "humantime_serde")]
    pub provider_timeout: Duration,
    pub oidc: Vec<OidcSettings>,
}

impl Default for SigninSettings {
    fn default() -> Self {
        Self {
            create_account: true,
            domains: Vec::new(),
            fresh_within: Duration::from_mins(15),
            codes_per_hour: 10,
            codes_per_hour_total: 60,
            provider_timeout: Duration::from_secs(10),
            oidc: Vec::new(),
        }
    }
}

/// `[[signin.oidc]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// Its name in URLs.
    pub name: String,
    /// What its button says.
    pub label: String,
    /// Its issuer URL; `/.well-known/openid-configuration` below it describes it.
    pub issuer: String,
    /// Client id of this server at the provider.
    pub client_id: String,
    /// The secret that it gave us; none for a public client.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// Scopes of the authorization request; `openid` and `email` are required.
    #[serde(default = "scopes")]
    pub scopes: Vec<String>,
}

fn scopes() -> Vec<String> {
    vec!["openid".into(), "email".into()]
}

impl SigninSettings {
    /// Whether the person with this address may sign in. A domain does not include its subdomains.
    pub fn admits(&self, email: &Email) -> bool {
        let domain = email.as_str().rsplit('@').next().unwrap_or_default();
        self.domains.is_empty() || self.domains.iter().any(|admitted| admitted.eq_ignore_ascii_case(domain))
    }

    /// Values that break a rule, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut rule = |is_valid: bool, field: &str, rule: &str| {
            if !is_valid {
                problems.push((field.to_owned(), rule.to_owned()));
            }
        };
        rule(self.codes_per_hour > 0, "codes_per_hour", "must be at least 1");
        rule(self.codes_per_hour_total > 0, "codes_per_hour_total", "must be at least 1");
        rule(!self.provider_timeout.is_zero(), "provider_timeout", "must be longer than 0s");
        let is_domain = |name: &String| !name.is_empty() && !name.contains(|c: char| c == '@' || c.is_whitespace());
        rule(self.domains.iter().all(is_domain), "domains", "must be like example.com, without @");
        let mut names: Vec<&str> = self.oidc.iter().map(|provider| provider.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        rule(names.len() == self.oidc.len(), "oidc", "each needs a name of its own");
        let plain = |name: &str| {
            let word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            word && (1..=32).contains(&name.len())
        };
        for provider in &self.oidc {
            rule(plain(&provider.name), "oidc", "name: must be of lowercase letters, digits and '-', at most 32");
            rule(!provider.label.trim().is_empty(), "oidc", "label: must not be empty");
            rule(!provider.client_id.is_empty(), "oidc", "client_id: must not be empty");
            rule(
                is_issuer(&provider.issuer),
                "oidc",
                "issuer: must be like https://accounts.example.com; http:// only on this machine",
            );
            let asked = |scope: &str| provider.scopes.iter().any(|asked| asked == scope);
            rule(asked("openid") && asked("email"), "oidc", "scopes: \"openid\" and \"email\" must be among them");
        }
        problems
    }
}

fn is_issuer(text: &str) -> bool {
    is_protected(text) && !text.contains(['?', '#'])
}

/// Responses of a provider identify people, so the connection has to be authenticated: https, or plain http on this machine.
pub(crate) fn is_protected(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let local = matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
    let scheme = uri.scheme_str();
    scheme == Some("https") || (scheme == Some("http") && local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domains_decide_who_may_sign_in() {
        let admits = |domains: &[&str], email: &str| {
            let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
            SigninSettings { domains, ..SigninSettings::default() }.admits(&email.parse().unwrap())
        };
        assert!(admits(&[], "ada@example.com"));
        assert!(admits(&["example.org", "Example.com"], "ada@EXAMPLE.com"));
        for other in ["ada@mail.example.com", "ada@badexample.com", "example.com@example.net"] {
            assert!(!admits(&["example.com"], other), "{other}");
        }
        let wrong = SigninSettings { domains: vec!["@example.com".into()], ..SigninSettings::default() };
        assert_eq!(wrong.problems()[0].0, "domains");
    }

    #[test]
    fn missing_settings_of_a_provider_are_named() {
        let good = OidcSettings {
            name: "work".into(),
            label: "Work".into(),
            issuer: "https://accounts.example.com".into(),
            client_id: "attache".into(),
            client_secret: None,
            scopes: scopes(),
        };
        let problems = |oidc: Vec<OidcSettings>| SigninSettings { oidc, ..SigninSettings::default() }.problems();
        assert_eq!(problems(vec![good.clone()]), []);
        assert_eq!(problems(vec![good.clone(), good.clone()]).len(), 1, "two of one name");
        for bad in [
            OidcSettings { name: "Work!".into(), ..good.clone() },
            OidcSettings { label: " ".into(), ..good.clone() },
            OidcSettings { issuer: "http://accounts.example.com".into(), ..good.clone() },
            OidcSettings { client_id: String::new(), ..good.clone() },
            OidcSettings { scopes: vec!["openid".into()], ..good },
        ] {
            assert_eq!(problems(vec![bad.clone()]).len(), 1, "{bad:?}");
        }
    }
}
