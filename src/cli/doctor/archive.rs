//! Checks the archive of the log.

use domain::reasons;
use statistics::log::{ArchiveSurvey, Archived, Log};

use super::finding::Finding;

const ARCHIVE: &str = "archive";

/// Number of stray objects that are named.
const STRAYS_MAX: usize = 3;

/// No finding for a log that never had an archive.
pub(super) async fn check(log: &Log, deep: bool) -> Vec<Finding> {
    const ADVICE: &str =
        "correct [log.archive], or start the store: proofs of these events get 424, and pages show their types only";
    let state = match log.reach_archive().await {
        Ok(state) => state,
        Err(error) => return vec![Finding::bad(ARCHIVE, reasons(&error), ADVICE)],
    };
    let Archived { put, removed, leaves, .. } = &state;
    let text = format!("it has the bodies of {put} of {leaves} events; {removed} have left the database");
    if log.archive().is_none() {
        let unset = Finding::bad(ARCHIVE, format!("{text}, and log.archive.url is not set"), ADVICE);
        return if *removed > 0 { vec![unset] } else { Vec::new() };
    }
    let mut findings = vec![Finding::good(ARCHIVE, text)];
    if deep {
        findings.push(match log.survey_archive().await {
            Ok(ArchiveSurvey { objects, bytes, strays }) if strays.is_empty() => Finding::good(
                ARCHIVE,
                format!("it has {objects} objects with {bytes} bytes, all of events of this log"),
            ),
            Ok(ArchiveSurvey { strays, .. }) => {
                let named: Vec<&str> = strays.iter().take(STRAYS_MAX).map(AsRef::as_ref).collect();
                let text =
                    format!("{} objects belong to no event of this log, such as {}", strays.len(), named.join(", "));
                Finding::doubtful(
                    ARCHIVE,
                    text,
                    "a restored log leaves them: delete them in the store when the lost events are not needed",
                )
            }
            Err(error) => Finding::bad(ARCHIVE, reasons(&error), ADVICE),
        });
    }
    findings
}
