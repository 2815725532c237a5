//! The lines that `attache serve` prints when it is ready: one line for scripts, a screen of five lines on a terminal.

use std::path::Path;

use actors::mail::TransportKind;
use app::OUTBOX;
use app::config::Settings;

use crate::server::Server;
use commands::terminal::{FAINT, STRONG, styled};

/// The facts that the start screen shows.
#[derive(Debug)]
pub struct StartScreen {
    base: String,
    operator: String,
    mail: String,
    tour: String,
}

impl StartScreen {
    /// The facts of a server that accepts requests; `file` is its configuration file, if one was named.
    pub fn of(server: &Server, file: Option<&Path>) -> Self {
        let program = std::env::args_os().next().unwrap_or_else(|| "attache".into());
        Self {
            base: server.app.urls.base.clone(),
            operator: format!("http://{}", server.admin_address),
            mail: mail(&server.app.settings),
            tour: tour(&program.to_string_lossy(), file),
        }
    }

    /// The line for scripts, which does not change: `docs/operations.md#starting-and-stopping`.
    pub fn line(&self) -> String {
        format!("attache is ready at {} (operator: {})", self.base, self.operator)
    }

    /// Five lines for a person.
    pub fn screen(&self) -> String {
        let row = |label: &str, value: &str, note: &str| {
            let note = if note.is_empty() { String::new() } else { format!("  {}", styled(FAINT, note)) };
            format!("  {} {value}{note}", styled(FAINT, format!("{label:<9}")))
        };
        let rows = [
            format!("attache is ready: open {}", styled(STRONG, &self.base)),
            row("operator", &self.operator, "health, actors, queues"),
            row("mail", &self.mail, ""),
            row("tour", &self.tour, "in another terminal"),
            row("docs", &format!("{}/docs", self.base), "Ctrl-C stops the server"),
        ];
        rows.join("\n")
    }
}

/// The destination of mails.
fn mail(settings: &Settings) -> String {
    match settings.mail.transport {
        TransportKind::Files => {
            let folder = settings.data.dir.join(OUTBOX);
            format!("written to files in {}, sign-in codes too", folder.display())
        }
        TransportKind::Smtp => {
            // The URL may contain a password.
            let url = settings.mail.smtp.url.as_deref().unwrap_or_default();
            let host = url.split("://").nth(1).unwrap_or(url).split(['/', '?']).next().unwrap_or_default();
            format!("sent by {}", host.rsplit('@').next().unwrap_or_default())
        }
    }
}

/// The command that starts the tour with the configuration of this server, in the same folder.
fn tour(program: &str, file: Option<&Path>) -> String {
    let config = file.map(|file| format!(" --config {}", quoted(&file.to_string_lossy()))).unwrap_or_default();
    format!("{} demo --auto{config}", quoted(program))
}

/// A word of a shell command.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+~".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_has_five_lines_and_the_line_for_scripts_has_one() {
        let screen = StartScreen {
            base: "http://127.0.0.1:8080".into(),
            operator: "http://127.0.0.1:8081".into(),
            mail: mail(&Settings::default()),
            tour: tour("target/release/attache", None),
        };
        assert_eq!(screen.line(), "attache is ready at http://127.0.0.1:8080 (operator: http://127.0.0.1:8081)");
        let text = screen.screen();
        assert_eq!(text.lines().count(), 5, "{text}");
        for part in ["http://127.0.0.1:8080", "8081", "data/outbox", "target/release/attache demo --auto", "8080/docs"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let widest = text.lines().map(|line| anstream::adapter::strip_str(line).to_string().chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 80), "{text}");
    }

    #[test]
    fn the_mail_server_is_shown_without_its_password() {
        let mut settings = Settings::default();
        settings.mail.transport = TransportKind::Smtp;
        for url in ["smtps://ada:secret@mail.example.com", "smtp://mail.example.com?tls=required"] {
            settings.mail.smtp.url = Some(url.into());
            assert_eq!(mail(&settings), "sent by mail.example.com");
        }
    }

    #[test]
    fn the_tour_has_the_configuration_of_the_server_as_words_of_a_shell() {
        assert_eq!(tour("attache", Some(Path::new("my config.toml"))), "attache demo --auto --config 'my config.toml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
