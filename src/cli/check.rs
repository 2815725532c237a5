//! `attache check`: every mistake of the configuration at once, or what the server would do.

use super::output;
use crate::config::Settings;
use crate::server::descriptors;

/// Says what a sound configuration means.
pub fn report(settings: &Settings) {
    let database = match &settings.database.url {
        Some(_) => "PostgreSQL, as database.url says".to_owned(),
        None => format!("SQLite in {}", settings.data.dir.display()),
    };
    let upstream = settings.upstream.url.as_deref().unwrap_or("embedded");
    let base_url = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{}", settings.http.bind));
    output::say(&format!(
        "the configuration is sound\n  listens on  {} (operator: {})\n  base URL    {base_url}\n  database    {database}\n  statistics  {upstream}",
        settings.http.bind, settings.admin.bind
    ));
    if let Some(warning) = descriptors::warning(&settings.http) {
        output::say(&format!("  warning     {warning}"));
    }
}
