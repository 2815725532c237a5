//! The settings that all nodes of an installation share, as one digest and as one digest for each setting.

use domain::Digest;
use domain::canonical::canonical_bytes;
use domain::node::SettingPrints;
use serde_json::{Map, Value};

use super::Settings;

/// Names of secret settings, at any depth. They are left out, since a secret may be rotated on one node after the other.
const SECRETS: [&str; 6] = ["password", "token", "api_key", "client_secret", "enrolment_key", "secret_key"];

/// Settings of a single node, and URLs that may contain a password.
const LOCAL: [&str; 7] =
    ["data", "telemetry", "http.bind", "admin.bind", "knowledge.bind", "database.url", "mail.smtp.url"];

/// Whether a setting of this name is a secret.
pub fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}

impl Settings {
    /// SHA-256 of the canonical bytes of the shared settings, without secrets and settings of a single node. The registry file
    /// counts by its content.
    pub fn shared_digest(&self) -> Digest {
        Digest::of(&canonical_bytes(&self.shared()))
    }

    /// Digests of the same settings by their paths, for a comparison with another node.
    pub fn shared_prints(&self) -> SettingPrints {
        SettingPrints::of(&self.shared())
    }

    fn shared(&self) -> Map<String, Value> {
        let mut tree = match serde_json::to_value(self) {
            Ok(Value::Object(tree)) => tree,
            // Settings serialise to a table: every test of the configuration file relies on it.
            Ok(_) | Err(_) => Map::new(),
        };
        for path in LOCAL {
            remove(&mut tree, path);
        }
        if let (Some(path), Some(Value::Object(events))) = (&self.events.registry, tree.get_mut("events")) {
            let content = std::fs::read(path).map(|bytes| Digest::of(&bytes).to_string());
            events.insert("registry".to_owned(), content.map_or(Value::Null, Value::String));
        }
        if let Some(database) = tree.get_mut("knowledge").and_then(|knowledge| knowledge.get_mut("database")) {
            // A URL may contain a password, but whether there is one concerns all nodes.
            *database = Value::Bool(self.knowledge.database.url.is_some());
        }
        if let Some(Value::Array(parts)) = tree.get_mut("log").and_then(|log| log.get_mut("part")) {
            // A URL may contain a password.
            parts.iter_mut().filter_map(Value::as_object_mut).for_each(|part| drop(part.remove("url")));
        }
        without_secrets(&mut tree);
        tree
    }
}

/// Removes the value at a path such as `http.bind`.
fn remove(tree: &mut Map<String, Value>, path: &str) {
    match path.split_once('.') {
        None => drop(tree.remove(path)),
        Some((section, rest)) => {
            if let Some(Value::Object(section)) = tree.get_mut(section) {
                remove(section, rest);
            }
        }
    }
}

fn without_secrets(tree: &mut Map<String, Value>) {
    tree.retain(|name, _| !is_secret(name));
    for value in tree.values_mut() {
        match value {
            Value::Object(section) => without_secrets(section),
            Value::Array(rows) => rows.iter_mut().filter_map(Value::as_object_mut).for_each(without_secrets),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: impl FnOnce(&mut Settings)) -> bool {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.shared_digest() != Settings::default().shared_digest()
    }

    #[test]
    fn settings_of_all_nodes_count_and_those_of_one_do_not() {
        assert!(changed(|settings| settings.http.base_url = Some("https://attache.example.com".into())));
        assert!(changed(|settings| settings.log.checkpoint_every = std::time::Duration::from_millis(100)));
        assert!(!changed(|settings| {
            settings.data.dir = "elsewhere".into();
            settings.http.bind = "0.0.0.0:80".parse().unwrap();
            settings.admin.bind = "0.0.0.0:81".parse().unwrap();
            settings.knowledge.bind = Some("0.0.0.0:82".parse().unwrap());
            settings.telemetry.log = "debug".into();
        }));
    }

    #[test]
    fn secrets_do_not_count() {
        let secret = || Some("secret".to_owned());
        assert!(!changed(|settings| {
            settings.database.url = Some("postgres://user:password@host/database".into());
            settings.upstream.token = secret();
            settings.machines.enrolment_key = secret();
            settings.mail.smtp.password = secret();
        }));
    }

    #[test]
    fn the_registry_counts_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("one.toml", "a = 1"), ("same.toml", "a = 1"), ("other.toml", "a = 2")];
        let [one, same, other] = files.map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mut settings = Settings::default();
            settings.events.registry = Some(path);
            settings.shared_digest()
        });
        assert_eq!(one, same);
        assert_ne!(one, other);
    }
}
