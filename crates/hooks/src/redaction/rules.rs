//! The rules of `rules.toml` and `gitleaks.toml`. An expression is compiled when a text first contains one of its keywords: compiling all
//! expressions takes longer than most events.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Captures, Regex, RegexBuilder};
use serde::Deserialize;

use super::value;
use super::view::QUOTE;

/// The rules in TOML; if several match, the first one names the secret.
const FILES: [&str; 2] = [include_str!("rules.toml"), include_str!("gitleaks.toml")];

/// The separator of two arguments of a command, in a line or in a list.
const GAP: &str = r#"(?:\s+(?:\\\s+)?|["'`\x01]\s*,\s*["'`\x01])"#;
/// One argument, with the quotes around it.
const VALUE: &str = r#"(?P<secret>"[^"\x01\n]{3,}"|'[^'\x01\n]{3,}'|[^\s"'`\x01,]{3,})"#;

/// Longest command that is looked at.
const COMMAND_BYTES_MAX: usize = 600;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(rename = "rule")]
    rules: Vec<RuleEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    keywords: Vec<String>,
    #[serde(default)]
    is_command: bool,
    #[serde(default)]
    entropy: f64,
    pattern: String,
}

/// A form of secrets.
#[derive(Debug)]
pub struct Rule {
    /// Printed in place of the secret.
    pub name: String,
    /// Lower-case keywords; the rule is tried on texts that contain at least one.
    pub keywords: Vec<String>,
    /// The rule is tried on the arguments of the command that a keyword names, not on the whole text.
    pub is_command: bool,
    entropy: f64,
    pattern: String,
    expression: OnceLock<Option<Regex>>,
}

impl Rule {
    /// The rules of the files, and one for secrets of this server.
    pub fn all() -> Result<Vec<Self>, toml::de::Error> {
        let mut rules = vec![Self::of_server()];
        for file in FILES {
            let RuleFile { rules: entries } = toml::from_str(file)?;
            rules.extend(entries.into_iter().map(Self::from));
        }
        Ok(rules)
    }

    fn of_server() -> Self {
        let keywords: Vec<_> = domain::secret::prefixes().map(str::to_owned).collect();
        let pattern = format!(r"\b(?:{})[A-Za-z0-9_+/-]{{20,}}=*", keywords.join("|"));
        Self {
            name: "attache-secret".to_owned(),
            keywords,
            is_command: false,
            entropy: 0.0,
            pattern,
            expression: OnceLock::new(),
        }
    }

    /// Compiles the expression with ASCII classes, which gitleaks also uses and which are smaller.
    fn compile(&self) -> Result<Regex, regex::Error> {
        let pattern = self.pattern.replace("{gap}", GAP).replace("{value}", VALUE);
        RegexBuilder::new(&pattern).unicode(false).build()
    }

    /// The secrets of a text, each with the rest of its word.
    pub fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        // A test of this module compiles every expression.
        let Some(expression) = self.expression.get_or_init(|| self.compile().ok()) else { return Vec::new() };
        let secrets = expression.captures_iter(text).filter_map(|captures| self.secret(&captures, text));
        secrets.collect()
    }

    /// The secrets in the arguments of the command with the name at `name`.
    pub fn find_arguments(&self, text: &[u8], name: &Range<usize>) -> Vec<Range<usize>> {
        let previous = name.start.checked_sub(1).and_then(|previous| text.get(previous));
        let is_name = previous.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-' | b'.'));
        let is_separated =
            text.get(name.end).is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | &QUOTE));
        if !is_name || !is_separated {
            return Vec::new();
        }
        let rest = text.get(name.end..).unwrap_or_default();
        let rest = rest.get(..COMMAND_BYTES_MAX).unwrap_or(rest);
        let is_end =
            |pair: &[u8]| matches!(pair, [byte, b'\n'] if *byte != b'\\') || matches!(pair, b"; " | b"| " | b"&&");
        let end = rest.windows(2).position(is_end).map_or(rest.len(), |end| end + 1);
        let secrets = self.find(rest.get(..end).unwrap_or_default());
        secrets.into_iter().map(|part| name.end + part.start..name.end + part.end).collect()
    }

    fn secret(&self, captures: &Captures<'_>, text: &[u8]) -> Option<Range<usize>> {
        let named = captures.name("secret");
        let candidate = named.or_else(|| captures.get(0))?;
        if value::entropy(candidate.as_bytes()) < self.entropy
            || named.is_some() && value::is_placeholder(candidate.as_bytes())
        {
            return None;
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_word = text.get(candidate.end() - 1).is_some_and(is_part);
        let rest =
            text.iter().skip(candidate.end()).take_while(|byte| is_word && named.is_none() && is_part(byte)).count();
        Some(candidate.start()..candidate.end() + rest)
    }
}

impl From<RuleEntry> for Rule {
    fn from(entry: RuleEntry) -> Self {
        let RuleEntry { name, keywords, is_command, entropy, pattern, .. } = entry;
        Self { name, keywords, is_command, entropy, pattern, expression: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expression_is_valid_and_has_keywords() {
        let rules = Rule::all().unwrap();
        assert!(rules.len() > 200, "{}", rules.len());
        for rule in rules {
            rule.compile().unwrap_or_else(|error| panic!("{}: {error}", rule.name));
            assert!(
                !rule.keywords.is_empty() && rule.keywords.iter().all(|word| *word == word.to_lowercase()),
                "{}",
                rule.name
            );
        }
    }
}
