//! The filtered events as a file: CSV or one JSON object a line, streamed page by page.

use std::error::Error;
use std::fmt;

use api::knowledge::stream::EventStreams;
use app::services::activity::browse::{Activity, ActivityEntry, ActivityFilter, PageOf};
use app::services::knowledge::credential::Credential;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::foreign::csv_cell as cell;
use domain::registry::Tone;
use domain::usage::Day;
use futures_util::stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use statistics::contract::RecordScope;

use super::computers::Computers;
use super::filter::FilterQuery;
use crate::account::AccountOwner;
use crate::{PageError, PageQuery, PageResult, Site};

/// Number of events in one piece of the file.
const PIECE: u16 = 500;

/// The columns of a CSV file.
const COLUMNS: &str = "received_at,event_type,lane,computer,machine_uuid,agent_id,consent_level,chain_epoch,seq,event_id,receipt_id,summary,tone\r\n";

/// `?format=csv`, or NDJSON.
#[derive(Debug, Deserialize)]
pub struct FormatQuery {
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Csv,
    #[default]
    Ndjson,
}

/// `GET /account/activity/export`
pub async fn export(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(streams): State<EventStreams>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<FilterQuery>,
    PageQuery(FormatQuery { format }): PageQuery<FormatQuery>,
) -> PageResult {
    let page_error = PageError::of(&site);
    let place = streams.place(&owner.account).map_err(PageError::of(&site))?;
    let format = format.unwrap_or_default();
    let scope = activity.scope(&owner.account).await.map_err(&page_error)?;
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let left = activity.settings().export_events_max;
    let name = Day::of(site.ports.clock.now());
    let filter = query.filter();
    let begin = Export { activity, scope, filter, computers, format, cursor: None, left, state: Progress::Begun };
    let pieces = stream::unfold(begin, |export| async move { export.next().await });
    let credential = Credential::Session(owner.visitor.session);
    let pieces = streams.guarded(place, credential, pieces, Err(ExportError::SignedOut));
    let (media_type, ending) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::Ndjson => ("application/x-ndjson", "ndjson"),
    };
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"activity-{name}.{ending}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// The rest of an export.
struct Export {
    activity: Activity,
    scope: RecordScope,
    filter: ActivityFilter,
    computers: Computers,
    format: Format,
    cursor: Option<String>,
    /// Maximum number of remaining events.
    left: u32,
    state: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    Running,
    Ended,
}

/// Why a file is incomplete. The connection is aborted, so that a browser does not treat the partial file as complete.
#[derive(Debug)]
enum ExportError {
    Unavailable,
    SignedOut,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "the statistics service did not answer",
            Self::SignedOut => "the session ended",
        })
    }
}

impl Error for ExportError {}

impl Export {
    async fn next(mut self) -> Option<(Result<Bytes, ExportError>, Self)> {
        if self.state == Progress::Ended {
            return None;
        }
        let mut text = String::new();
        if self.state == Progress::Begun && self.format == Format::Csv {
            text.push_str(COLUMNS);
        }
        self.state = Progress::Running;
        let events_max = PIECE.min(u16::try_from(self.left).unwrap_or(PIECE));
        let page = PageOf { is_complete: true, ..PageOf::new(self.cursor.as_deref(), events_max) };
        let found = self.activity.search(&self.scope, &self.filter, &self.computers, page).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(error = domain::reasons(&error), "an export of activity was cut off");
                self.state = Progress::Ended;
                return Some((Err(ExportError::Unavailable), self));
            }
        };
        self.left = self.left.saturating_sub(u32::try_from(found.entries.len()).unwrap_or(u32::MAX));
        for (entry, raw) in &found.entries {
            self.write(entry, raw, &mut text);
        }
        self.cursor = found.next;
        if self.cursor.is_none() {
            self.state = Progress::Ended;
        } else if self.left == 0 {
            self.state = Progress::Ended;
            text.push_str(match self.format {
                Format::Csv => "cut off: there are more events than an export may have\r\n",
                Format::Ndjson => "{\"cut_off\":\"there are more events than an export may have\"}\n",
            });
        }
        Some((Ok(text.into()), self))
    }

    fn write(&self, entry: &ActivityEntry, raw: &RawValue, text: &mut String) {
        if self.format == Format::Ndjson {
            // A line feed only occurs between tokens, where white space has no meaning.
            text.extend(raw.get().chars().filter(|character| !matches!(character, '\n' | '\r')));
            text.push('\n');
            return;
        }
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let computer = entry.machine_uuid.map(|machine| self.computers.name(machine)).unwrap_or_default();
        let machine = entry.machine_uuid.map(|machine| machine.to_string()).unwrap_or_default();
        let cells = [
            entry.received_at.as_deref().unwrap_or_default(),
            &entry.event_type,
            &entry.lane,
            computer,
            &machine,
            &entry.agent_id,
            &entry.consent_level,
            &number(entry.chain_epoch),
            &number(entry.seq),
            &entry.event_id,
            &entry.receipt_id,
            entry.summary.as_deref().unwrap_or_default(),
            entry.tone.map(Tone::as_str).unwrap_or_default(),
        ];
        text.push_str(&cells.map(cell).join(","));
        text.push_str("\r\n");
    }
}
