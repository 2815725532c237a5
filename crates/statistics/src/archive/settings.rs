//! `[log.archive]`, and the store that it names.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::client::ClientOptions;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::client::Connector;

/// Requests that are sent again after a failure; a pass or a reader tries again later in any case.
const RETRIES_MAX: usize = 2;

/// `[log.archive]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ArchiveSettings {
    pub url: Option<String>,
    pub endpoint: Option<String>,
    pub region: String,
    pub access_key: Option<String>,
    pub secret_key: Option<String>,
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    pub cache_bytes: u64,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            region: "us-east-1".to_owned(),
            access_key: None,
            secret_key: None,
            keep: Duration::from_hours(30 * 24),
            timeout: Duration::from_secs(10),
            cache_bytes: 64 << 20,
        }
    }
}

impl ArchiveSettings {
    /// The store at `url`, and the path within it. The error names the fault of the settings.
    pub(super) fn store(&self, url: &str) -> Result<(Arc<dyn ObjectStore>, Path), String> {
        let parsed = Url::parse(url).map_err(|error| format!("is not a URL: {error}"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
            return Err("must have neither a user nor a query: see access_key and secret_key".to_owned());
        }
        let prefix = Path::from_url_path(parsed.path()).map_err(|error| error.to_string())?;
        match parsed.scheme() {
            "file" if parsed.host_str().is_none_or(str::is_empty) => {
                Ok((Arc::new(LocalFileSystem::new().with_fsync(true)), prefix))
            }
            "s3" => Ok((Arc::new(self.bucket(&parsed)?), prefix)),
            _ => Err("must be s3://BUCKET/FOLDER or file:///FOLDER".to_owned()),
        }
    }

    fn bucket(&self, url: &Url) -> Result<object_store::aws::AmazonS3, String> {
        let bucket = url.host_str().filter(|bucket| !bucket.is_empty()).ok_or("must name a bucket")?;
        let is_plain = self.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let retry =
            RetryConfig { backoff: BackoffConfig::default(), max_retries: RETRIES_MAX, retry_timeout: self.timeout };
        // Without keys, the environment of AWS gives them: variables, a role of the machine or of the container.
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_region(&self.region)
            .with_retry(retry)
            .with_client_options(ClientOptions::new().with_allow_http(is_plain))
            // Single operations have `timeout`; a list of many objects takes longer.
            .with_http_connector(Connector { silent_after: 2 * self.timeout });
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
        }
        match (&self.access_key, &self.secret_key) {
            (Some(access), Some(secret)) => {
                builder = builder.with_access_key_id(access).with_secret_access_key(secret);
            }
            (None, None) => {}
            _ => return Err("needs both access_key and secret_key, or neither".to_owned()),
        }
        builder.build().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Archive;

    fn refused(change: impl FnOnce(&mut ArchiveSettings)) -> String {
        let mut settings = ArchiveSettings { url: Some("s3://bucket/folder".to_owned()), ..ArchiveSettings::default() };
        change(&mut settings);
        Archive::open(&settings).unwrap_err()
    }

    #[test]
    fn settings_that_name_no_store_are_refused_in_words() {
        let of = |url: &str| refused(|settings| settings.url = Some(url.to_owned()));
        assert!(of("folder").contains("is not a URL"));
        assert!(of("https://example.com/folder").contains("must be s3://BUCKET/FOLDER or file:///FOLDER"));
        assert!(of("file://host/folder").contains("must be s3://"));
        assert!(of("s3:///folder").contains("must name a bucket"));
        assert!(of("s3://name:secret@bucket/folder").contains("neither a user nor a query"));
        assert!(
            refused(|settings| settings.access_key = Some("key".to_owned())).contains("both access_key and secret_key")
        );
        assert_eq!(Archive::open(&ArchiveSettings::default()).map(|archive| archive.is_none()), Ok(true));
    }
}
