//! SIGHUP: other servers reload their configuration. This one only reads it at the start, and reports the settings that a restart would
//! change.

use std::path::{Path, PathBuf};

use tokio::signal::unix::Signal;

use app::config::{Settings, load};

/// Reports at each signal, until the task is dropped.
pub async fn watch(mut hangup: Signal, file: Option<PathBuf>, running: Settings) {
    while hangup.recv().await.is_some() {
        report(file.as_deref(), &running);
    }
}

fn report(file: Option<&Path>, running: &Settings) {
    const IS_KEPT: &str = "SIGHUP: the configuration is read at the start only, so nothing has changed";
    let reloaded = match load(file, std::env::vars()) {
        Ok(reloaded) => reloaded,
        Err(problems) => {
            for problem in problems.0 {
                tracing::warn!(%problem, "{IS_KEPT}; the next start will be refused");
            }
            return;
        }
    };
    match running.differences(&reloaded) {
        Ok(differing) if differing.is_empty() => tracing::info!("{IS_KEPT}; it is the same as at the start"),
        Ok(differing) => tracing::warn!(settings = differing.join(", "), "{IS_KEPT}; a restart applies these settings"),
        Err(error) => tracing::warn!(error = domain::reasons(&error), "{IS_KEPT}; it cannot be compared"),
    }
}
