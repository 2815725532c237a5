//! `attache config`: shows the settings and their places, and overrides live ones for a time. Running servers apply an override within a
//! second or two.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use app::config::live::{SettingEffect, effect_of, is_live};
use app::config::reading::{Layers, environment_name, is_within, load_layers, paths, pointer, schema, value_of};
use clap::{Args, Subcommand};
use domain::Timestamp;
use domain::act::ActKind;
use domain::clock::date_time;
use serde_json::{Value, json};
use store::setting::{OverrideSet, SettingOverride};

use super::acts::{Acting, Because, by_shell};
use super::admin::AdminContext;
use super::failure::{Done, Failure, FailureKind};
use super::output;

/// Subcommands of `attache config`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show settings with their values, the places of these, and when a change takes effect
    Show {
        /// Setting or section, for example actors.ordered [default: all settings]
        path: Option<String>,
        /// Print the result as JSON, with the value of each place
        #[arg(long)]
        json: bool,
    },
    /// Override a live setting for a time, on all nodes or on one
    Set {
        /// Path of the setting
        path: String,
        /// The value, as in the file
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Time after which the override ends by itself, such as 30m
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
        lasts: Duration,
        /// Keep the override until `attache config unset`
        #[arg(long, conflicts_with = "lasts")]
        until_unset: bool,
        /// Replace the override of another operator
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Remove an override
    Unset {
        /// Path of the setting
        path: String,
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// List the overrides in force
    Overrides {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Options of changes.
#[derive(Debug, Args)]
pub struct ChangeOptions {
    /// Name of the host of the only node that is affected [default: all nodes]
    #[arg(long)]
    node: Option<String>,
    #[command(flatten)]
    because: Because,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// Runs the subcommand with this file and the environment.
pub async fn run(command: Command, file: Option<&Path>) -> Done {
    let read = load_layers(file, std::env::vars());
    let layers = read.map_err(|problems| Failure::of(FailureKind::Configuration, problems.to_string()))?;
    match command {
        Command::Show { path, json } => show(path.as_deref(), json, &layers),
        Command::Set { path, value, lasts, until_unset, replace, change } => {
            let lasts = (!until_unset).then_some(lasts);
            let context = AdminContext::open(&layers.settings).await?;
            let done = async {
                let value =
                    new_value(&context, (&path, &value), lasts, change.node.as_deref(), (file, &layers)).await?;
                let until = lasts.map(|lasts| context.clock.now() + lasts);
                set(&context, (path, value, until), replace, change).await
            };
            let done = done.await;
            context.store.close().await;
            done
        }
        Command::Unset { path, change } => {
            let context = AdminContext::open(&layers.settings).await?;
            let done = unset(&context, &path, change).await;
            context.store.close().await;
            done
        }
        Command::Overrides { json } => {
            let context = AdminContext::open(&layers.settings).await?;
            let overrides = context.store.setting_overrides(context.clock.now()).await.map_err(Failure::caused);
            context.store.close().await;
            let rows: Vec<Value> = overrides?.iter().map(overridden).collect();
            output::list(json, &rows, &["path", "node", "value", "until", "set_by"]);
            Ok(())
        }
    }
}

/// Prepares the record of a change of an override.
fn acting(
    context: &AdminContext<'_>,
    kind: ActKind,
    (path, node): (&str, Option<&str>),
    until: Option<Timestamp>,
    because: Because,
) -> Acting {
    let node = node.map(|node| format!("@{node}")).unwrap_or_default();
    let act = by_shell(kind).on("setting", format!("{path}{node}")).because(because.reason);
    context.acting(match until {
        Some(until) => act.until(until),
        None => act,
    })
}

/// Checks the new value of a setting by the rules of the file, together with the other overrides of the node.
async fn new_value(
    context: &AdminContext<'_>,
    (path, text): (&str, &str),
    lasts: Option<Duration>,
    node: Option<&str>,
    (file, layers): (Option<&Path>, &Layers),
) -> Result<Value, Failure> {
    let overrides = context.store.setting_overrides(context.clock.now()).await.map_err(Failure::caused)?;
    let others = overrides.iter().filter(|found| found.node.is_none() || found.node.as_deref() == node);
    let others: BTreeMap<String, String> =
        others.map(|found| (environment_name(&found.path), found.value.to_string())).collect();
    let environment = std::env::vars().filter(|(name, _)| !others.contains_key(name));
    let value = value_of(path, text, file, environment.chain(others.clone()));
    let value = value.map_err(|problems| Failure::of(FailureKind::Configuration, problems.to_string()))?;
    if !is_live(path) {
        return Err(Failure::refused(format!(
            "{path} takes effect with a restart: change it in the file\n  `attache config show` names the settings that are live"
        )));
    }
    let max = layers.settings.admin.override_max;
    if lasts.is_some_and(|lasts| lasts > max) {
        let max = humantime_serde::re::humantime::format_duration(max);
        return Err(Failure::refused(format!("an override lasts {max} at most (admin.override_max)")));
    }
    Ok(value)
}

async fn set(
    context: &AdminContext<'_>,
    (path, value, until): (String, Value, Option<Timestamp>),
    replaces: bool,
    ChangeOptions { node, because, json }: ChangeOptions,
) -> Done {
    let acting = acting(context, ActKind::ConfigSet, (&path, node.as_deref()), until, because);
    let new = SettingOverride { path, node, value, until, set_by: acting.author.clone() };
    let set = acting.store.setting_override(&new, replaces, context.clock.now()).await;
    match acting.settle(set).await? {
        OverrideSet::Set => {
            let shown = overridden(&new);
            output::show(json, &shown, || {
                format!("{}; running servers apply it within a second or two", sentence(&new))
            });
            Ok(())
        }
        OverrideSet::Taken(old) => {
            Err(Failure::refused(format!("{}, set by {}\n  `--replace` takes it over", sentence(&old), old.set_by)))
        }
    }
}

async fn unset(context: &AdminContext<'_>, path: &str, ChangeOptions { node, because, json }: ChangeOptions) -> Done {
    let acting = acting(context, ActKind::ConfigUnset, (path, node.as_deref()), None, because);
    let ended = acting.store.setting_override_end(path, node.as_deref(), context.clock.now()).await;
    if !acting.settle(ended).await? {
        return Err(Failure::not_found("no such override is in force: `attache config overrides` lists them"));
    }
    output::show(json, &json!({ "unset": path, "node": node }), || {
        format!("{path} has the value of the configuration again, within a second or two")
    });
    Ok(())
}

/// The override as a sentence, without its end.
fn sentence(found: &SettingOverride) -> String {
    let place = found.node.as_deref().map_or_else(|| "all nodes".to_owned(), |node| format!("node {node}"));
    let until = found.until.map_or_else(|| "`attache config unset`".to_owned(), date_time);
    format!("{} is {} on {place} until {until}", found.path, found.value)
}

fn overridden(found: &SettingOverride) -> Value {
    json!({
        "path": found.path,
        "node": found.node,
        "value": found.value,
        "until": found.until.map(date_time),
        "set_by": found.set_by,
    })
}

fn show(path: Option<&str>, json: bool, layers: &Layers) -> Done {
    let (in_force, defaults) = (serde_json::to_value(&layers.settings).map_err(Failure::caused)?, schema());
    let paths = paths(&defaults);
    let asked = paths.iter().filter(|candidate| path.is_none_or(|section| is_within(candidate, section)));
    let rows: Vec<Value> = asked.map(|path| described(path, layers, &in_force, &defaults)).collect();
    if rows.is_empty() {
        return Err(Failure::not_found("no setting has this path: `attache config show` lists them"));
    }
    output::list(json, &rows, &["path", "value", "source", "change"]);
    Ok(())
}

fn described(path: &str, layers: &Layers, in_force: &Value, defaults: &Value) -> Value {
    let effect = effect_of(path).unwrap_or(SettingEffect::Restart);
    let hidden = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Value::Null,
        Some(_) if effect == SettingEffect::Never => json!("…"),
        Some(value) => value.clone(),
    };
    let pointer = pointer(path);
    // A kind of actor without a value takes the common one.
    let common = || {
        let field = path.strip_prefix("actors.")?.split_once('.')?.1;
        (in_force.pointer(&pointer) != defaults.pointer(&pointer)).then(|| format!("actors.{field}"))
    };
    let place = |layer: &BTreeMap<String, Value>| {
        layer.get(path).cloned().or_else(|| common().and_then(|common| layer.get(&common).cloned()))
    };
    let (of_file, of_environment) = (place(&layers.file), place(&layers.environment));
    let source = match (&of_environment, &of_file) {
        (Some(_), _) => "environment",
        (None, Some(_)) => "file",
        (None, None) => "default",
    };
    json!({
        "path": path,
        "value": hidden(in_force.pointer(&pointer)),
        "source": source,
        "change": effect.as_str(),
        "default": hidden(defaults.pointer(&pointer)),
        "file": hidden(of_file.as_ref()),
        "environment": hidden(of_environment.as_ref()),
    })
}
