//! An export that a script sends back, a few lines at a time.

use actors::ingest::{BatchStreamReader, Repeatable};
use api::HttpState;
use api::knowledge::import::ImportCounts;
use app::services::knowledge::{Batches, Memories};
use axum::extract::{FromRef, Request, State};
use axum::response::{IntoResponse, Json};
use domain::Digest;
use domain::batch::{ItemOutcome, Message};
use serde::Deserialize;
use serde_json::json;

use super::{fault, page_error};
use crate::account::AccountOwner;
use crate::{LargeForms, PageForm, PageResult, Site};

/// The state of this page.
#[derive(Debug, Clone)]
pub struct ImportPages {
    site: Site,
    memories: Memories,
    batches: Batches,
    forms: LargeForms,
}

impl FromRef<HttpState> for ImportPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            memories: FromRef::from_ref(state),
            batches: FromRef::from_ref(state),
            forms: FromRef::from_ref(state),
        }
    }
}

/// Some lines of an export.
#[derive(Debug, Deserialize)]
pub struct LinesForm {
    lines: String,
}

/// Maximum number of faults in a response.
const FAULTS_SHOWN: usize = 5;

/// `POST /knowledge/import`: `{created, existing, failed, faults}`. The lines are also stored if the page is closed, and a repeated line
/// has no effect.
pub async fn import(State(pages): State<ImportPages>, owner: AccountOwner, request: Request) -> PageResult {
    let PageForm(LinesForm { lines }) = pages.forms.read(request, &owner.account).await?;
    let access = owner.access();
    let repeat = Repeatable { key: None, body: Digest::of(lines.as_bytes()) };
    let begun = match pages.memories.lines(&access, &lines).await {
        Ok(checked) => pages.batches.import(&access, checked, repeat).await,
        Err(refusal) => Err(refusal),
    };
    let reader = match begun {
        Ok(reader) => reader,
        Err(refusal) => {
            let Some(fault) = fault(&refusal) else { return Err(page_error(&pages.site, &owner.visitor)(refusal)) };
            let failed = lines.lines().filter(|line| !line.trim().is_empty()).count();
            return Ok(
                Json(json!({ "created": 0, "existing": 0, "failed": failed, "faults": [fault] })).into_response()
            );
        }
    };
    let outcome = outcome(reader).await.map_err(|error| page_error(&pages.site, &owner.visitor)(error.into()))?;
    Ok(Json(outcome).into_response())
}

/// Waits for the end of an import.
async fn outcome(mut reader: BatchStreamReader) -> Result<serde_json::Value, actors::InfraError> {
    let mut faults: Vec<String> = Vec::new();
    let mut counts = ImportCounts::default();
    let counted = |journal: &_, message: &Message<'_>| match message {
        Message::Item { outcome: ItemOutcome::Error { message, .. }, .. } => (None, Some(message.clone())),
        Message::Complete => (Some(ImportCounts::of(journal)), None),
        _ => (None, None),
    };
    while let Some((_, (end, fault))) = reader.next_with(counted).await? {
        faults.extend(fault.filter(|_| faults.len() < FAULTS_SHOWN));
        counts = end.unwrap_or(counts);
    }
    let ImportCounts { created, existing, failed } = counts;
    Ok(json!({ "created": created, "existing": existing, "failed": failed, "faults": faults }))
}
