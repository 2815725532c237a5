//! `attache config`: shows the settings and their places, and overrides live ones for a time. Running servers apply an override within a
//! second or two.

use std::time::Duration;

use app::acts::Acting;
use app::config::reading::Layers;
use app::config::shown::shown;
use app::overrides::{self, NewOverride, OverrideRefusal, sentence};
use app::{host_name, of_node, overlaid};
use clap::{Args, Subcommand};
use domain::act::{ActKind, ActReason};
use domain::{Clock, Timestamp};
use serde_json::{Value, json};
use store::setting::SettingOverride;
use wire::ops::{Cluster, NodeEntry, OverrideEntry, OverrideRequest, ReloadReport, ReloadRequest};

use super::acts::{Because, by_shell};
use super::admin::AdminContext;
use super::main_database::open_store_if_there;
use super::operator_client::OperatorClient;
use crate::admin::words::reload_words;
use commands::failure::{Done, Failure, FailureKind};
use commands::moment::duration;
use commands::output;

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
        /// Only check the value, and name its effect on the present numbers of the running server
        #[arg(long)]
        dry_run: bool,
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
    /// Make the running server read its configuration again, as SIGHUP does
    Reload {
        /// Name of the host, or id, of another node
        #[arg(long, value_name = "NODE", conflicts_with = "all")]
        node: Option<String>,
        /// All nodes on the database
        #[arg(long)]
        all: bool,
        /// Report the changes without applying them
        #[arg(long)]
        dry_run: bool,
        /// Reason, which the record of this act names
        #[arg(long, value_name = "TEXT")]
        reason: ActReason,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
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

/// Runs the subcommand with this configuration.
pub async fn run(command: Command, layers: Layers) -> Done {
    match command {
        Command::Show { path, json } => show(path.as_deref(), json, &layers).await,
        Command::Reload { node, all: false, dry_run, reason, json } => {
            let report = reload(&OperatorClient::of(&layers.settings)?, node, dry_run, &reason).await?;
            output::show(json, &json!(report), || reported(&report));
            Ok(())
        }
        Command::Reload { all: true, dry_run, reason, json, .. } => reload_all(&layers, dry_run, &reason, json).await,
        Command::Set { path, value, dry_run: true, change, .. } => preview(&path, value, &change, &layers).await,
        Command::Set { path, value, lasts, until_unset, replace, change, .. } => {
            let context = AdminContext::open(&layers.settings).await?;
            let lasts = (!until_unset).then_some(lasts);
            let new = NewOverride { path: &path, text: &value, node: change.node.as_deref(), lasts };
            let done = set(&context, &new, replace, &change, &layers).await;
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
            let overrides = overrides::list(&context.store, context.clock.now()).await.map_err(Failure::caused);
            context.store.close().await;
            let rows: Vec<Value> = overrides?.iter().map(|found| json!(found)).collect();
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
    let act = by_shell(kind).on("setting", overrides::target(path, node)).because(because.reason);
    context.acting(match until {
        Some(until) => act.until(until),
        None => act,
    })
}

async fn set(
    context: &AdminContext<'_>,
    new: &NewOverride<'_>,
    replaces: bool,
    ChangeOptions { because, json, .. }: &ChangeOptions,
    layers: &Layers,
) -> Done {
    let now = context.clock.now();
    let in_force = context.store.setting_overrides(now).await.map_err(Failure::caused)?;
    let value = new.check(&in_force, layers.named.as_deref(), layers.settings.admin.override_max).map_err(refused)?;
    let until = new.lasts.map(|lasts| now + lasts);
    let acting = acting(context, ActKind::ConfigSet, (new.path, new.node), until, because.clone());
    let (path, node) = (new.path.to_owned(), new.node.map(str::to_owned));
    let new = SettingOverride { path, node, value, until, set_by: acting.author.clone() };
    overrides::set(&acting, &new, replaces, now).await.map_err(refused)?;
    output::show(*json, &json!(overrides::described(&new)), || {
        format!("{}; running servers apply it within a second or two", sentence(&new))
    });
    Ok(())
}

/// Prints the effect of a value, by the running server.
async fn preview(
    path: &str,
    value: String,
    ChangeOptions { node, because, json }: &ChangeOptions,
    layers: &Layers,
) -> Done {
    let reason = because.reason.as_ref().map_or("a preview", ActReason::as_str).to_owned();
    let request = OverrideRequest {
        value: Value::String(value),
        reason: Some(reason),
        node: node.clone(),
        lasts: None,
        until_unset: false,
        replace: false,
        dry_run: true,
    };
    let client = OperatorClient::of(&layers.settings)?;
    let entry: OverrideEntry = client.put(&format!("/ops/v1/config/overrides/{path}"), &request).await?;
    output::show(*json, &json!(entry), || {
        let effect = entry.effect.clone().unwrap_or_else(|| "its actors do not answer".to_owned());
        format!("{path} {effect}\nnothing was changed")
    });
    Ok(())
}

async fn unset(context: &AdminContext<'_>, path: &str, ChangeOptions { node, because, json }: ChangeOptions) -> Done {
    let acting = acting(context, ActKind::ConfigUnset, (path, node.as_deref()), None, because);
    overrides::unset(&acting, path, node.as_deref(), context.clock.now()).await.map_err(refused)?;
    output::show(json, &json!({ "unset": path, "node": node }), || {
        format!("{path} has the value of the configuration again, within a second or two")
    });
    Ok(())
}

fn refused(refusal: OverrideRefusal) -> Failure {
    match refusal {
        OverrideRefusal::Invalid(problems) => Failure::of(FailureKind::Configuration, problems.to_string()),
        OverrideRefusal::Absent => Failure::not_found(refusal.to_string()),
        refusal => Failure::caused(refusal),
    }
}

async fn reload(
    client: &OperatorClient,
    node: Option<String>,
    dry_run: bool,
    reason: &ActReason,
) -> Result<ReloadReport, Failure> {
    let request = ReloadRequest { node, reason: Some(reason.as_str().to_owned()), dry_run };
    client.post("/ops/v1/config/reload", &request).await
}

/// Makes each node read its configuration. A node that refuses is named at the end, and does not keep the others from it.
async fn reload_all(layers: &Layers, dry_run: bool, reason: &ActReason, json: bool) -> Done {
    let client = OperatorClient::of(&layers.settings)?;
    let cluster: Cluster = client.get("/ops/v1/cluster").await?;
    let (mut reports, mut refused) = (Vec::new(), Vec::new());
    for NodeEntry { id, name, operator_address, status, .. } in cluster.nodes {
        if status == "silent" {
            refused.push(format!("{name} ({operator_address}) is silent"));
            continue;
        }
        match reload(&client, Some(id.to_string()), dry_run, reason).await {
            Ok(report) => reports.push(report),
            Err(failure) => refused.push(format!("{name} ({operator_address}): {}", failure.reason())),
        }
    }
    output::show(json, &json!(reports), || reports.iter().map(reported).collect::<Vec<_>>().join("\n"));
    if refused.is_empty() { Ok(()) } else { Err(Failure::refused(refused.join("\n"))) }
}

/// The changes of a reload, one a line.
pub fn reported(report: &ReloadReport) -> String {
    let head = format!("{} read its configuration", report.node);
    let changes = reload_words(report).into_iter().map(|change| format!("  {change}"));
    std::iter::once(head).chain(changes).collect::<Vec<_>>().join("\n")
}

async fn show(path: Option<&str>, json: bool, layers: &Layers) -> Done {
    // The command works without a database, too.
    let overrides = match open_store_if_there(&layers.settings).await {
        Ok(Some(store)) => {
            let found = store.setting_overrides(Clock::system().now()).await;
            store.close().await;
            found.unwrap_or_default()
        }
        Ok(None) | Err(_) => Vec::new(),
    };
    let overlaid = overlaid(&layers.settings, &of_node(overrides, &host_name())).map_err(Failure::caused)?;
    let rows = shown(path, layers, &overlaid.0, &overlaid.1.values()).map_err(Failure::caused)?;
    if rows.is_empty() {
        return Err(Failure::not_found("no setting has this path: `attache config show` lists them"));
    }
    let rows: Vec<Value> = rows.iter().map(|row| json!(row)).collect();
    output::list(json, &rows, &["path", "value", "source", "change"]);
    Ok(())
}
