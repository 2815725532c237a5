//! Removal of secrets from the texts of an event, by the rules of `redaction/rules.toml`.

use std::borrow::Cow;

use regex::{Captures, Regex, RegexSet};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The built-in rules, in TOML.
const RULES: &str = include_str!("redaction/rules.toml");

/// Compiled rules. Compiling takes longer than a hook may, so that only the sender does it.
#[derive(Debug)]
pub struct Redactor {
    any: RegexSet,
    rules: Vec<(String, Regex)>,
}

/// Rules that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// Not TOML, or an unknown member.
    #[error("the redaction rules cannot be read")]
    Syntax(#[from] toml::de::Error),
    /// An invalid expression.
    #[error("a redaction rule has an invalid pattern")]
    Pattern(#[from] regex::Error),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(rename = "rule")]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    pattern: String,
}

impl Redactor {
    /// The built-in rules.
    pub fn built_in() -> Result<Self, RuleError> {
        let RuleFile { rules } = toml::from_str(RULES)?;
        let any = RegexSet::new(rules.iter().map(|rule| &rule.pattern))?;
        let compiled = rules.into_iter().map(|Rule { name, pattern, .. }| Ok((name, Regex::new(&pattern)?)));
        Ok(Self { any, rules: compiled.collect::<Result<_, regex::Error>>()? })
    }

    /// Removes secrets from all texts of an object, names of members included; returns whether there was one.
    pub fn redact(&self, members: &mut Map<String, Value>) -> bool {
        let mut has_found = false;
        let found = std::mem::take(members).into_iter().map(|(name, mut value)| {
            has_found |= self.redact_value(&mut value);
            match self.redact_text(&name) {
                Cow::Owned(redacted) => {
                    has_found = true;
                    (redacted, value)
                }
                Cow::Borrowed(_) => (name, value),
            }
        });
        *members = found.collect();
        has_found
    }

    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let Cow::Owned(redacted) = self.redact_text(text) else { return false };
                *text = redacted;
                true
            }
            Value::Array(values) => {
                let mut has_found = false;
                for value in values {
                    has_found |= self.redact_value(value);
                }
                has_found
            }
            Value::Object(members) => {
                // `{"password": "…"}` is one text only when it is written.
                let mut has_named = false;
                for (name, value) in members.iter_mut() {
                    has_named |= self.redact_named(name, value);
                }
                self.redact(members) || has_named
            }
            _ => false,
        }
    }

    /// Redacts a text that is a secret because of the name of its member.
    fn redact_named(&self, name: &str, value: &mut Value) -> bool {
        let Value::String(text) = value else { return false };
        if text.chars().any(char::is_whitespace) {
            return false;
        }
        let pair = format!("{name}={text}");
        let Cow::Owned(redacted) = self.redact_text(&pair) else { return false };
        let Some(value) = redacted.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) else { return false };
        value.clone_into(text);
        true
    }

    fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut redacted = Cow::Borrowed(text);
        for nth in self.any.matches(text) {
            let Some((name, pattern)) = self.rules.get(nth) else { continue };
            let replaced = pattern.replace_all(&redacted, |found: &Captures<'_>| replacement(name, found));
            if let Cow::Owned(replaced) = replaced {
                redacted = Cow::Owned(replaced);
            }
        }
        redacted
    }
}

