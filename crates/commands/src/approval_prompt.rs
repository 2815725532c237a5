//! Prompts a person to confirm something in their browser, with a link, a code and a QR code, and waits for the result.

use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::Error;
use domain::Timestamp;
use domain::foreign::visible;
use tokio::signal::unix::Signal;

use crate::failure::{Done, Failure};
use crate::open::is_web_address;
use crate::terminal::{FAINT, STRONG};
use crate::{output, terminal};

/// Options of commands that wait for a person.
#[derive(Debug, Clone, Copy, Args)]
pub struct PromptArgs {
    /// Show the link as a QR code
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Qr::Auto)]
    qr: Qr,
    /// Show link and code and exit; run the same command again to wait for the result
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Qr {
    /// If standard output is a terminal and the code fits.
    Auto,
    /// Always, also to files and pipes.
    Always,
    /// Never.
    Never,
}

/// The prompt: link, code and their purpose.
#[derive(Debug)]
pub struct ApprovalPrompt<'i> {
    /// Start of the first sentence, such as "To attach this computer to your account".
    pub purpose: &'i str,
    /// URL of the page, with all parameters.
    pub link: &'i str,
    /// Instruction for the code.
    pub code_is_to: &'i str,
    /// The code to type or compare.
    pub code: &'i str,
    /// Expiry of link and code.
    pub until: Timestamp,
}

/// Result of a wait.
#[derive(Debug)]
pub enum WaitOutcome<T> {
    /// The server returned the final result.
    Answered(Result<T, Error>),
    /// Ctrl-C was pressed.
    Interrupted,
}

/// A printed prompt, ready to wait for the result.
#[derive(Debug)]
pub struct ShownPrompt {
    until: Timestamp,
    interrupts: Signal,
}

impl ApprovalPrompt<'_> {
    /// Prints the prompt: to standard output, or with `--json` to standard error.
    pub fn show(&self, json: bool, showing: PromptArgs) -> Result<ShownPrompt, Failure> {
        // Listen before printing, so that no interrupt is missed.
        let interrupts = terminal::interrupts()?;
        let styled = |style, words: &str| if json { words.to_owned() } else { terminal::styled(style, words) };
        let Self { purpose, link, code_is_to, code, until } = self;
        check_web_address(link)?;
        // The server controls both texts, so control characters are escaped.
        let (link_shown, code_shown) = (styled(STRONG, &visible(link)), styled(STRONG, &visible(code)));
        let until = styled(FAINT, &format!("Both expire at {}.", until.format("%H:%M UTC")));
        output::print_progress(
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
            output::print_progress(json, &format!("{picture}\n"));
        }
        Ok(ShownPrompt { until: self.until, interrupts })
    }
}

/// Refuses a link that a browser or a scanner would not open as a page.
fn check_web_address(link: &str) -> Done {
    if is_web_address(link) {
        return Ok(());
    }
    let text = visible(link);
    Err(Failure::refused(format!(
        "the server returned a link that is no web address: \"{text}\"\n  do not open it; check that --url is the URL of an attache server"
    )))
}

impl ShownPrompt {
    /// Waits for the result or Ctrl-C, with a spinner that shows the remaining time.
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
