//! `[admin]`: the operator's listener and socket, and who may use them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Digest;
use domain::operator::OperatorRole;
use serde::{Deserialize, Serialize};

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

    /// Whether an operator has a token.
    pub fn has_tokens(&self) -> bool {
        self.operator.iter().any(|operator| operator.token_sha256.is_some())
    }

    /// Values that break a rule, as pairs of field and rule.
    pub fn problems(&self, data_dir: &Path) -> Vec<(String, String)> {
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
            let OperatorSettings { name, uid, token_sha256, .. } = operator;
            rule(is_name(name), "operator", "name: must have 1 to 32 letters, digits, '-', '_' or '.'");
            rule(uid.is_some() != token_sha256.is_some(), "operator", "needs either uid or token_sha256");
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
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, uid: Option<u32>, token_sha256: Option<Digest>) -> OperatorSettings {
        OperatorSettings { name: name.to_owned(), role: OperatorRole::Look, uid, token_sha256 }
    }

    fn problems(operator: Vec<OperatorSettings>) -> String {
        let problems = AdminSettings { operator, ..AdminSettings::default() }.problems(Path::new("data"));
        problems.into_iter().map(|(field, rule)| format!("{field}: {rule}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_operator_has_a_name_and_one_credential_of_his_own() {
        let token = || Some(Digest::of(b"token"));
        let both = vec![operator("desk", Some(1000), None), operator("desk", None, token())];
        assert_eq!(problems(both), "");
        assert!(problems(vec![operator("a b", Some(1), None)]).contains("name: "));
        assert!(problems(vec![operator("a", Some(1), token())]).contains("either uid or token_sha256"));
        assert!(problems(vec![operator("a", None, None)]).contains("either uid or token_sha256"));
        assert!(problems(vec![operator("a", Some(1), None), operator("b", Some(1), None)]).contains("same uid"));
        assert!(problems(vec![operator("a", None, token()), operator("b", None, token())]).contains("same token"));
    }

    #[test]
    fn the_socket_has_a_path_that_the_system_allows() {
        let settings = AdminSettings::default();
        assert_eq!(settings.socket_in(Path::new("data")).unwrap(), Path::new("data/operator.sock"));
        assert!(settings.problems(Path::new(&"d".repeat(93))).is_empty());
        let long = settings.problems(Path::new(&"d".repeat(94)));
        assert!(long[0].1.contains("its path has 108 bytes"), "{long:?}");
        let elsewhere = AdminSettings { socket: "/run/attache.sock".to_owned(), ..settings.clone() };
        assert!(elsewhere.problems(Path::new(&"d".repeat(94))).is_empty());
        assert_eq!(AdminSettings { socket: String::new(), ..settings }.socket_in(Path::new("data")), None);
    }
}