/// The found text with a mark in place of the secret.
fn replacement(name: &str, found: &Captures<'_>) -> String {
    let whole = found.get(0).map(|whole| (whole.as_str(), whole.start())).unwrap_or_default();
    let mark = format!("[redacted:{name}]");
    let Some(secret) = found.name("secret") else { return mark };
    let (text, start) = whole;
    let before = text.get(..secret.start() - start).unwrap_or_default();
    let after = text.get(secret.end() - start..).unwrap_or_default();
    // A mark of an earlier rule is kept.
    if secret.as_str().starts_with("[redacted:") { text.to_owned() } else { format!("{before}{mark}{after}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Built when the test runs, so that no scanner takes this file for a leak.
    fn secrets() -> Vec<(&'static str, String)> {
        let x = |count: usize| "x1Y2".chars().cycle().take(count).collect::<String>();
        let hex = |count: usize| "0a1b2c3d".chars().cycle().take(count).collect::<String>();
        vec![
            ("private-key", format!("-----BEGIN RSA {}-----\n{}\n-----END RSA PRIVATE KEY-----", "PRIVATE KEY", x(64))),
            ("private-key", format!("-----BEGIN OPENSSH {}-----\n{}", "PRIVATE KEY", x(64))),
            ("aws-access-key", format!("AKIA{}", "ABCDEFGH12345678")),
            ("github-token", format!("ghp_{}", x(36))),
            ("github-token", format!("github_pat_{}", x(40))),
            ("gitlab-token", format!("glpat-{}", x(20))),
            ("json-web-token", format!("eyJ{}.{}.{}", x(20), x(20), x(20))),
            ("mailchimp-key", format!("{}-us7", hex(32))),
            ("npm-token", format!("npm_{}", x(36))),
            ("openai-key", format!("sk-{}T3BlbkFJ{}", x(20), x(20))),
            ("api-key", format!("sk-ant-api03-{}", x(40))),
            ("pypi-token", format!("pypi-AgEIcHlwaS5vcmc{}", x(80))),
            ("sendgrid-key", format!("SG.{}.{}", x(22), x(43))),
            ("slack-token", format!("xoxb-123456-{}", "abcdef123")),
            ("slack-webhook", format!("https://hooks.slack.com/services/T{}/B{}/{}", x(8), x(8), x(20))),
            ("stripe-key", format!("sk_live_{}", x(24))),
            ("telegram-token", format!("123456789:{}", x(35))),
            ("twilio-key", format!("SK{}", hex(32))),
            ("google-key", format!("AIza{}", x(35))),
            ("attache-secret", format!("msk_{}", x(43))),
            ("discord-token", format!("M{}.{}.{}", x(23), x(6), x(27))),
            ("artifactory-token", format!("AKC{}", x(20))),
            ("square-secret", format!("sq0csp-{}", x(43))),
        ]
    }

    #[test]
    fn each_secret_is_removed_wherever_it_is() {
        let redactor = Redactor::built_in().unwrap();
        for (name, secret) in secrets() {
            let mut members = json!({
                "input": { "command": format!("curl -H 'X: {secret}' https://example.com"), "list": [1, [secret.clone()]] },
                secret.clone(): null,
            });
            let members = members.as_object_mut().unwrap();
            assert!(redactor.redact(members), "{name}");
            let text = Value::Object(members.clone()).to_string();
            let written = json!(secret).to_string();
            assert!(!text.contains(written.trim_matches('"')), "{name}: {text}");
            assert!(text.contains(&format!("[redacted:{name}]")), "{name}: {text}");
        }
    }

    #[test]
    fn only_the_value_of_an_assignment_is_removed() {
        let redactor = Redactor::built_in().unwrap();
        for (text, expected) in [
            ("PASSWORD=hunter22hunter22 make", "PASSWORD=[redacted:password] make"),
            ("postgres://ada:lovelace1815@db/x", "postgres://ada:[redacted:basic-auth]@db/x"),
            ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted:authorization]"),
            (r#"api_key: "0123456789abcdef""#, r#"api_key: "[redacted:password]""#),
        ] {
            let mut members = json!({ "command": text });
            assert!(redactor.redact(members.as_object_mut().unwrap()), "{text}");
            assert_eq!(members["command"], expected);
        }
        let mut members = json!({ "input": { "password": "hunter22hunter22", "count": 3 } });
        assert!(redactor.redact(members.as_object_mut().unwrap()));
        assert_eq!(members, json!({ "input": { "password": "[redacted:password]", "count": 3 } }));
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let redactor = Redactor::built_in().unwrap();
        let text = json!({
            "input": { "command": "cargo test --workspace", "file_path": "/home/ada/src/password_reset.rs" },
            "output": "test result: ok. 15 passed; see https://example.com/a:b and user@example.com",
            "prompt": "Explain how the access token is renewed, and why the secret is stored as a hash.",
        });
        let mut members = text.clone();
        assert!(!redactor.redact(members.as_object_mut().unwrap()));
        assert_eq!(members, text);
    }
}
