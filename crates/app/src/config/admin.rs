//! `[admin]`: the operator's listener and socket, and who may use them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Digest;
use domain::operator::OperatorRole;
use serde::{Deserialize, Serialize};

use super::signin::SigninSettings;

/// Maximum length of the path of a socket, in bytes: `sun_path` of Linux without its final zero.
const SOCKET_PATH_MAX: usize = 107;

/// `[admin]`: listener, socket and rights of operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct AdminSettings {
    pub bind: SocketAddr,
    pub hosts: Vec<String>,
    pub connections_max: usize,
    #[serde(with = "humantime_serde")]
    pub probe_every: Duration,
    #[serde(with = "humantime_serde")]
    pub probe_deadline: Duration,
    #[serde(with = "humantime_serde")]
    pub stalled_after: Duration,
    pub free_bytes_min: u64,
    #[serde(with = "humantime_serde")]
    pub override_max: Duration,
    pub socket: String,
    pub changes: bool,
    pub operator: Vec<OperatorSettings>,
}

/// `[[admin.operator]]`: an operator of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSettings {
    /// Name in the record of acts.
    pub name: String,
    /// Rights of the operator.
    pub role: OperatorRole,
    /// User id of the operator's processes, at the socket.
    #[serde(default)]
    pub uid: Option<u32>,
    /// SHA-256 of the operator's token.
    #[serde(default)]
    pub token_sha256: Option<Digest>,
    /// Who signs in at an OpenID provider, for the console.
    #[serde(default)]
    pub oidc: Option<OperatorClaim>,
}

/// `oidc` of an operator: everybody of whom the provider says this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorClaim {
    /// Name of the provider in `[[signin.oidc]]`.
    pub provider: String,
    /// Claim of the ID token: `sub`, `email` if the provider has verified it, or another text or list of texts.
    pub claim: String,
    /// The value of the claim, or one of its list.
    pub value: String,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 8081)),
            hosts: Vec::new(),
            connections_max: 64,
            probe_every: Duration::from_secs(1),
            probe_deadline: Duration::from_secs(2),
            stalled_after: Duration::from_secs(3),
            free_bytes_min: 1 << 20,
            override_max: Duration::from_hours(7 * 24),
            socket: "operator.sock".to_owned(),
            changes: false,
            operator: Vec::new(),
        }
    }
}

impl AdminSettings {
    /// Path of the operator's socket; `None` if it is off.
    pub fn socket_in(&self, data_dir: &Path) -> Option<PathBuf> {
        (!self.socket.is_empty()).then(|| data_dir.join(&self.socket))
    }

    /// The operator with processes of this user id.
    pub fn operator_of_uid(&self, uid: u32) -> Option<&OperatorSettings> {
        self.operator.iter().find(|operator| operator.uid == Some(uid))
    }

    /// The operator with a token of this hash.
    pub fn operator_of_token(&self, hash: &[u8]) -> Option<&OperatorSettings> {
        self.operator.iter().find(|operator| operator.token_sha256.is_some_and(|own| own.as_bytes() == hash))
    }

    /// The operator whom this claim identifies.
    pub fn operator_of_claim(&self, claim: &OperatorClaim) -> Option<&OperatorSettings> {
        self.operator.iter().find(|operator| operator.oidc.as_ref() == Some(claim))
    }

    /// Whether an operator has a token.
    pub fn has_tokens(&self) -> bool {
        self.operator.iter().any(|operator| operator.token_sha256.is_some())
    }

    /// Whether an operator can sign in at the console.
    pub fn has_console(&self) -> bool {
        self.operator.iter().any(|operator| operator.token_sha256.is_some() || operator.oidc.is_some())
    }

    /// Names of the providers at which operators sign in.
    pub fn providers(&self) -> BTreeSet<&str> {
        self.operator.iter().filter_map(|operator| Some(operator.oidc.as_ref()?.provider.as_str())).collect()
    }

