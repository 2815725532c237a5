//! The payloads of a page of activity: a sentence for each event, and the search for a text.

use std::collections::HashMap;

use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::registry::{NoNames, Summary};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::pool::query;

use super::error::{During, LogError};
use super::handle::Log;
use super::read::{Cursor, PageQuery, entry};
use super::sql::{ActivityRow, Dialect};
use crate::contract::{EntryFilter, TextFilter};

/// Maximum number of bytes of events that one page reads. An event beyond it gets the sentence of its type, and its payload is not searched.
/// Usual events have 1 KB, so only pages with long contents reach it.
const BYTES_MAX: i64 = 8 * 1024 * 1024;

/// Number of events that a complete page reads at once, because each may have the maximum length.
const COMPLETE_AT_ONCE: usize = 32;

/// The end of the sentence of an event in a complete page whose body the archive has lost.
const LOST: &str = " (its content cannot be read)";

/// The members of an event that its sentence needs.
#[derive(Debug, Deserialize)]
struct Recorded {
    consent_level: ConsentLevel,
    payload: Map<String, Value>,
}

impl Log {
    /// The entries of rows, each with its place, `summary` and `tone`; only the ones that have the text and the tone of a filter. Also the
    /// number of events with a payload that was not compared: it is too long, or the archive has lost it. A complete page has these entries.
    pub(super) async fn summarised(
        &self,
        rows: Vec<ActivityRow>,
        PageQuery { filter, is_complete, .. }: &PageQuery,
    ) -> Result<(Vec<(Cursor, Value)>, u32), LogError> {
        let Some(registry) = &self.registry else {
            return Ok((rows.iter().map(|row| (row.place(), entry(row))).collect(), 0));
        };
        let (mut entries, mut unread) = (Vec::with_capacity(rows.len()), 0);
        let at_once = if *is_complete { COMPLETE_AT_ONCE } else { rows.len().max(1) };
        for rows in rows.chunks(at_once) {
            let recorded = self.recorded(rows, *is_complete).await?;
            for row in rows {
                let event = recorded.get(&row.id);
                let mut summary = match event {
                    Some(event) => registry.summary(&row.event_type, event.consent_level, &event.payload, &NoNames),
                    None => registry.title(&row.event_type),
                };
                let fits = fits(filter, row, event, &summary);
                unread += u32::from(fits.is_none());
                if !fits.unwrap_or(*is_complete) {
                    continue;
                }
                if *is_complete && event.is_none() {
                    summary.text.push_str(LOST);
                }
                let mut entry = entry(row);
                entry["summary"] = json!(summary.text);
                entry["tone"] = json!(summary.tone);
                entries.push((row.place(), entry));
            }
        }
        Ok((entries, unread))
    }

    /// The events of rows by number, newest first; unless all are wanted, as long as they have at most [`BYTES_MAX`] bytes together.
    async fn recorded(&self, rows: &[ActivityRow], is_complete: bool) -> Result<HashMap<i64, Recorded>, LogError> {
        let mut left = if is_complete { i64::MAX } else { BYTES_MAX };
        let mut numbers = Vec::with_capacity(rows.len());
        for row in rows {
            if row.bytes <= left {
                left -= row.bytes;
                numbers.push(row.id);
            }
        }
        if numbers.is_empty() {
            return Ok(HashMap::new());
        }
        let numbers = serde_json::to_string(&numbers).unwrap_or_default();
        let rows = query(Dialect::of(&self.pool).canonical).bind(&numbers).fetch_all(&self.pool);
        let mut rows: Vec<(i64, Vec<u8>)> = rows.await.during("read the payloads of activity")?;
        let bodies = rows.iter_mut().map(|(id, canonical)| (*id, canonical)).collect();
        if is_complete {
            self.fill_patiently(bodies).await?;
        } else {
            self.fill_page(bodies).await?;
        }
        let parsed = |(id, canonical): (i64, Vec<u8>)| Some((id, serde_json::from_slice(&canonical).ok()?));
        Ok(rows.into_iter().filter_map(parsed).collect())
    }
}

/// Whether a page with a filter has an event; `None` if that depends on its payload, which was not read.
fn fits(filter: &EntryFilter, row: &ActivityRow, event: Option<&Recorded>, summary: &Summary) -> Option<bool> {
    if let Some(tone) = filter.tone {
        event?;
        if summary.tone != tone {
            return Some(false);
        }
    }
    match &filter.text {
        Some(text) if !is_in_columns(text, row, summary) => {
            Some(event?.payload.values().any(|value| is_in(&text.text, value)))
        }
        _ => Some(true),
    }
}

fn is_in_columns(wanted: &TextFilter, row: &ActivityRow, summary: &Summary) -> bool {
    let event_id = row.event_id.to_string();
    let title = row.lane.parse().map_or("", |lane: Lane| lane.title());
    let sentence = summary.sentence();
    wanted.machines.contains(&row.machine_id.into())
        || [&row.event_type, &row.lane, title, &row.agent_id, &event_id, &row.consent_level, &sentence]
            .into_iter()
            .any(|field| field.to_lowercase().contains(&wanted.text))
}

/// Whether a text in `value` contains `text`, which is in lower case.
fn is_in(text: &str, value: &Value) -> bool {
    match value {
        Value::String(value) => value.to_lowercase().contains(text),
        Value::Array(values) => values.iter().any(|value| is_in(text, value)),
        Value::Object(members) => members.values().any(|value| is_in(text, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
