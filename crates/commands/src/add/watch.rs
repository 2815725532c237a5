//! Follows the event stream of one batch: with a progress bar in a terminal, else with one line per item.

use client::Error;
use client::stream::BatchStream;
use domain::foreign::visible;
use indicatif::ProgressBar;
use tokio::signal::unix::Signal;
use wire::knowledge::BatchMessage;

use super::report::{Failed, Report, Skipped};
use crate::connection::failed;
use crate::failure::{Done, Failure};
use crate::{output, terminal};

/// Follows the stream until the batch ends or Ctrl-C is pressed.
pub async fn watch(
    mut stream: BatchStream,
    label: &str,
    is_json: bool,
    interrupts: &mut Signal,
    report: &mut Report,
) -> Done {
    let batch = stream.batch();
    report.batches.push(batch);
    let mut shown = Shown { label, bar: None, is_json };
    if !is_json && !terminal::has_bars() {
        output::print(&format!("{label}batch {batch}"));
    }
    let ended = loop {
        let message = tokio::select! {
            message = stream.next() => message,
            _ = interrupts.recv() => break Err(Failure::refused(left("interrupted", &batch.to_string()))),
        };
        match message {
            None => break Ok(()),
            Some(Ok(message)) => {
                if let Err(reason) = shown.message(message, report) {
                    break Err(Failure::refused(reason));
                }
            }
            Some(Err(error @ (Error::Broken { .. } | Error::Unreachable { .. }))) => {
                let failure = failed(error);
                let reason = left(failure.reason(), &batch.to_string());
                break Err(failure.with_reason(reason));
            }
            Some(Err(error)) => break Err(failed(error)),
        }
    };
    if let Some(bar) = &shown.bar {
        bar.finish_and_clear();
    }
    ended
}

fn left(why: &str, batch: &str) -> String {
    format!(
        "{why}\n  batch {batch} continues on the server: follow it with `attache add --join {batch}`, or cancel it with \
         `attache add --cancel {batch}`"
    )
}

struct Shown<'l> {
    label: &'l str,
    /// Set once the number of items is known.
    bar: Option<ProgressBar>,
    is_json: bool,
}

impl Shown<'_> {
    /// Prints a message and adds it to the report; `Err` with the reason if the server ended the batch early.
    fn message(&mut self, message: BatchMessage, report: &mut Report) -> Result<(), String> {
        match message {
            BatchMessage::Progress { processed, total } => {
                if self.bar.is_none() {
                    self.bar = terminal::bar(total, self.label);
                }
                if let Some(bar) = &self.bar {
                    bar.set_position(processed);
                }
            }
            BatchMessage::Success { id, url, .. } => {
                let name = url.clone();
                let line = report.add(id, url);
                self.item(&line, &name, false);
            }
            BatchMessage::Skipped { index, url, reason } => {
                let skipped = Skipped { index, url, reason };
                self.item(&skipped.line(), skipped.url.as_deref().unwrap_or("skipped"), true);
                report.skipped.push(skipped);
            }
            BatchMessage::Error { message, fatal: true, .. } => {
                return Err(format!("the server ended the batch: {message}"));
            }
            BatchMessage::Error { index, url, title, error, message, .. } => {
                let failed = Failed { index, url, title, error, message };
                let name = failed.url.as_deref().or(failed.title.as_deref()).unwrap_or("failed");
                self.item(&failed.line(), name, true);
                report.failed.push(failed);
            }
            BatchMessage::Complete | BatchMessage::Unknown => {}
        }
        Ok(())
    }

    /// Prints an item. With a progress bar, a successful item only appears next to the bar.
    fn item(&self, line: &str, name: &str, stays: bool) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(visible(name));
                if stays {
                    bar.println(line);
                }
            }
            None if !self.is_json => output::print(line),
            None => {}
        }
    }
}
