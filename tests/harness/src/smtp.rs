//! A real mail server: the Python package `aiosmtpd` as a child process.
//!
//! It refuses letters to `nobody@…` for good, and the first one to `busy@…` for now.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::python::{self, Packages};

/// What it is, in Python.
const PROGRAM: &str = include_str!("../smtp/server.py");

/// A letter that the server took.
#[derive(Debug, Clone)]
pub struct Received {
    /// `MAIL FROM`.
    pub from: String,
    /// `RCPT TO`.
    pub to: Vec<String>,
    /// The letter, with its headers.
    pub data: String,
    /// Who had signed in at the server.
    pub user: Option<String>,
}

/// A running mail server; it ends when this is dropped.
#[derive(Debug)]
pub struct MailServer {
    /// Its port on 127.0.0.1.
    pub port: u16,
    letters: Arc<Mutex<Vec<Received>>>,
    process: Child,
}

/// What it is to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup<'a> {
    /// The port; any free one when 0.
    pub port: u16,
    /// User and password that it asks for.
    pub login: Option<(&'a str, &'a str)>,
}

impl MailServer {
    /// Starts a server. `None`, and a word on standard error, when it is not installed.
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
            // Held open by this process, whose end it thereby notices, however that comes.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its standard output is a pipe")).lines();
        let port = lines.next().and_then(Result::ok).and_then(|port| port.parse().ok());
        let port = port.expect("the mail server starts; it says above why it does not");
        let letters = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&letters);
        std::thread::spawn(move || {
            for mail in lines.map_while(Result::ok).filter_map(|line| received(&line)) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
            }
        });
        Some(Self { port, letters, process })
    }

    /// Where the product sends letters.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// What came so far.
    pub fn letters(&self) -> Vec<Received> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    fn it_speaks_smtp_and_tells_what_came() {
        let Some(server) = MailServer::start(Setup::default()) else { return };
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let script = "HELO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<nobody@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n";
        stream.write_all(script.as_bytes()).unwrap();
        stream.write_all(b"Subject: News\r\n\r\nx\r\n.\r\nQUIT\r\n").unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert!(answers.contains("550 5.1.1") && answers.contains("221 "), "{answers}");
        // The letter is told before it is acknowledged, but by another pipe.
        while server.letters().is_empty() {
            std::thread::yield_now();
        }
        let mail = &server.letters()[0];
        assert_eq!((mail.from.as_str(), &mail.to[..]), ("a@example.com", &["b@example.com".to_owned()][..]));
        assert!(mail.data.contains("Subject: News"), "{mail:?}");
    }
}
