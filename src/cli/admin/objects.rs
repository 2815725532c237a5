//! Lists of objects of all accounts, and changes of one.

use app::objects::ObjectChange;
use clap::Args;
use domain::ids::EventId;
use serde::Serialize;
use serde_json::{Value, json};
use store::StoreError;
use wire::ops::ObjectChanged;

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;

/// An object from a list, and the reason of its change.
#[derive(Debug, Clone, Args)]
pub struct ObjectOptions {
    /// Id from the list
    id: EventId,
    #[command(flatten)]
    because: Because,
    #[command(flatten)]
    format: OutputFormat,
}

/// Prints the rows of a list.
pub fn list<R, E: Serialize>(
    listing: Listing,
    rows: Result<Vec<R>, StoreError>,
    entry: impl Fn(R) -> E,
    columns: &[&str],
) -> Done {
    let rows = rows.map_err(Failure::caused)?;
    let entries: Vec<Value> = rows.into_iter().map(|row| json!(entry(row))).collect();
    output::list(listing.format.json, &entries, columns);
    Ok(())
}

/// Changes an object as an act of the shell. `effect` follows its id in the text that is printed.
pub async fn change(context: &AdminContext<'_>, change: ObjectChange, options: ObjectOptions, effect: &str) -> Done {
    let ObjectOptions { id, because, format } = options;
    let act = by_shell(change.act()).on(change.object(), id).because(because.reason);
    let target = act.target.clone().unwrap_or_default();
    let acting = context.acting(act);
    let give_up_after = context.settings.webhooks.give_up_after;
    let changed = change.apply(&acting.store, id.as_uuid(), give_up_after, context.clock.now()).await;
    if !acting.settle(changed).await.map_err(Failure::caused)? {
        return Err(Failure::not_found(change.refusal()));
    }
    let changed = ObjectChanged { target, act_id: acting.id };
    output::show(format.json, &json!(changed), || format!("{id} {effect}"));
    Ok(())
}
