//! `/console/log`: the embedded event log of this node.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use wire::ops::LogState;

use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{ConsoleFrame, PageSection, SectionPage, TableCell, Trouble};

const HERE: &str = "/console/log";

/// `GET /console/log`: its signed tree, and what waits.
pub async fn show(State(state): State<ConsoleState>, operator: ConsoleOperator) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let section = match state.api.get::<LogState>(&operator, "/log").await {
        Ok(log) => {
            let signer = if log.signs { "this server" } else { "another server, or none" };
            let halted = log.halted.map_or_else(|| TableCell::from("no"), |why| TableCell::badge(why, "is-bad"));
            PageSection::default()
                .fact("Origin", TableCell::mono(log.origin))
                .fact("Signed events", TableCell::number(log.tree_size))
                .fact("Newest checkpoint", TableCell::moment(Some(&log.signed_at), now))
                .fact("Signed by", TableCell::from(signer))
                .fact("Wait for a place", TableCell::number(log.unplaced))
                .fact("Not in the indexes", TableCell::number(log.unindexed))
                .fact("Halted", halted)
        }
        Err(refused) if refused.status == StatusCode::NOT_FOUND => PageSection::default().lead(refused.error.detail),
        Err(refused) => return Err(refused.into()),
    };
    let lead =
        "The signed log of events. An event without a place is acknowledged and durable; the next checkpoint has it.";
    let frame = ConsoleFrame::of(&state, &operator, HERE).await;
    Ok(SectionPage::new(frame, "Log", lead).section(section).shown())
}
