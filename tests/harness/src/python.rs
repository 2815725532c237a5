//! The packages that tests use from `PyPI`: an environment for each list in `tests/python/`, which `make tools` fills.

use std::path::PathBuf;

use crate::postgres::required;

/// The lists. Each has its own environment, since their versions conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packages {
    /// The official client of A2A.
    A2a,
    /// The dependencies of `sdk/python` and the programs that check it.
    Client,
    /// A parser of feeds.
    Feeds,
    /// The official client of MCP.
    Mcp,
    /// The same, as it was before its second version.
    Mcp1,
    /// The SDK of OpenTelemetry and its exporters over HTTP.
    Otlp,
    /// The program that packs wheels.
    Packages,
    /// PostgreSQL with pgvector.
    Pgvector,
    /// Schemathesis, which generates requests from the description of an HTTP API.
    Schemathesis,
    /// An S3 server.
    Seaweedfs,
    /// A mail server.
    Smtp,
    /// The library of Standard Webhooks.
    Webhooks,
}

impl Packages {
    fn list(self) -> (&'static str, &'static [u8]) {
        match self {
            Self::A2a => ("a2a", include_bytes!("../../python/a2a.txt")),
            Self::Client => ("client", include_bytes!("../../python/client.txt")),
            Self::Feeds => ("feeds", include_bytes!("../../python/feeds.txt")),
            Self::Mcp => ("mcp", include_bytes!("../../python/mcp.txt")),
            Self::Mcp1 => ("mcp-1", include_bytes!("../../python/mcp-1.txt")),
            Self::Otlp => ("otlp", include_bytes!("../../python/otlp.txt")),
            Self::Packages => ("packages", include_bytes!("../../python/packages.txt")),
            Self::Pgvector => ("pgvector", include_bytes!("../../python/pgvector.txt")),
            Self::Schemathesis => ("schemathesis", include_bytes!("../../python/schemathesis.txt")),
            Self::Seaweedfs => ("seaweedfs", include_bytes!("../../python/seaweedfs.txt")),
            Self::Webhooks => ("webhooks", include_bytes!("../../python/webhooks.txt")),
            Self::Smtp => ("smtp", include_bytes!("../../python/smtp.txt")),
        }
    }
}

/// The interpreter that has these packages; their other programs are in the same folder. `None` if it is absent, which is reported on
/// standard error.
///
/// # Panics
/// When it is not there although it is [`required`].
pub fn with(packages: Packages) -> Option<PathBuf> {
    let (name, list) = packages.list();
    let folder = tools::folder(&format!("python-{name}"), list)?;
    let python = folder.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    let missing = format!("no Python packages in {}: `make tools` installs them", folder.display());
    assert!(!required(), "{missing}, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component");
    eprintln!("SKIPPED: {missing}: this test has shown nothing");
    None
}
