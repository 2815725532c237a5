//! Checks the extraction process: whether it starts, and which restrictions the system enforces.

use app::config::Settings;
use app::extractor;

use super::finding::Finding;

const SANDBOX: &str = "sandbox";

pub(super) async fn check(settings: &Settings) -> Finding {
    let advice = "pages and PDFs cannot be added until this works: check knowledge.worker";
    let extractor = match extractor(&settings.knowledge) {
        Ok(extractor) => extractor,
        Err(error) => return Finding::bad(SANDBOX, error, advice),
    };
    match extractor.probe().await {
        Ok(confinement) if confinement.is_complete() => Finding::good(SANDBOX, confinement.to_string()),
        Ok(confinement) => {
            let advice = "pages and PDFs are extracted with limits of memory and time only: use a kernel, or a container runtime, with \
             Landlock (Linux 5.13) and seccomp";
            Finding::doubtful(SANDBOX, confinement.to_string(), advice)
        }
        Err(error) => Finding::bad(SANDBOX, error, advice),
    }
}
