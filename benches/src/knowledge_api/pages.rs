//! Pages to fetch (from the test data, from the machine's documentation, or generated) and their web server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use axum::Router;
use axum::extract::{Path as Target, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::words::Words;
use crate::options::Result;

/// Number of loopback addresses to serve on, because each host is fetched sequentially.
pub const HOSTS: u8 = 8;
/// Larger pages of the machine's documentation are books.
const PAGE_BYTES_MAX: u64 = 60_000;
const PAGE_BYTES_MIN: u64 = 1_000;

/// Writes `count` pages into a folder, named by their numbers; returns them and their source.
pub fn gather(count: usize, folder: &Path, seed: u64) -> Result<(Vec<Vec<u8>>, String)> {
    let mut files: Vec<PathBuf> = Vec::new();
    let data = env::var_os("ATTACHE_TEST_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| "../shared/data".into());
    if let Ok(entries) = fs::read_dir(data.join("readability")) {
        files.extend(entries.flatten().map(|entry| entry.path().join("source.html")).filter(|file| file.is_file()));
    }
    files.sort();
    let found = files.len();
    let mut documentation = Vec::new();
    html_below(Path::new("/usr/share/doc"), 6, &mut documentation);
    documentation.sort();
    files.extend(documentation);
    files.truncate(count);
    let mut pages: Vec<Vec<u8>> = files.iter().map(fs::read).collect::<std::io::Result<_>>()?;
    let read = pages.len();
    let words = Words::new(seed);
    pages.resize_with(count, || made_up(&words).into_bytes());
    for (number, page) in pages.iter().enumerate() {
        fs::write(folder.join(number.to_string()), page)?;
    }
    let found = found.min(read);
    let origin =
        format!("{found} of the web, {} of this machine's documentation, {} made up", read - found, count - read);
    Ok((pages, origin))
}

fn html_below(folder: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() && depth > 0 {
            html_below(&path, depth - 1, into);
        }
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        let is_page = path.extension().is_some_and(|extension| extension == "html");
        if kind.is_file() && is_page && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes) {
            into.push(path);
        }
    }
}

fn made_up(words: &Words) -> String {
    let paragraphs: Vec<String> = (0..10).map(|_| words.text(500)).collect();
    let paragraphs = paragraphs.join("</p>\n<p>");
    let title = words.text(30);
    format!(
        "<!doctype html><html><head><title>{title}</title></head><body><article><h1>{title}</h1><p>{paragraphs}</p></article></body></html>"
    )
}

/// Serves the pages of a folder on one port of [`HOSTS`] addresses until killed. Prints the first address.
pub fn serve(folder: &Path) -> Result<()> {
    let mut pages = Vec::new();
    while let Ok(page) = fs::read(folder.join(pages.len().to_string())) {
        pages.push(Bytes::from(page));
    }
    let router = Router::new().route("/{number}", get(page)).with_state(Arc::new(pages));
    // One thread, because it shares the cores with the measured server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut servers = JoinSet::new();
        let mut port = 0;
        for host in 1..=HOSTS {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).await?;
            port = listener.local_addr()?.port();
            let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
            servers.spawn(axum::serve(listener, router.clone()).into_future());
        }
        println!("{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        while let Some(ended) = servers.join_next().await {
            ended??;
        }
        Ok(())
    })
}

async fn page(State(pages): State<Arc<Vec<Bytes>>>, Target(number): Target<usize>) -> Response {
    match pages.get(number) {
        Some(page) => ([(header::CONTENT_TYPE, "text/html")], page.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
