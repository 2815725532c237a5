//! `/console/held`: held events, released and discarded in bulk.

use axum::extract::State;
use axum::response::Response;
use domain::held::HoldReason;
use serde::Deserialize;
use wire::ops::{HeldPage, HeldShown};

use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, FilterField, PageSection, Row, SectionPage, TableCell, Trouble, question,
};

const HERE: &str = "/console/held";

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HeldPageQuery {
    held_for: String,
    sender: String,
    before: String,
}

/// `GET /console/held`: held events, newest first.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(HeldPageQuery { held_for, sender, before }): ConsoleQuery<HeldPageQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let conditions = [("reason", held_for.as_str()), ("sender", &sender), ("before", &before)];
    let conditions: Vec<(&str, &str)> = conditions.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let HeldPage { held, next } = state.api.get(&operator, &format!("/held?{}", query(&conditions))).await?;
    let filter = [("held_for", held_for.as_str()), ("sender", sender.as_str())];
    let here = format!("{HERE}?{}", query(&filter));
    let row = |event: &HeldShown| {
        let id = event.id.to_string();
        Row::new([
            TableCell::mono(event.event_type.as_deref().unwrap_or("–")),
            TableCell::from(event.reason.as_str()),
            TableCell::from(event.detail.as_str()),
            TableCell::mono(event.sender.as_str()).to(format!("{HERE}?{}", query(&[("sender", &event.sender)]))),
            TableCell::moment(Some(&event.received_at), now),
        ])
        .tick(id)
    };
    let ticks: &[(&str, &str)] = if operator.may_change {
        &[("held_release", "Release ticked…"), ("held_discard", "Discard ticked…")]
    } else {
        &[]
    };
    let columns = ["Event", "Held for", "Detail", "Sender", "Received"];
    let choice = |name, label, value: &str, choices| FilterField { name, label, value: value.to_owned(), choices };
    let reasons = HoldReason::NAMES.iter().map(|reason| (*reason).to_owned()).collect();
    let next = next.map(|next| format!("{HERE}?{}", query(&[filter[0], filter[1], ("before", &next.to_string())])));
    let mut section = PageSection::default()
        .filters(vec![
            choice("held_for", "Held for", &held_for, reasons),
            choice("sender", "Sender", &sender, Vec::new()),
        ])
        .table(&columns, held.iter().map(row).collect(), "No event is held.")
        .ticks(ticks, &here)
        .next(next);
    let is_filtered = !held_for.is_empty() || !sender.is_empty();
    if is_filtered && !held.is_empty() {
        section = section
            .link(question(&operator, "Release all that match…", "held_release", &filter, &here))
            .link(question(&operator, "Discard all that match…", "held_discard", &filter, &here));
    }
    let lead = "Events that wait for a decision. Filter by reason or sender to end all that match.";
    Ok(SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Held events", lead).section(section).shown())
}
