//! `attache openapi`: prints the OpenAPI description of a server with this configuration.

use super::output;
use crate::config::{Settings, Urls};
use crate::http;

/// Prints the document as JSON.
pub fn print(settings: &Settings) {
    let urls = Urls::configured(settings, settings.http.bind, settings.knowledge.bind);
    output::print(&format!("{:#}", http::description(settings, &urls).document));
}
