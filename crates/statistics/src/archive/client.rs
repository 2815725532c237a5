//! The HTTP client of the archive: built as for every other connection of this server.

use std::time::Duration;

use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use reqwest::redirect;

/// Connects as [`http_client::builder`] does.
#[derive(Debug)]
pub struct Connector {
    /// Longest time without a byte.
    pub silent_after: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = http_client::builder().read_timeout(self.silent_after).redirect(redirect::Policy::none()).build();
        let client = client.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
        Ok(HttpClient::new(client))
    }
}
