//! What a person sees in a terminal: colours, spinners and codes to be photographed. Where there is no terminal, plain text.

use std::fmt::Write;
use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use anstyle::{AnsiColor, Color, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;

/// What went well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What did not.
pub const BAD: Style = AnsiColor::Red.on_default();
/// What needs an eye.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// What is to be typed, opened or noticed.
pub const STRONG: Style = Style::new().bold();
/// What is there for completeness.
pub const FAINT: Style = Style::new().dimmed();

/// What is photographed.
const PICTURE: Style = AnsiColor::BrightWhite.on_default().bg_color(Some(Color::Ansi(AnsiColor::Black)));

/// Ctrl-C from now on, so that none is missed between two waits.
pub fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::refused(format!("Ctrl-C cannot be watched: {error}")))
}

/// Whether a person looks at standard output.
pub fn is_watched() -> bool {
    stdout().is_terminal()
}

/// Whether bars and spinners are seen.
pub fn has_bars() -> bool {
    stderr().is_terminal()
}

/// The words in a style; plain where colours are not wanted (`NO_COLOR`, a file, a pipe).
pub fn styled(style: Style, words: impl std::fmt::Display) -> String {
    if anstream::AutoStream::choice(&stdout()) == anstream::ColorChoice::Never {
        words.to_string()
    } else {
        format!("{style}{words}{style:#}")
    }
}

/// Turns on standard error until it is dropped or finished; invisible where no person looks.
pub fn spinner(words: impl Into<String>) -> ProgressBar {
    let target = if has_bars() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let spinner = ProgressBar::with_draw_target(None, target).with_message(words.into());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// The same for something that ends at a moment, with the time that is left.
pub fn countdown(words: impl Into<String>, left: Duration) -> ProgressBar {
    let spinner = spinner(words);
    let shown = move |state: &ProgressState, out: &mut dyn Write| {
        let seconds = left.saturating_sub(state.elapsed()).as_secs();
        // A line that cannot be drawn is drawn again soon.
        let _ = write!(out, "{}:{:02}", seconds / 60, seconds % 60);
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg}, {left} left") {
        spinner.set_style(style.with_key("left", shown));
    }
    spinner
}

/// A bar on standard error, if a person looks.
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

/// Whether a picture is as narrow as the terminal.
pub fn fits(picture: &str) -> bool {
    let width = picture.lines().map(|line| anstream::adapter::strip_str(line).to_string().chars().count()).max();
    width.unwrap_or(0) <= textwrap::termwidth()
}

/// A link as a picture of characters, to be photographed; `None` for one that is too long for a picture.
pub fn qr_code(link: &str) -> Option<String> {
    let code = QrCode::new(link).ok()?;
    // With the quiet zone that readers want, and dark on light whatever the terminal's own colours are, where it has some.
    let picture =
        code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).quiet_zone(true).build();
    let lines: Vec<String> = picture.lines().map(|line| styled(PICTURE, line)).collect();
    Some(lines.join("\n"))
}
