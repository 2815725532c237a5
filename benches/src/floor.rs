//! The floors: what this machine, this driver and this client do when nothing else is asked of them.

mod disk;

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::serve::ListenerExt;
use clap::ValueEnum;
use domain::envelope::{AgentKinds, Sealed};
use tokio::net::TcpListener;

use crate::Result;

/// A floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Floor {
    /// F1: a handler that answers a fixed small JSON body.
    Bare,
    /// F2: a handler that reads an envelope strictly, canonicalises, hashes, compares, and stores nothing.
    Hash,
    /// F3: group-committed append of 1.1 KB rows through the product's driver and pragmas, without HTTP.
    Disk,
}

impl Floor {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "F1 bare",
            Self::Hash => "F2 hash",
            Self::Disk => "F3 disk",
        }
    }

    /// The command that runs it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Hash => "hash",
            Self::Disk => "disk",
        }
    }

    /// What it answers when all is well; 0 where there is no HTTP.
    pub fn status(self) -> u16 {
        match self {
            Self::Bare => 200,
            Self::Hash => 202,
            Self::Disk => 0,
        }
    }

    /// Serves until killed (F1, F2), or measures and prints (F3).
    pub fn run(self, folder: Option<&Path>, connections: usize, length: Duration) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                // A fallback takes every path, so that a floor can be sent the very bytes that the product is sent.
                Self::Bare => serve(Router::new().fallback(bare)).await,
                Self::Hash => serve(Router::new().fallback(hash)).await,
                Self::Disk => disk::measure(folder.ok_or("the disk floor needs a folder")?, connections, length).await,
            }
        })
    }
}

async fn serve(router: Router) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    // Nothing waits for a fuller packet: the product does the same.
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    Ok(axum::serve(listener, router).await?)
}

async fn bare() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], r#"{"error":"authorization_pending","interval":5}"#)
}

async fn hash(body: Bytes) -> impl IntoResponse {
    const BODY_BYTES_MAX: usize = 256 * 1024;
    let json = [(header::CONTENT_TYPE, "application/json")];
    match Sealed::open(&body, BODY_BYTES_MAX, &AgentKinds::new([])) {
        Ok(sealed) if sealed.seal_is_right() => {
            (StatusCode::ACCEPTED, json, r#"{"receipt_id":"019b76da-a800-7a67-8a14-94a3f41b0634"}"#)
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, json, r#"{"error":"no sealed envelope"}"#),
    }
}
