//! Compares the settings with another configuration.

use serde_json::Value;

use super::Settings;

impl Settings {
    /// Paths of the settings that differ, such as `http.bind`. The values are left out, since some are secrets.
    pub fn differences(&self, other: &Self) -> serde_json::Result<Vec<String>> {
        let mut paths = Vec::new();
        compare(&serde_json::to_value(self)?, &serde_json::to_value(other)?, String::new(), &mut paths);
        paths.sort();
        Ok(paths)
    }
}

fn compare(one: &Value, other: &Value, path: String, paths: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(members), Value::Object(others)) if members.keys().eq(others.keys()) => {
            for ((key, member), other) in members.iter().zip(others.values()) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(member, other, path, paths);
            }
        }
        _ if one == other => {}
        _ => paths.push(path),
    }
}

/// Calls `visit` with each value that is not a section, and its path.
pub fn leaves(tree: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    let Value::Object(members) = tree else { return visit(path, tree) };
    for (key, member) in members {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        leaves(member, &path, visit);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_setting_that_differs_is_named_by_its_path() {
        let mut other = Settings::default();
        assert_eq!(Settings::default().differences(&other).unwrap(), Vec::<String>::new());
        other.http.base_url = Some("https://attache.example.com".into());
        other.knowledge.batch.lease = Duration::from_secs(1);
        other.signin.create_account = !other.signin.create_account;
        let differences = Settings::default().differences(&other).unwrap();
        assert_eq!(differences, ["http.base_url", "knowledge.batch.lease", "signin.create_account"]);
    }
}
