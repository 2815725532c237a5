//! The servers that a URL names, in the form of libpq: `postgres://user@h1:p1,h2:p2/db?target_session_attrs=read-write`.
//!
//! A connection is opened to the first server that accepts one and has the required role. The search starts at the last suitable server, so
//! that a server that does not respond delays only one connection.

use std::fmt::Write;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::Error;
use sqlx::postgres::PgConnectOptions;
use sqlx_core::Url;

/// The kind of server that a pool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRole {
    /// A server that accepts writes: not a standby.
    Primary,
    /// A server that replays the log of a primary.
    Standby,
}

/// The servers of one URL.
pub(super) struct Hosts {
    servers: Vec<Server>,
    /// Number of the server that is tried first.
    first: AtomicUsize,
}

/// One server, and its name in messages.
pub(super) struct Server {
    pub(super) options: PgConnectOptions,
    pub(super) name: String,
}

impl Hosts {
    /// Parses a URL. `change` sets the options that a URL does not contain. The error does not contain the password.
    pub(super) fn parse(
        url: &str,
        role: ServerRole,
        change: impl Fn(PgConnectOptions) -> PgConnectOptions,
    ) -> Result<Self, String> {
        let urls = single_urls(url, role)?;
        let mut servers = Vec::with_capacity(urls.len());
        for url in urls {
            let options = PgConnectOptions::from_str(&url).map_err(|error| reason(&error))?;
            let name = match options.get_socket() {
                Some(socket) => socket.display().to_string(),
                None => format!("{}:{}", options.get_host(), options.get_port()),
            };
            servers.push(Server { options: change(options), name });
        }
        Ok(Self { servers, first: AtomicUsize::new(0) })
    }

    pub(super) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The server with this number.
    pub(super) fn at(&self, number: usize) -> &Server {
        &self.servers[number % self.servers.len()]
    }

    /// All numbers, in the order of attempts.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.first.load(Ordering::Acquire), self.servers.len());
        (0..count).map(move |place| (first + place) % count)
    }

    /// Records that a connection to this server failed: the next attempt starts at the next server.
    pub(super) fn failed(&self, number: usize) {
        let next = (number + 1) % self.servers.len();
        // An error means that another attempt has already moved on.
        let _ = self.first.compare_exchange(number, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The names of all servers.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
        names.join(", ")
    }

    /// The error of an attempt at all servers: the error of the only server, the first refusal if all refuse, or all errors with the servers'
    /// names.
    pub(super) fn failure(&self, mut failures: Vec<(usize, Error)>) -> Error {
        let are_refusals = failures.iter().all(|(_, error)| is_refused(error));
        if !failures.is_empty() && (self.count() == 1 || are_refusals) {
            return failures.remove(0).1;
        }
        let mut text = String::new();
        for (number, error) in failures {
            let separator = if text.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{}: {}", self.at(number).name, domain::reasons(&error));
        }
        Error::Io(io::Error::other(text))
    }
}

/// Whether the server knows no such role, password or database; <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub(super) fn is_refused(error: &Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code.starts_with("28") || code == "3D000")
}

/// The reason without the driver's prefixes.
fn reason(error: &Error) -> String {
    error.to_string().replace("error with configuration: ", "")
}

/// One URL for each server of a URL, without the parameters that the driver does not know.
fn single_urls(url: &str, role: ServerRole) -> Result<Vec<String>, String> {
    let scheme = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "postgres" | "postgresql"));
    let (scheme, rest) = scheme.ok_or("it does not begin with postgres://")?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, authority) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    // The driver's parser supports one host only, so the rest of the URL is parsed with each host.
    let parsed = |host: &str| Url::parse(&format!("{scheme}://{user}{host}{tail}")).map_err(|error| error.to_string());
    let mut any = parsed("localhost")?;
    let mut parameters: Vec<(String, String)> = any.query_pairs().into_owned().collect();
    let mut taken = |name: &str| -> Option<String> {
        let value = parameters.iter().rev().find(|(key, value)| key == name && !value.is_empty());
        let value = value.map(|(_, value)| value.clone());
        parameters.retain(|(key, _)| key != name);
        value
    };
    if let Some(wanted) = taken("target_session_attrs") {
        fits(&wanted, role)?;
    }
    let (hosts, address, port) = (taken("host"), taken("hostaddr"), taken("port"));
    let named = address.or(hosts);
    let mut servers: Vec<(String, Option<String>)> = match &named {
        Some(hosts) => hosts.split(',').map(|host| (host.trim().to_owned(), None)).collect(),
        None if authority.is_empty() => Vec::new(),
        None => authority.split(',').map(host_and_port).collect(),
    };
    if let Some(ports) = &port {
        let ports: Vec<&str> = ports.split(',').map(str::trim).collect();
        let count = servers.len().max(1);
        if ports.len() != 1 && ports.len() != count {
            return Err(format!("it has {count} hosts and {} ports", ports.len()));
        }
        if servers.is_empty() {
            parameters.push(("port".to_owned(), ports[0].to_owned()));
        }
        for (place, (_, port)) in servers.iter_mut().enumerate() {
            *port = Some((*ports.get(place).unwrap_or(&ports[0])).to_owned());
        }
    }
    if servers.is_empty() {
        // The default of the environment, such as `PGHOST`.
        any = parsed("")?;
        any.set_query(None);
        add(&mut any, &parameters);
        return Ok(vec![any.into()]);
    }
    let single = |(host, port): &(String, Option<String>)| {
        if host.is_empty() {
            return Err("one of its hosts is empty".to_owned());
        }
        let mut one = any.clone();
        one.set_query(None);
        add(&mut one, &parameters);
        if let Some(port) = port.as_deref().filter(|port| !port.is_empty()) {
            let number: u16 = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
            one.set_port(Some(number)).map_err(|()| format!("{port:?} is not a port"))?;
        }
        if host.starts_with('/') {
            one.query_pairs_mut().append_pair("host", host);
        } else {
            one.set_host(Some(host)).map_err(|error| format!("{host:?}: {error}"))?;
        }
        Ok(one.into())
    };
    servers.iter().map(single).collect()
}

