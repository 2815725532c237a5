//! `attache openapi`: prints the OpenAPI description of a server with this configuration.

use super::output;
use crate::app::Urls;
use crate::config::Settings;
use crate::http::openapi::Description;

/// Prints the document as JSON.
pub fn print(settings: &Settings) {
    let urls = Urls::configured(settings, settings.http.bind, settings.knowledge.bind);
    output::print(&format!("{:#}", Description::new(settings, &urls).document));
}
