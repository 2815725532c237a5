//! The process that reads pages and PDFs: whether it starts, and what this system keeps from it.

use super::Finding;
use crate::app::extractor;
use crate::config::Settings;

const SANDBOX: &str = "sandbox";

pub(super) async fn look(settings: &Settings) -> Finding {
    let advice = "pages and PDFs are not read until this works: is knowledge.worker right?";
    let extractor = match extractor(&settings.knowledge) {
        Ok(extractor) => extractor,
        Err(error) => return Finding::bad(SANDBOX, error, advice),
    };
    match extractor.probe().await {
        Ok(confinement) if confinement.is_complete() => Finding::good(SANDBOX, confinement.to_string()),
        Ok(confinement) => {
            let advice = "pages and PDFs are read with limits of memory and time alone: use a kernel, or a container runtime, with \
                          Landlock (Linux 5.13) and seccomp";
            Finding::doubtful(SANDBOX, confinement.to_string(), advice)
        }
        Err(error) => Finding::bad(SANDBOX, error, advice),
    }
}
