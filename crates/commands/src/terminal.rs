//! Terminal output: colours, spinners, progress bars and QR codes. Without a terminal the output is plain text.

use std::fmt::Write;
use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use anstyle::{AnsiColor, Color, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Style of successes.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of failures.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Style of warnings, and the matched words of a search.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// Style of links, codes, names and other text to notice.
pub const STRONG: Style = Style::new().bold();
/// Style of secondary information.
pub const FAINT: Style = Style::new().dimmed();

/// Style of QR codes.
const PICTURE: Style = AnsiColor::BrightWhite.on_default().bg_color(Some(Color::Ansi(AnsiColor::Black)));

/// Starts to listen for Ctrl-C, so that no signal is missed between two waits.
pub fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::refused(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether standard output is a terminal.
pub fn is_watched() -> bool {
    stdout().is_terminal()
}

/// Whether standard error, on which bars and spinners are drawn, is a terminal.
pub fn has_bars() -> bool {
    stderr().is_terminal()
}

/// Text in a style; plain if colours are disabled (`NO_COLOR`, a file, a pipe).
pub fn styled(style: Style, words: impl std::fmt::Display) -> String {
    if has_colours() { format!("{style}{words}{style:#}") } else { words.to_string() }
}

/// Whether standard output has colours: not with `NO_COLOR`, in a file or a pipe, or if `TERM` is `dumb`.
pub fn has_colours() -> bool {
    anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never
}

/// A spinner on standard error until it is dropped or finished; hidden without a terminal.
pub fn spinner(words: impl Into<String>) -> ProgressBar {
    let target = if has_bars() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let spinner = ProgressBar::with_draw_target(None, target).with_message(words.into());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// A spinner with the remaining time.
pub fn countdown(words: impl Into<String>, left: Duration) -> ProgressBar {
    let spinner = spinner(words);
    let draw = move |state: &ProgressState, out: &mut dyn Write| {
        let seconds = left.saturating_sub(state.elapsed()).as_secs();
        // The next tick draws the line again.
        let _ = write!(out, "{}:{:02}", seconds / 60, seconds % 60);
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg}, {left} left") {
        spinner.set_style(style.with_key("left", draw));
    }
    spinner
}

/// A progress bar on standard error; `None` without a terminal.
pub fn bar(length: u64, label: &str) -> Option<ProgressBar> {
    let bar = has_bars().then(|| ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr()))?;
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {prefix}{bar:32.cyan/dim} {pos}/{len}  {wide_msg}")
    {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.set_prefix(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    Some(bar)
}

/// Whether a QR code fits the width of the terminal.
pub fn fits(picture: &str) -> bool {
    let width = picture.lines().map(|line| anstream::adapter::strip_str(line).to_string().chars().count()).max();
    width.unwrap_or(0) <= textwrap::termwidth()
}

/// A link as a QR code of block characters; `None` if the link is too long.
pub fn qr_code(link: &str) -> Option<String> {
    let code = QrCode::new(link).ok()?;
    // Scanners need a quiet zone, and dark modules on a light background.
    let picture =
        code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).quiet_zone(true).build();
    let lines: Vec<String> = picture.lines().map(|line| styled(PICTURE, line)).collect();
    Some(lines.join("\n"))
}
