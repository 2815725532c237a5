//! Settings for readers: value, source, and when a change takes effect.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::ops::SettingEntry;

use super::Settings;
use super::live::{SettingEffect, effect_of, is_hidden};
use super::reading::{Layers, is_within, paths, pointer, schema};

/// The settings at `path` or in this section, or all settings. `in_force` differs from the settings of `layers` by `overrides`, which have
/// their values by path.
pub fn shown(
    path: Option<&str>,
    layers: &Layers,
    in_force: &Settings,
    overrides: &BTreeMap<String, Value>,
) -> serde_json::Result<Vec<SettingEntry>> {
    let (in_force, defaults) = (serde_json::to_value(in_force)?, schema());
    let trees = Trees { layers, in_force: &in_force, defaults: &defaults, overrides };
    let paths = paths(&defaults).into_iter();
    Ok(paths
        .filter(|found| path.is_none_or(|section| is_within(found, section)))
        .map(|path| trees.entry(path))
        .collect())
}

struct Trees<'t> {
    layers: &'t Layers,
    in_force: &'t Value,
    defaults: &'t Value,
    overrides: &'t BTreeMap<String, Value>,
}

impl Trees<'_> {
    fn entry(&self, path: String) -> SettingEntry {
        let hidden = |value: Option<&Value>| match value {
            None | Some(Value::Null) => Value::Null,
            Some(Value::Array(rows)) if rows.is_empty() => json!([]),
            Some(_) if is_hidden(&path) => json!("…"),
            Some(value) => value.clone(),
        };
        let pointer = pointer(&path);
        // A kind of actor without a value takes the common one.
        let is_given =
            [self.overrides, &self.layers.environment, &self.layers.file].iter().any(|layer| layer.contains_key(&path));
        let is_default = self.in_force.pointer(&pointer) == self.defaults.pointer(&pointer);
        let common = path.strip_prefix("actors.").and_then(|kind| kind.split_once('.'));
        let common = common.filter(|_| !is_given && !is_default).map(|(_, field)| format!("actors.{field}"));
        let source = common.as_ref().unwrap_or(&path);
        let place = |layer: &BTreeMap<String, Value>| layer.get(source).cloned();
        let (file, environment) = (place(&self.layers.file), place(&self.layers.environment));
        let overridden = place(self.overrides);
        let source = match (&overridden, &environment, &file) {
            (Some(_), _, _) => "override",
            (_, Some(_), _) => "environment",
            (_, _, Some(_)) => "file",
            (None, None, None) => "default",
        };
        SettingEntry {
            value: hidden(self.in_force.pointer(&pointer)),
            source: source.to_owned(),
            change: effect_of(&path).unwrap_or(SettingEffect::Restart).as_str().to_owned(),
            default: hidden(self.defaults.pointer(&pointer)),
            file: hidden(file.as_ref()),
            environment: hidden(environment.as_ref()),
            overridden: hidden(overridden.as_ref()),
            path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reading::{load_layers, read};

    #[test]
    fn a_kind_of_actor_with_a_value_of_its_own_ignores_the_common_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "[actors]\nask_deadline = \"7s\"\n[actors.claims]\nask_deadline = \"3s\"\n").unwrap();
        let layers = load_layers(Some(file.path()), std::iter::empty()).unwrap();
        let overridden = "[actors]\nask_deadline = \"9s\"\n[actors.claims]\nask_deadline = \"3s\"\n";
        let in_force = read("", overridden, std::iter::empty()).unwrap();
        let overrides = BTreeMap::from([("actors.ask_deadline".to_owned(), json!("9s"))]);
        let entries = shown(Some("actors"), &layers, &in_force, &overrides).unwrap();
        let found = |path: &str| {
            let entry = entries.iter().find(|entry| entry.path == path).unwrap();
            (entry.value.clone(), entry.source.as_str(), entry.file.clone(), entry.overridden.clone())
        };
        assert_eq!(found("actors.claims.ask_deadline"), (json!("3s"), "file", json!("3s"), json!(null)));
        for common in ["actors.ask_deadline", "actors.intake.ask_deadline"] {
            assert_eq!(found(common), (json!("9s"), "override", json!("7s"), json!("9s")), "{common}");
        }
        assert_eq!(found("actors.claims.queue_max").1, "default");
    }

    #[test]
    fn settings_in_a_log_line_have_no_password_of_a_database() {
        let urls =
            "[database]\nurl = \"postgres://u:hunter2@one/main\"\nreplica_url = \"postgres://u:hunter2@two/main\"
            [knowledge.database]\nurl = \"postgres://u:hunter2@three/memory\"
            [[log.part]]\nnumber = 1\nurl = \"postgres://u:hunter2@four/part\"\n";
        let text = format!("{:?}", read("", urls, std::iter::empty()).unwrap());
        assert!(text.contains("LogPartSettings") && !text.contains("hunter2"), "{text}");
    }
}
