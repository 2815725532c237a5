//! Lists the objects of a log in its archive.

use object_store::path::Path;
use proofs::merkle::tile::TilePath;
use serde_json::Value;

use super::{Archived, EVENTS, folder_of_key};
use crate::archive::Archive;
use crate::log::error::LogError;
use crate::log::handle::Log;

/// The objects of a log in its archive.
#[derive(Debug, Default)]
pub struct ArchiveSurvey {
    /// Number of its objects.
    pub objects: u64,
    /// Size of its objects in bytes.
    pub bytes: u64,
    /// Objects that belong to no event of the log, as a restore leaves them.
    pub strays: Vec<Path>,
}

impl Log {
    /// Whether the archive has the last bundle that was written; fails if it does not.
    #[boxed]
    pub async fn reach_archive(&self) -> Result<Archived, LogError> {
        let state = self.archived().await?;
        if let Some(archive) = &self.archive {
            self.is_own(archive, &state).await?;
        }
        Ok(state)
    }

    /// Lists the objects of this log. Objects of events that wait for a pass are no strays.
    #[boxed]
    pub async fn survey_archive(&self) -> Result<ArchiveSurvey, LogError> {
        let mut survey = ArchiveSurvey::default();
        let Some(archive) = &self.archive else { return Ok(survey) };
        // Another installation may have a log of the same name in this archive.
        let own = |key: &Value| folder_of_key(key["vkey"].as_str()?);
        let own: Vec<String> = self.key_list().await?.iter().filter_map(own).collect();
        let parent = own.first().and_then(|own| own.rsplit_once('/')).map_or("", |(parent, _)| parent);
        let objects = archive.list(parent).await?;
        let state = self.archived().await?;
        for (object, bytes) in objects {
            let Some((folder, rest)) = in_folder(archive, &object, &own) else { continue };
            if is_expected(&state, &folder, &rest) {
                survey.objects += 1;
                survey.bytes += bytes;
            } else {
                survey.strays.push(object);
            }
        }
        Ok(survey)
    }
}

/// The folder of an object and its name there, if the folder is one of these, or was made for a restored log.
fn in_folder(archive: &Archive, object: &Path, own: &[String]) -> Option<(String, String)> {
    let within = archive.within_prefix(object)?;
    let (rest, of_own) = own.iter().find_map(|own| Some((within.strip_prefix(own)?, own)))?;
    let (suffix, object) = rest.split_once('/')?;
    (suffix.is_empty() || suffix.starts_with('.')).then(|| (format!("{of_own}{suffix}"), object.to_owned()))
}

/// Whether a log with this progress has, or will have, an object of this name in a folder.
fn is_expected(state: &Archived, folder: &str, object: &str) -> bool {
    let tile = match object.split_once('/') {
        Some(("bodies", path)) => format!("0/{path}").parse(),
        Some(("tile", path)) => path.parse::<TilePath>(),
        _ => return false,
    };
    let Ok(TilePath { id, partial: None }) = tile else { return false };
    // The bundle with which the tile is full.
    let bundles = EVENTS.checked_pow(id.level.into()).and_then(|width| width.checked_mul(id.index + 1));
    let Some(bundles) = bundles.filter(|bundles| bundles.saturating_mul(EVENTS) <= state.leaves) else { return false };
    state.folder_of(bundles - 1) == Some(folder) || state.folders.is_empty()
}
