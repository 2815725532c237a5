//! What a person sees in a terminal: colours, spinners and codes to be photographed. Where there is no terminal, plain text.

use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

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

/// Words from elsewhere, without what a terminal would obey.
pub fn harmless(words: &str) -> String {
    words.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
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

/// A link as a picture of characters, to be photographed; `None` for one that is too long for a picture.
pub fn qr_code(link: &str) -> Option<String> {
    let code = QrCode::new(link).ok()?;
    // Dark on light whatever the terminal's colours are, with the quiet zone that readers want.
    Some(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).quiet_zone(true).build())
}
