//! `attache openapi`: prints the OpenAPI description of a server with this configuration.

use app::config::{Settings, Urls};

use super::output;

/// Prints the document as JSON.
pub fn print(settings: &Settings) {
    let urls = Urls::configured(settings, settings.http.bind, settings.knowledge.bind);
    output::print(&format!("{:#}", api::description(settings, &urls).document()));
}
