//! A real mail server: the Python package `aiosmtpd` as a child process.
//!
//! It refuses mails to `nobody@…` permanently, and the first one to `busy@…` temporarily.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::python::{self, Packages};

/// The program, in Python.
const PROGRAM: &str = include_str!("../smtp/server.py");

/// A mail that the server accepted.
#[derive(Debug, Clone)]
pub struct Received {
    /// `MAIL FROM`.
    pub from: String,
    /// `RCPT TO`.
    pub to: Vec<String>,
    /// The mail with its headers.
    pub data: String,
    /// Who had signed in at the server.
    pub user: Option<String>,
}

/// A running mail server; it ends when this is dropped.
#[derive(Debug)]
pub struct MailServer {
    /// Its port on 127.0.0.1.
    pub port: u16,
    mails: Arc<Mutex<Vec<Received>>>,
    process: Child,
}

/// The configuration of the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup<'a> {
    /// The port; any free one when 0.
    pub port: u16,
    /// User and password that it requires.
    pub login: Option<(&'a str, &'a str)>,
}

impl MailServer {
    /// Starts a server. `None` if it is not installed, which is reported on standard error.
    ///
    /// # Panics
    /// When it does not start, or is not installed although it is [`required`](crate::postgres::required).
    #[expect(clippy::expect_used, reason = "without its server a test has nothing to show")]
    pub fn start(setup: Setup<'_>) -> Option<Self> {
        let python = python::with(Packages::Smtp)?;
        let login = setup.login.unzip();
        let argument = json!({ "port": setup.port, "user": login.0, "password": login.1 });
        let mut process = Command::new(python)
            .args(["-c", PROGRAM])
            .arg(argument.to_string())
            // Held open by this process: the child exits when it is closed, for any end of this process.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its standard output is a pipe")).lines();
        let port = lines.next().and_then(Result::ok).and_then(|port| port.parse().ok());
        let port = port.expect("the mail server starts; it says above why it does not");
        let mails = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&mails);
        std::thread::spawn(move || {
            for mail in lines.map_while(Result::ok).filter_map(|line| received(&line)) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
            }
        });
        Some(Self { port, mails, process })
    }

    /// The SMTP address of the server.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// The mails so far.
    pub fn mails(&self) -> Vec<Received> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // Fails only if it has ended already, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn received(line: &str) -> Option<Received> {
    let mail: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| mail[name].as_str().map(str::to_owned);
    let to = mail["to"].as_array()?.iter().filter_map(|to| to.as_str().map(str::to_owned)).collect();
    Some(Received { from: text("from")?, to, data: text("data")?, user: text("user") })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn it_speaks_smtp_and_stores_received_mails() {
        let Some(server) = MailServer::start(Setup::default()) else { return };
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let script = "HELO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<nobody@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n";
        stream.write_all(script.as_bytes()).unwrap();
        stream.write_all(b"Subject: News\r\n\r\nx\r\n.\r\nQUIT\r\n").unwrap();
        let mut responses = String::new();
        stream.read_to_string(&mut responses).unwrap();
        assert!(responses.contains("550 5.1.1") && responses.contains("221 "), "{responses}");
        // The mail is printed before it is acknowledged, but on another pipe.
        while server.mails().is_empty() {
            std::thread::yield_now();
        }
        let mail = &server.mails()[0];
        assert_eq!((mail.from.as_str(), &mail.to[..]), ("a@example.com", &["b@example.com".to_owned()][..]));
        assert!(mail.data.contains("Subject: News"), "{mail:?}");
    }
}
