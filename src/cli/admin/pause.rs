//! `attache admin pause`, `resume` and `pauses`: stop parts of the service for a time. Running servers follow within a second or two.

use std::time::Duration;

use app::pauses::{self, NewPause, PauseRefusal};
use clap::Args;
use domain::act::{ActKind, ActReason};
use domain::clock::date_time;
use domain::ids::{MachineUuid, UserAccountId};
use domain::lane::Lane;
use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::acts::by_shell;
use commands::failure::{Done, Failure};
use commands::moment::duration;
use commands::output;

/// The part, its scope, and the reason.
#[derive(Debug, Args)]
pub struct PauseTarget {
    /// intake, batches, mail, backfill, webhooks, sign-in or registration
    part: ServicePart,
    #[command(flatten)]
    scope: Scope,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// For whom; everybody if none is named.
#[derive(Debug, Args)]
#[group(id = "for whom", multiple = false)]
struct Scope {
    /// Only for this account (intake, batches, webhooks)
    #[arg(long)]
    account: Option<UserAccountId>,
    /// Only for this computer (intake)
    #[arg(long)]
    machine: Option<MachineUuid>,
    /// Only for events of this lane (intake)
    #[arg(long)]
    lane: Option<Lane>,
}

/// Options of `attache admin pause`.
#[derive(Debug, Args)]
pub struct PauseOptions {
    #[command(flatten)]
    target: PauseTarget,
    /// Time after which it ends by itself, such as 30m
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    lasts: Duration,
    /// Replace the pause of another operator
    #[arg(long)]
    replace: bool,
}

impl From<Scope> for PausedFor {
    fn from(Scope { account, machine, lane }: Scope) -> Self {
        let of = account.map(Self::Account).or(machine.map(Self::Machine)).or(lane.map(Self::Lane));
        of.unwrap_or(Self::All)
    }
}

fn refused(refusal: PauseRefusal) -> Failure {
    match refusal {
        PauseRefusal::Absent => Failure::not_found(refusal.to_string()),
        refusal => Failure::caused(refusal),
    }
}

/// Pauses a part.
pub async fn pause(
    PauseOptions { target, lasts, replace: replaces }: PauseOptions,
    context: &AdminContext<'_>,
) -> Done {
    let PauseTarget { part, scope, reason, format } = target;
    let (new, now) = (NewPause { part, scope: scope.into(), reason, lasts, replaces }, context.clock.now());
    let acting = context.acting(new.act(by_shell(ActKind::PauseBegin), now));
    let begun = pauses::begin(&acting, new, context.settings.admin.override_max, now).await.map_err(refused)?;
    output::show(format.json, &json!(pauses::described(&begun)), || {
        let (target, until) = (ServicePause::target(begun.part, &begun.scope), date_time(begun.until));
        format!("{target} is paused until {until}; running servers follow within a second or two")
    });
    Ok(())
}

/// Ends a pause.
pub async fn resume(PauseTarget { part, scope, reason, format }: PauseTarget, context: &AdminContext<'_>) -> Done {
    let (scope, now) = (PausedFor::from(scope), context.clock.now());
    let target = ServicePause::target(part, &scope);
    let in_force = context.store.service_pauses(now).await.map_err(Failure::caused)?;
    let found = in_force.iter().find(|pause| pause.part == part && pause.scope == scope);
    let acting = context.acting(by_shell(ActKind::PauseEnd).on("pause", &target).because(Some(reason)));
    // Without a pause the act is recorded as refused: no pause has the id of a new act.
    let id = found.map_or(acting.id, |pause| pause.id);
    pauses::end(&acting, id, now).await.map_err(refused)?;
    output::show(format.json, &json!({ "id": id, "resumed": target }), || {
        format!("{target} continues within a second or two")
    });
    Ok(())
}

/// Lists the pauses in force.
pub async fn list(format: OutputFormat, context: &AdminContext<'_>) -> Done {
    let found = pauses::list(&context.store, context.clock.now()).await.map_err(Failure::caused)?;
    let rows: Vec<Value> = found.iter().map(|pause| json!(pause)).collect();
    output::list(format.json, &rows, &["part", "scope", "until", "set_by", "reason"]);
    Ok(())
}
