//! An export that a script sends back, a few lines at a time.

use api::HttpState;
use api::knowledge::import::ImportPlaces;
use app::services::knowledge::Memories;
use app::services::knowledge::import::{Imported, LineFault};
use axum::extract::{FromRef, Request, State};
use axum::response::{IntoResponse, Json};
use serde::Deserialize;
use serde_json::json;

use super::{fault, page_error};
use crate::account::AccountOwner;
use crate::{LargeForms, PageError, PageForm, PageResult, Site};

/// The state of this page.
#[derive(Debug, Clone)]
pub struct ImportPages {
    site: Site,
    memories: Memories,
    places: ImportPlaces,
    forms: LargeForms,
}

impl FromRef<HttpState> for ImportPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            memories: FromRef::from_ref(state),
            places: FromRef::from_ref(state),
            forms: FromRef::from_ref(state),
        }
    }
}

/// Some lines of an export.
#[derive(Debug, Deserialize)]
pub struct LinesForm {
    lines: String,
}

/// Faults that a response names.
const FAULTS_SHOWN: usize = 5;

/// `POST /knowledge/import`: `{created, existing, failed, faults}`. Each line is stored before the next, and a repeated line changes nothing.
pub async fn import(State(pages): State<ImportPages>, owner: AccountOwner, request: Request) -> PageResult {
    let site = &pages.site;
    let PageForm(LinesForm { lines }) = pages.forms.read(request, &owner.account).await?;
    let _place = pages.places.take(&owner.account).map_err(PageError::of(site))?;
    let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
    let import = match pages.memories.import(owner.access(), lines.len()).await {
        Ok(import) => import,
        Err(refusal) => {
            let Some(fault) = fault(&refusal) else { return Err(page_error(site, &owner.visitor)(refusal)) };
            return Ok(
                Json(json!({ "created": 0, "existing": 0, "failed": lines.len(), "faults": [fault] })).into_response()
            );
        }
    };
    let (mut created, mut existing, mut failed) = (0_u32, 0_u32, 0_u32);
    let mut faults: Vec<String> = Vec::new();
    for line in lines {
        match import.line(line).await.map_err(page_error(site, &owner.visitor))? {
            Ok(Imported::Created(_)) => created += 1,
            Ok(Imported::Existing(_)) => existing += 1,
            Err(LineFault { message, .. }) => {
                failed += 1;
                if faults.len() < FAULTS_SHOWN {
                    faults.push(message);
                }
            }
        }
    }
    Ok(Json(json!({ "created": created, "existing": existing, "failed": failed, "faults": faults })).into_response())
}
