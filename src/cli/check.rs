//! `attache check`: reports all mistakes of the configuration, or the addresses and databases that it results in.

use app::config::Settings;

use crate::server::descriptors;
use commands::output;

/// Prints the effect of a valid configuration.
pub fn report(settings: &Settings) {
    let database = match &settings.database.url {
        Some(_) => "PostgreSQL (database.url)".to_owned(),
        None => format!("SQLite in {}", settings.data.dir.display()),
    };
    let upstream = settings.upstream.url.as_deref().unwrap_or("embedded");
    let base_url = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{}", settings.http.bind));
    output::print(&format!(
        "the configuration is valid\n  listens on  {} (operator: {})\n  base URL    {base_url}\n  database    {database}\n  statistics  {upstream}",
        settings.http.bind, settings.admin.bind
    ));
    if let Some(warning) = descriptors::warning(&settings.http) {
        output::print(&format!("  warning     {warning}"));
    }
    if settings.admin.changes && settings.admin.operator.is_empty() {
        output::print(
            "  warning     admin.changes has no effect at the operator's listener without an [[admin.operator]] with a token",
        );
    }
}
