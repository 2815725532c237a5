//! Settings of the mail.

use std::time::Duration;

use domain::signin::CODE_SECONDS;
use lettre::Tokio1Executor;
use lettre::message::Mailbox;
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::transport::smtp::authentication::Credentials;
use serde::{Deserialize, Serialize};

/// The kinds of transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// As a file each, for people who try things out on their own machine.
    #[default]
    Files,
    /// To a mail server.
    Smtp,
}

/// `[mail]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct MailSettings {
    pub transport: TransportKind,
    pub from: Option<String>,
    #[serde(with = "humantime_serde")]
    pub drain_every: Duration,
    #[serde(with = "humantime_serde")]
    pub backoff_min: Duration,
    #[serde(with = "humantime_serde")]
    pub backoff_max: Duration,
    #[serde(with = "humantime_serde")]
    pub give_up_after: Duration,
    #[serde(with = "humantime_serde")]
    pub files_kept: Duration,
    pub smtp: SmtpSettings,
}

impl Default for MailSettings {
    fn default() -> Self {
        Self {
            transport: TransportKind::Files,
            from: None,
            drain_every: Duration::from_secs(5),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_mins(30),
            give_up_after: Duration::from_hours(48),
            files_kept: Duration::from_hours(1),
            smtp: SmtpSettings::default(),
        }
    }
}

/// `[mail.smtp]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct SmtpSettings {
    pub url: Option<String>,
    pub username: Option<String>,
    pub password: Option<String>,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self { url: None, username: None, password: None, timeout: Duration::from_secs(10) }
    }
}

impl MailSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let smtp = self.transport == TransportKind::Smtp;
        let url = self.smtp.url.as_deref();
        let mailbox = self.from.as_deref().is_none_or(|from| from.parse::<Mailbox>().is_ok());
        let readable = url.is_none_or(|url| AsyncSmtpTransport::<Tokio1Executor>::from_url(url).is_ok());
        let secret = self.smtp.password.is_some() || url.is_some_and(|url| url.contains('@'));
        let rules = [
            (mailbox, "from", "must be like attache <attache@example.com>"),
            (!smtp || self.from.is_some(), "from", "is needed when mail.transport is \"smtp\""),
            (!smtp || url.is_some(), "smtp.url", "is needed when mail.transport is \"smtp\""),
            (
                readable,
                "smtp.url",
                "must be like smtps://mail.example.com, smtp://mail.example.com?tls=required or smtp://127.0.0.1:25",
            ),
            (
                !secret || !url.is_some_and(is_open),
                "smtp.url",
                "would send the password unencrypted: use smtps://, or ?tls=required",
            ),
            (
                self.smtp.username.is_some() == self.smtp.password.is_some(),
                "smtp.password",
                "and mail.smtp.username are set together or not at all",
            ),
            (!self.smtp.timeout.is_zero(), "smtp.timeout", "must be longer than 0s"),
            (!self.drain_every.is_zero(), "drain_every", "must be longer than 0s"),
            (!self.backoff_min.is_zero(), "backoff_min", "must be longer than 0s"),
            (self.backoff_min <= self.backoff_max, "backoff_min", "must not be longer than mail.backoff_max"),
            (
                self.files_kept >= Duration::from_secs(CODE_SECONDS.unsigned_abs()),
                "files_kept",
                "must be at least 10m: a sign-in code works as long",
            ),
        ];
        let broken = rules.into_iter().filter(|(is_valid, ..)| !is_valid);
        broken.map(|(_, field, rule)| (field.to_owned(), rule.to_owned())).collect()
    }
}

/// Whether nothing makes the connection private: no TLS, or TLS only if the server likes, and a server elsewhere.
fn is_open(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("smtp://") else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let local = ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| host.strip_prefix(name).is_some_and(|port| port.is_empty() || port.starts_with(':')));
    !url.contains("tls=required") && !local
}

/// The way to the mail server, if its URL can be used.
pub(super) fn smtp(settings: &SmtpSettings) -> Option<AsyncSmtpTransport<Tokio1Executor>> {
    let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(settings.url.as_deref()?).ok()?;
    let builder = builder.timeout(Some(settings.timeout));
    Some(match (&settings.username, &settings.password) {
        (Some(username), Some(password)) => {
            builder.credentials(Credentials::new(username.clone(), password.clone())).build()
        }
        _ => builder.build(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> MailSettings {
        MailSettings {
            transport: TransportKind::Smtp,
            from: Some("attache <attache@example.com>".into()),
            smtp: SmtpSettings { url: Some(url.into()), ..SmtpSettings::default() },
            ..MailSettings::default()
        }
    }

    fn fields(settings: &MailSettings) -> Vec<String> {
        settings.problems().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn a_mail_server_needs_an_address_and_a_writer() {
        assert_eq!(fields(&MailSettings::default()), [] as [&str; 0]);
        let bare = MailSettings { transport: TransportKind::Smtp, ..MailSettings::default() };
        assert_eq!(fields(&bare), ["from", "smtp.url"]);
        for url in ["smtp://127.0.0.1:2525", "smtps://mail.example.com", "smtp://mail.example.com:587?tls=required"] {
            assert_eq!(fields(&settings(url)), [] as [&str; 0], "{url}");
        }
        for url in ["mail.example.com", "http://mail.example.com", "smtp://"] {
            assert!(!fields(&settings(url)).is_empty(), "{url}");
        }
        assert_eq!(fields(&MailSettings { from: Some("nobody".into()), ..MailSettings::default() }), ["from"]);
    }

    #[test]
    fn a_password_is_never_sent_in_the_open() {
        assert_eq!(fields(&settings("smtp://ada:secret@mail.example.com")), ["smtp.url"]);
        assert_eq!(fields(&settings("smtp://ada:secret@mail.example.com?tls=opportunistic")), ["smtp.url"]);
        assert_eq!(fields(&settings("smtp://ada:secret@127.0.0.1.example.com")), ["smtp.url"]);
        assert_eq!(fields(&settings("smtp://ada:secret@127.0.0.1:2525")), [] as [&str; 0]);
        assert_eq!(fields(&settings("smtps://ada:secret@mail.example.com")), [] as [&str; 0]);
        let mut half = settings("smtps://mail.example.com");
        half.smtp.username = Some("ada".into());
        assert_eq!(fields(&half), ["smtp.password"]);
    }
}
