//! Removal of secrets from the texts of an event.
//!
//! The texts of an event are laid out as one (`view`), and searched once for keywords. A keyword leads to an expression for secrets of a
//! certain form (`rules`), to the reading of a value behind a telling name (`named`), or to the password of a URL (`url`).

mod name;
mod named;
mod rules;
mod url;
mod value;
mod view;

use std::ops::Range;

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use named::Scanner;
use rules::Rule;
use view::View;

/// The rules, ready to search.
#[derive(Debug)]
pub struct Redactor {
    keywords: AhoCorasick,
    /// The target of each keyword.
    leads: Vec<Lead>,
    rules: Vec<Rule>,
}

/// Rules that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// Not TOML, or an unknown member.
    #[error("the redaction rules cannot be read")]
    Syntax(#[from] toml::de::Error),
    /// Keywords that cannot be searched for.
    #[error("the keywords of the redaction rules cannot be searched for")]
    Keywords(#[from] aho_corasick::BuildError),
}

#[derive(Debug, Clone, Copy)]
enum Lead {
    Rule(usize),
    Name,
    Url,
}

/// A secret in the view.
#[derive(Debug)]
struct Finding {
    part: Range<usize>,
    /// Number of the rule, or a higher number for findings without one: of overlapping findings the lowest number names the secret.
    rank: usize,
    name: String,
}

impl Redactor {
    /// The built-in rules.
    pub fn built_in() -> Result<Self, RuleError> {
        let rules = Rule::all()?;
        let of_rules = rules.iter().enumerate();
        let of_rules =
            of_rules.flat_map(|(nth, rule)| rule.keywords.iter().map(move |word| (word.as_str(), Lead::Rule(nth))));
        let others = name::TRIGGERS.iter().map(|word| (*word, Lead::Name)).chain([(url::TRIGGER, Lead::Url)]);
        let (keywords, leads): (Vec<_>, Vec<_>) = of_rules.chain(others).unzip();
        let keywords = AhoCorasick::builder().ascii_case_insensitive(true).build(keywords)?;
        Ok(Self { keywords, leads, rules })
    }

    /// Removes secrets from all texts of an object, names of members included; returns whether there was one.
    pub fn redact(&self, members: &mut Map<String, Value>) -> bool {
        let view = View::of(members);
        let findings = merged(self.find(view.bytes()));
        let cuts: Vec<_> = findings
            .iter()
            .flat_map(|finding| view.cuts(&finding.part, &format!("[redacted:{}]", finding.name)))
            .collect();
        view::replace(members, &cuts);
        !cuts.is_empty()
    }

    fn find(&self, view: &[u8]) -> Vec<Finding> {
        let (mut tried, mut findings, mut names) = (vec![false; self.rules.len()], Vec::new(), Scanner::new(view));
        let rank = self.rules.len();
        for keyword in self.keywords.find_overlapping_iter(view) {
            match self.leads.get(keyword.pattern().as_usize()) {
                Some(Lead::Rule(nth)) => match self.rules.get(*nth) {
                    Some(rule) if rule.is_command => {
                        let secrets = rule.find_arguments(view, &keyword.range());
                        findings.extend(secrets.into_iter().map(|part| Finding {
                            part,
                            rank: *nth,
                            name: rule.name.clone(),
                        }));
                    }
                    _ => tried.iter_mut().skip(*nth).take(1).for_each(|is_tried| *is_tried = true),
                },
                Some(Lead::Name) => {
                    let secrets = names.at(keyword.start());
                    findings.extend(secrets.map(|(part, name)| Finding { part, rank, name: name.to_owned() }));
                }
                Some(Lead::Url) => {
                    let secrets = url::password(view, keyword.end());
                    findings.extend(secrets.map(|part| Finding { part, rank, name: "basic-auth".to_owned() }));
                }
                None => {}
            }
        }
        for (nth, rule) in self.rules.iter().enumerate().filter(|(nth, _)| tried.get(*nth) == Some(&true)) {
            findings.extend(rule.find(view).into_iter().map(|part| Finding {
                part,
                rank: nth,
                name: rule.name.clone(),
            }));
        }
        findings
    }
}

/// Merges overlapping findings; returns them in the order of the text.
fn merged(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| (finding.part.start, finding.part.end));
    let mut merged = Vec::<Finding>::with_capacity(findings.len());
    for finding in findings {
        match merged.last_mut().filter(|last| finding.part.start < last.part.end) {
            Some(last) => {
                last.part.end = last.part.end.max(finding.part.end);
                if finding.rank < last.rank {
                    (last.rank, last.name) = (finding.rank, finding.name);
                }
            }
            None => merged.push(finding),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Built at run time, so that secret scanners do not report this file.
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
            ("telegram-token", format!("123456789:AA{}", x(33))),
            ("twilio-key", format!("SK{}", hex(32))),
            ("google-key", format!("AIza{}", x(35))),
            ("attache-secret", format!("msk_{}", x(43))),
            ("discord-token", format!("M{}.G{}.{}", x(23), x(5), x(27))),
            ("artifactory-token", format!("AKC{}", "aB3dE6gH9jK2mN5pQ8sT")),
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
            (r#"api_key: "0123456789abcdef""#, r#"api_key: "[redacted:token]""#),
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
