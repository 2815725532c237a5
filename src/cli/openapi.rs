//! `attache openapi`: prints the OpenAPI description of a server with this configuration.

use app::config::{Settings, Urls};
use clap::Args;

use crate::admin::ops::description;
use commands::output;

/// Options of `attache openapi`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Describe the operator's API instead
    #[arg(long)]
    ops: bool,
}

/// Prints the document as JSON.
pub fn print(Arguments { ops }: &Arguments, settings: &Settings) {
    if *ops {
        return output::print(&format!("{:#}", description::document(settings)));
    }
    let urls = Urls::configured(settings, settings.http.bind, settings.knowledge.bind);
    output::print(&format!("{:#}", api::description(settings, &urls).document()));
}