fn add(url: &mut Url, parameters: &[(String, String)]) {
    if !parameters.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
}

/// `host`, `host:port`, `[::1]:port`.
fn host_and_port(text: &str) -> (String, Option<String>) {
    let text = text.trim();
    match text.rsplit_once(':').filter(|(host, _)| !host.contains('[') || host.ends_with(']')) {
        Some((host, port)) => (host.to_owned(), Some(port.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Whether a value of `target_session_attrs` permits this role. Each session is checked in any case.
fn fits(wanted: &str, role: ServerRole) -> Result<(), String> {
    let (is_of_primary, is_of_standby) = match wanted {
        "any" => (true, true),
        "read-write" | "primary" => (true, false),
        "read-only" | "standby" | "prefer-standby" => (false, true),
        _ => return Err(format!("target_session_attrs={wanted:?} is unknown")),
    };
    match role {
        ServerRole::Primary if !is_of_primary => {
            Err(format!("target_session_attrs={wanted} names standbys, which take no writes: use read-write"))
        }
        ServerRole::Standby if !is_of_standby => {
            Err(format!("target_session_attrs={wanted} names the primary, which is no replica: use standby"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(url: &str) -> Result<Vec<String>, String> {
        let hosts = Hosts::parse(url, ServerRole::Primary, |options| options)?;
        Ok(hosts.servers.into_iter().map(|server| server.name).collect())
    }

    #[test]
    fn a_url_names_one_server_or_several() {
        for (url, expected) in [
            ("postgres://u@h1/db", &["h1:5432"][..]),
            ("postgresql://u:p%40@h1:6000/db?sslmode=require", &["h1:6000"]),
            ("postgres://u@h1:1,h2:2,[::1]:3/db?target_session_attrs=read-write", &["h1:1", "h2:2", "[::1]:3"]),
            ("postgres://u@h1,h2:2/db", &["h1:5432", "h2:2"]),
            ("postgres://u@/db?host=h1,h2&port=1,2", &["h1:1", "h2:2"]),
            ("postgres:///db?host=h1%2Ch2&port=7", &["h1:7", "h2:7"]),
            ("postgres:///db?host=/run/a,h2&port=7", &["/run/a", "h2:7"]),
            ("postgres://u@h1/db?hostaddr=10.0.0.1,10.0.0.2", &["10.0.0.1:5432", "10.0.0.2:5432"]),
            ("postgres://%2Frun%2Fa/db", &["/run/a"]),
            ("postgres://user@host:secret@h1:5,h2/db", &["h1:5", "h2:5432"]),
        ] {
            assert_eq!(
                names(url).as_deref(),
                Ok(&expected.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()[..]),
                "{url}"
            );
        }
    }

    #[test]
    fn the_rest_of_the_url_is_that_of_every_server() {
        let url = "postgres://ada:p%2Cw@h1:1,h2:2/db%20one?application_name=x%26y&target_session_attrs=primary&sslmode=disable";
        let hosts = Hosts::parse(url, ServerRole::Primary, |options| options.application_name("attache")).unwrap();
        for server in &hosts.servers {
            let options = &server.options;
            assert_eq!((options.get_username(), options.get_database()), ("ada", Some("db one")));
            assert_eq!(options.get_application_name(), Some("attache"));
            assert!(format!("{options:?}").contains("p,w"));
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_a_reason_and_without_its_password() {
        for (url, part) in [
            ("sqlite://a.db", "does not begin with postgres://"),
            ("h1:5432", "does not begin with postgres://"),
            ("postgres://u:hunter2@h1:x/db", "\"x\" is not a port"),
            ("postgres://u:hunter2@h1:70000,h2/db", "\"70000\" is not a port"),
            ("postgres://u:hunter2@h1,,h2/db", "empty"),
            ("postgres://u:hunter2@/db?host=h1,h2&port=1,2,3", "2 hosts and 3 ports"),
            ("postgres://u:hunter2@h1/db?target_session_attrs=fast", "\"fast\" is unknown"),
            ("postgres://u:hunter2@h1/db?target_session_attrs=standby", "use read-write"),
            ("postgres://u:hunter2@h1/db?sslmode=maybe", "unknown value \"maybe\""),
            ("postgres://u:hunter2@h 1/db", "\"h 1\""),
        ] {
            let refused = names(url).unwrap_err();
            assert!(refused.contains(part) && !refused.contains("hunter2"), "{url}: {refused}");
        }
        let primary =
            Hosts::parse("postgres://h1?target_session_attrs=primary", ServerRole::Standby, |options| options);
        assert!(primary.is_err_and(|refused| refused.contains("use standby")));
    }

    #[test]
    fn a_server_that_failed_is_tried_last() {
        let hosts = Hosts::parse("postgres://h0,h1,h2/db", ServerRole::Primary, |options| options).unwrap();
        assert_eq!(hosts.in_turn().collect::<Vec<_>>(), [0, 1, 2]);
        hosts.failed(0);
        // A concurrent attempt that started at the same server.
        hosts.failed(0);
        assert_eq!(hosts.in_turn().collect::<Vec<_>>(), [1, 2, 0]);
        let failures = vec![(1, Error::PoolTimedOut), (2, Error::PoolClosed)];
        let text = hosts.failure(failures).to_string();
        assert!(text.contains("h1:5432: pool timed out") && text.contains("; h2:5432: "), "{text}");
    }
}
