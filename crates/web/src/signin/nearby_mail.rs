//! The folder of mails, for a person at the computer of the server.
//!
//! With `mail.transport = "files"` a code reaches no mailbox, so the page shows the folder, but only if the request comes from this
//! computer and no other computer can reach the server: the listener and the base URL are loopback, no proxy is configured, and no header
//! shows a proxy.

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::{Path, absolute};

use actors::mail::TransportKind;
use api::HttpState;
use api::connection::Peer;
use api::head::{is_loopback, without_port};
use app::OUTBOX;
use app::config::{Settings, Urls};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HOST, VIA};
use axum::http::request::Parts;

/// The folder, if the page may show it.
#[derive(Debug)]
pub struct NearbyMail(pub Option<MailFolder>);

/// A folder of mails.
#[derive(Debug)]
pub struct MailFolder {
    /// The absolute path.
    pub path: String,
    /// The command that prints the newest mail.
    pub command: String,
}

impl FromRequestParts<HttpState> for NearbyMail {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<Peer>().map(|Peer(peer)| peer.address());
        let is_near = is_private(&state.app.settings, &state.app.urls)
            && peer.is_some_and(|peer| is_from_here(peer, &parts.headers));
        Ok(Self(is_near.then(|| MailFolder::below(&state.app.settings.data.dir))))
    }
}

/// Whether mail is written to files, by a server that only this computer reaches.
fn is_private(settings: &Settings, urls: &Urls) -> bool {
    let host = urls.origin().split("://").nth(1).map_or("", without_port);
    settings.mail.transport == TransportKind::Files
        && settings.http.bind.ip().is_loopback()
        && settings.http.trusted_proxies.is_empty()
        && is_loopback(host)
}

/// Whether a request comes from this computer, with a loopback name as host and without headers of a proxy.
fn is_from_here(peer: IpAddr, headers: &HeaderMap) -> bool {
    let is_trace =
        |name: &str| name.starts_with("x-forwarded") || [FORWARDED.as_str(), VIA.as_str(), "x-real-ip"].contains(&name);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    peer.to_canonical().is_loopback()
        && host.is_some_and(|host| is_loopback(without_port(host)))
        && !headers.keys().any(|name| is_trace(name.as_str()))
}

impl MailFolder {
    fn below(data: &Path) -> Self {
        let folder = data.join(OUTBOX);
        let path = absolute(&folder).unwrap_or(folder).display().to_string();
        let command = format!("cat \"$(ls -t '{}'/*.eml | head -n 1)\"", path.replace('\'', r"'\''"));
        Self { path, command }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn from_here(peer: &str, lines: &[(&str, &str)]) -> bool {
        let line = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        is_from_here(peer.parse().unwrap(), &lines.iter().map(line).collect())
    }

    #[test]
    fn a_request_is_from_here_if_nothing_shows_another_place() {
        let host = ("host", "127.0.0.1:8080");
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(from_here(peer, &[host]), "{peer}");
        }
        assert!(from_here("127.0.0.1", &[("host", "localhost:8080")]));
        assert!(!from_here("192.0.2.1", &[host]));
        assert!(!from_here("127.0.0.1", &[]));
        assert!(!from_here("127.0.0.1", &[("host", "attache.example.com")]));
        for name in ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"] {
            assert!(!from_here("127.0.0.1", &[host, (name, "127.0.0.1")]), "{name}");
        }
    }

    #[test]
    fn the_command_quotes_the_path() {
        let folder = MailFolder::below(Path::new("/home/ada/ada's data"));
        assert_eq!(folder.path, "/home/ada/ada's data/outbox");
        assert_eq!(folder.command, r#"cat "$(ls -t '/home/ada/ada'\''s data/outbox'/*.eml | head -n 1)""#);
    }

    #[test]
    fn a_server_that_others_reach_or_that_sends_mail_is_not_private() {
        let urls = |base: &str| Urls { base: base.into(), rag: base.into() };
        let (own, plain) = (urls("http://127.0.0.1:8080"), Settings::default());
        assert!(is_private(&plain, &own) && is_private(&plain, &urls("http://localhost:8080/attache")));
        assert!(!is_private(&plain, &urls("https://attache.example.com")));
        let changed = |change: fn(&mut Settings)| {
            let mut settings = plain.clone();
            change(&mut settings);
            is_private(&settings, &own)
        };
        assert!(!changed(|settings| settings.mail.transport = TransportKind::Smtp));
        assert!(!changed(|settings| settings.http.bind = "0.0.0.0:8080".parse().unwrap()));
        assert!(!changed(|settings| settings.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()]));
    }
}