    /// Values that break a rule, as pairs of field and rule. `signin` has the providers.
    pub fn problems(&self, data_dir: &Path, signin: &SigninSettings) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut rule = |is_valid: bool, field: &str, rule: &str| {
            if !is_valid {
                problems.push((field.to_owned(), rule.to_owned()));
            }
        };
        rule(self.connections_max > 0, "connections_max", "must be at least 1");
        rule(!self.probe_deadline.is_zero(), "probe_deadline", "must be longer than 0s");
        rule(!self.stalled_after.is_zero(), "stalled_after", "must be longer than 0s");
        let path = self.socket_in(data_dir).map(|path| path.as_os_str().len()).unwrap_or_default();
        let too_long = format!(
            "its path has {path} bytes, at most {SOCKET_PATH_MAX} are possible: name a path outside of data.dir"
        );
        rule(path <= SOCKET_PATH_MAX, "socket", &too_long);
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=32).contains(&name.len()) && name.bytes().all(plain)
        };
        for operator in &self.operator {
            let OperatorSettings { name, uid, token_sha256, oidc, .. } = operator;
            rule(is_name(name), "operator", "name: must have 1 to 32 letters, digits, '-', '_' or '.'");
            let credentials = [uid.is_some(), token_sha256.is_some(), oidc.is_some()];
            let is_one = credentials.into_iter().filter(|is_there| *is_there).count() == 1;
            rule(is_one, "operator", "needs one of uid, token_sha256 and oidc");
        }
        for provider in self.providers() {
            let is_there = signin.oidc.iter().any(|known| known.name == provider);
            rule(is_there, "operator", &format!("oidc.provider: no [[signin.oidc]] has the name {provider:?}"));
        }
        let is_single = |same: &dyn Fn(&OperatorSettings, &OperatorSettings) -> bool| {
            let all = &self.operator;
            all.iter().enumerate().all(|(at, one)| all.iter().skip(at + 1).all(|other| !same(one, other)))
        };
        let same_uid = |one: &OperatorSettings, other: &OperatorSettings| one.uid.is_some() && one.uid == other.uid;
        rule(is_single(&same_uid), "operator", "two operators have the same uid");
        let same_token = |one: &OperatorSettings, other: &OperatorSettings| {
            one.token_sha256.is_some() && one.token_sha256 == other.token_sha256
        };
        rule(is_single(&same_token), "operator", "two operators have the same token_sha256");
        let same_claim =
            |one: &OperatorSettings, other: &OperatorSettings| one.oidc.is_some() && one.oidc == other.oidc;
        rule(is_single(&same_claim), "operator", "two operators have the same oidc");
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, uid: Option<u32>, token_sha256: Option<Digest>) -> OperatorSettings {
        OperatorSettings { name: name.to_owned(), role: OperatorRole::Look, uid, token_sha256, oidc: None }
    }

    fn with_claim(name: &str, value: &str) -> OperatorSettings {
        let (provider, claim, value) = ("work".to_owned(), "groups".to_owned(), value.to_owned());
        OperatorSettings { oidc: Some(OperatorClaim { provider, claim, value }), ..operator(name, None, None) }
    }

    fn signin() -> SigninSettings {
        let work =
            serde_json::from_str(r#"{"name": "work", "label": "W", "issuer": "https://a.example", "client_id": "c"}"#);
        SigninSettings { oidc: vec![work.unwrap()], ..SigninSettings::default() }
    }

    fn problems(operator: Vec<OperatorSettings>) -> String {
        let problems = AdminSettings { operator, ..AdminSettings::default() }.problems(Path::new("data"), &signin());
        problems.into_iter().map(|(field, rule)| format!("{field}: {rule}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_operator_has_a_name_and_one_credential_of_his_own() {
        let token = || Some(Digest::of(b"token"));
        let both = vec![operator("desk", Some(1000), None), operator("desk", None, token())];
        assert_eq!(problems(both), "");
        assert!(problems(vec![operator("a b", Some(1), None)]).contains("name: "));
        assert_eq!(problems(vec![with_claim("a", "ops"), with_claim("b", "dev")]), "");
        assert!(problems(vec![with_claim("a", "ops"), with_claim("b", "ops")]).contains("same oidc"));
        let mut elsewhere = with_claim("a", "ops");
        elsewhere.oidc.as_mut().unwrap().provider = "home".to_owned();
        assert!(problems(vec![elsewhere]).contains("no [[signin.oidc]] has the name \"home\""));
        let both = OperatorSettings { uid: Some(1), ..with_claim("a", "ops") };
        for wrong in [operator("a", Some(1), token()), operator("a", None, None), both] {
            assert!(problems(vec![wrong]).contains("needs one of uid, token_sha256 and oidc"));
        }
        assert!(problems(vec![operator("a", Some(1), None), operator("b", Some(1), None)]).contains("same uid"));
        assert!(problems(vec![operator("a", None, token()), operator("b", None, token())]).contains("same token"));
    }

    #[test]
    fn the_socket_has_a_path_that_the_system_allows() {
        let settings = AdminSettings::default();
        assert_eq!(settings.socket_in(Path::new("data")).unwrap(), Path::new("data/operator.sock"));
        assert!(settings.problems(Path::new(&"d".repeat(93)), &signin()).is_empty());
        let long = settings.problems(Path::new(&"d".repeat(94)), &signin());
        assert!(long[0].1.contains("its path has 108 bytes"), "{long:?}");
        let elsewhere = AdminSettings { socket: "/run/attache.sock".to_owned(), ..settings.clone() };
        assert!(elsewhere.problems(Path::new(&"d".repeat(94)), &signin()).is_empty());
        assert_eq!(AdminSettings { socket: String::new(), ..settings }.socket_in(Path::new("data")), None);
    }
}
