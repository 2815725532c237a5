//! `/console/settings`: the settings of this node, and overrides.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use wire::ops::{OverrideList, SettingEntry, SettingList};

use super::nodes::{OVERRIDE_COLUMNS, overridden};
use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, FilterField, PageSection, Row, SectionPage, TableCell, Trouble, question,
};

const HERE: &str = "/console/settings";

/// Columns of [`row`].
pub const COLUMNS: [&str; 5] = ["Setting", "Value", "From", "Default", "Changes"];

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SettingQuery {
    path: String,
    change: String,
}

/// `GET /console/settings`: overrides, then settings by path.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(SettingQuery { path, change }): ConsoleQuery<SettingQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let here = format!("{HERE}?{}", query(&[("path", &path), ("change", &change)]));
    let OverrideList { overrides } = state.api.get(&operator, "/config/overrides").await?;
    let SettingList { settings } = state.api.get(&operator, "/config").await?;
    let matching =
        settings.iter().filter(|entry| entry.path.contains(&path) && (change.is_empty() || entry.change == change));
    let rows = matching.map(|entry| row(entry, &operator, &here)).collect();
    let changes = ["live", "reload", "restart", "never"].map(str::to_owned).to_vec();
    let filters = vec![
        FilterField { name: "path", label: "Path contains", value: path.clone(), choices: Vec::new() },
        FilterField { name: "change", label: "Changes", value: change.clone(), choices: changes },
    ];
    let listed = PageSection::new("Settings").filters(filters).table(&COLUMNS, rows, "No setting matches.");
    let rows = overrides.iter().map(|entry| overridden(entry, &operator, now, &here)).collect();
    let overridden = PageSection::new("Overrides").table(&OVERRIDE_COLUMNS, rows, "No setting is overridden.");
    let lead = "The settings of this node: override < environment < file < default, the first that is there. A live one can be overridden for a time.";
    let view = SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Settings", lead);
    Ok(view.section(overridden).section(listed).shown())
}

/// The row of a setting.
pub fn row(entry: &SettingEntry, operator: &ConsoleOperator, back: &str) -> Row {
    let text = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
    let parameters = [("path", entry.path.as_str()), ("value", &text)];
    let row = Row::new([
        TableCell::mono(entry.path.as_str()),
        TableCell::mono(entry.value.to_string()),
        TableCell::from(entry.source.as_str()),
        TableCell::mono(entry.default.to_string()),
        TableCell::from(entry.change.as_str()),
    ]);
    if entry.change == "live" {
        row.link(question(operator, "Override…", "config_set", &parameters, back))
    } else {
        row
    }
}
