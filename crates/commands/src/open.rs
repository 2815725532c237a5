//! `attache open`: opens a page of the server in the browser, or prints its address if there is no browser.

use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use domain::foreign::visible;
use serde_json::json;

use crate::connection::Remote;
use crate::failure::Done;
use crate::output;

/// Options of `attache open`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The page
    #[arg(value_enum, default_value_t = Page::Account)]
    page: Page,
    /// Print the address and open nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Page {
    Home,
    Account,
    Activity,
    Consent,
    Access,
    Knowledge,
    Device,
    Docs,
}

impl Page {
    fn path(self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Account => "/account",
            Self::Activity => "/account/activity",
            Self::Consent => "/account/consent",
            Self::Access => "/account/access",
            Self::Knowledge => "/knowledge",
            Self::Device => "/device",
            Self::Docs => "/docs",
        }
    }
}

/// Opens the page; sends no request.
pub fn open(arguments: &Arguments) -> Done {
    let connection = arguments.remote.open()?;
    let address = format!("{}{}", connection.client.base_url().trim_end_matches('/'), arguments.page.path());
    let is_open = !arguments.print && open_in_browser(&address);
    output::show(connection.json, &json!({ "url": address, "opened": is_open }), || address.clone());
    Ok(())
}

/// Whether the text is an address of a page, without characters that a terminal interprets or hides.
pub fn is_web_address(text: &str) -> bool {
    let is_web = |url: reqwest::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    reqwest::Url::parse(text).is_ok_and(is_web) && visible(text) == text && !text.contains(char::is_whitespace)
}

/// Opens a web address in the browser of this computer; `false` if there is none, or if it is another address.
pub fn open_in_browser(address: &str) -> bool {
    if !is_web_address(address) {
        return false;
    }
    let is_there = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = match std::env::var_os("BROWSER").filter(|program| !program.is_empty()) {
        Some(program) => program,
        None if cfg!(target_os = "macos") => "open".into(),
        // Without a desktop, xdg-open would start a text browser.
        None if is_there("DISPLAY") || is_there("WAYLAND_DISPLAY") => "xdg-open".into(),
        None => return false,
    };
    let mut browser = Command::new(program);
    let browser = browser.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut started) = browser.spawn() else { return false };
    // A browser may stay in the foreground; the command does not wait for it.
    std::thread::spawn(move || started.wait());
    true
}

#[cfg(test)]
mod tests {
    use super::{is_web_address, open_in_browser};

    #[test]
    fn only_pages_are_web_addresses() {
        for right in ["http://127.0.0.1:8080/device", "https://a.example.com/claim?attempt=cat_x&y=%20"] {
            assert!(is_web_address(right), "{right}");
        }
        for wrong in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "/device",
            "",
            "-h",
            "https://",
            "https://a.example/\u{1b}]0;x\u{7}",
            "https://a.example/\u{202e}",
            "https://a.example/\u{9b}2J",
            "https://a.example/a b",
        ] {
            assert!(!is_web_address(wrong) && !open_in_browser(wrong), "{wrong:?}");
        }
    }
}
