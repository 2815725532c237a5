//! What a person is shown so that they confirm something in their browser (a link, a code, a picture of the link), and the wait until they do.

use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::Error;
use domain::Timestamp;
use tokio::signal::unix::Signal;

use super::terminal::{FAINT, STRONG};
use super::{Failure, output, terminal};

/// How to show it, and how long to stay.
#[derive(Debug, Clone, Copy, Args)]
pub struct PromptArgs {
    /// The link as a QR code, to be photographed
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Qr::Auto)]
    qr: Qr,
    /// Show link and code and come back at once; the same command waits for the answer later
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Qr {
    /// In a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a person is asked.
#[derive(Debug)]
pub struct ApprovalPrompt<'i> {
    /// Why they are to open the link.
    pub purpose: &'i str,
    /// The page, with what is needed in it.
    pub link: &'i str,
    /// What to do with the code.
    pub code_is_to: &'i str,
    /// The code.
    pub code: &'i str,
    /// Until when it works.
    pub until: Timestamp,
}

/// How a wait ended.
#[derive(Debug)]
pub enum WaitOutcome<T> {
    /// The server answered.
    Answered(Result<T, Error>),
    /// The person at the terminal had enough (Ctrl-C).
    Interrupted,
}

/// What was shown, until it is answered.
#[derive(Debug)]
pub struct Shown {
    until: Timestamp,
    interrupts: Signal,
}

impl ApprovalPrompt<'_> {
    /// Shows it: on standard output, or beside the JSON.
    pub fn show(&self, json: bool, showing: PromptArgs) -> Result<Shown, Failure> {
        // Watched before anything is seen, so that whoever sees it can interrupt.
        let interrupts = terminal::interrupts()?;
        let styled = |style, words: &str| if json { words.to_owned() } else { terminal::styled(style, words) };
        let Self { purpose, link, code_is_to, code, until } = self;
        let (link_shown, code_shown) = (styled(STRONG, link), styled(STRONG, code));
        let until = styled(FAINT, &format!("Both work until {}.", until.format("%H:%M UTC")));
        output::tell(
            json,
            &format!("{purpose}, open\n\n  {link_shown}\n\n{code_is_to}\n\n  {code_shown}\n\n{until}\n"),
        );
        let pictured = match showing.qr {
            Qr::Auto => terminal::is_watched() && !json,
            Qr::Always => true,
            Qr::Never => false,
        };
        let fits = |picture: &String| showing.qr == Qr::Always || terminal::fits(picture);
        if let Some(picture) = terminal::qr_code(link).filter(|_| pictured).filter(fits) {
            output::tell(json, &format!("{picture}\n"));
        }
        Ok(Shown { until: self.until, interrupts })
    }
}

impl Shown {
    /// Turns a spinner with the time that is left, until the answer is there or the person interrupts.
    pub async fn wait<T>(
        mut self,
        words: &str,
        now: Timestamp,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> WaitOutcome<T> {
        let left = (self.until - now).to_std().unwrap_or(Duration::ZERO);
        let spinner = terminal::countdown(words, left);
        let answer = pin!(answer);
        let waited = tokio::select! {
            answer = answer => WaitOutcome::Answered(answer),
            _ = self.interrupts.recv() => WaitOutcome::Interrupted,
        };
        spinner.finish_and_clear();
        waited
    }
}
