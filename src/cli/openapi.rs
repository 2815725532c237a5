//! `attache openapi`: prints the machine-readable description of a server with this configuration.

use super::output;
use crate::config::{Settings, Urls};
use crate::http;

/// Prints it.
pub fn print(settings: &Settings) {
    let urls = Urls::configured(settings, settings.http.bind, settings.knowledge.bind);
    output::say(&format!("{:#}", http::description(settings, &urls).document));
}
