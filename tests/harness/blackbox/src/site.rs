//! A web site with pages and faults of every kind.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;

/// A running web server.
#[derive(Clone, Default)]
pub struct Site {
    requests: Arc<Mutex<HashMap<String, usize>>>,
    pages: Arc<Mutex<HashMap<String, Bytes>>>,
    gate: Arc<tokio::sync::Notify>,
}

impl Site {
    /// Starts on a free loopback port; returns its address too.
    pub async fn start() -> (Self, SocketAddr) {
        let site = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/{*path}", get(serve)).with_state(site.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (site, address)
    }

    /// Stores a page at a path, or replaces it.
    pub fn put(&self, path: &str, html: impl Into<Bytes>) {
        self.pages.lock().unwrap().insert(path.to_owned(), html.into());
    }

    /// Number of requests for a path, without its slash.
    pub fn requests(&self, path: &str) -> usize {
        self.requests.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// Answers one request for `/gated`, which otherwise waits.
    pub fn open_gate(&self) {
        self.gate.notify_one();
    }
}

fn html(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "text/html")], text.into()).into_response()
}

async fn serve(State(site): State<Site>, Path(path): Path<String>) -> Response {
    let before = {
        let mut requests = site.requests.lock().unwrap();
        let count = requests.entry(path.clone()).or_default();
        *count += 1;
        *count - 1
    };
    if let Some(page) = site.pages.lock().unwrap().get(&path).cloned() {
        return html(page);
    }
    match path.as_str() {
        "robots.txt" => "User-agent: *\nDisallow: /forbidden".into_response(),
        "loop" => Redirect::temporary("/loop").into_response(),
        "away" => Redirect::temporary("http://10.0.0.1/").into_response(),
        "moved" => Redirect::permanent("/gated-not").into_response(),
        "gated-not" => html("<title>Moved here</title><p>The page has moved to this place for good.</p>"),
        "broken" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "soon" if before == 0 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "soon" => html("<title>Soon</title><p>The second try found this page about time_limit.</p>"),
        "busy" => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "3600")]).into_response(),
        "gated" => {
            site.gate.notified().await;
            html("<title>Gated</title><p>A page that a test let through the gate.</p>")
        }
        "silent" => std::future::pending().await,
        "huge" => html(vec![b'x'; 3 * 1024 * 1024]),
        "bomb" => {
            let mut response = html(bomb());
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
        "latin" => {
            let page =
                b"<title>Caf\xe9</title><p>Der M\xfcller mahlt das Korn in seiner M\xfchle am Bach.</p>".to_vec();
            ([(header::CONTENT_TYPE, "text/html; charset=iso-8859-1")], page).into_response()
        }
        // The `Content-Type` names no encoding; the page itself names UTF-8.
        "mislabelled" => {
            let page = "<meta charset=utf-8><title>Größe</title><p>Die Größe des Gebäudes überrascht alle Gäste.</p>";
            ([(header::CONTENT_TYPE, "text/html")], page).into_response()
        }
        "image" => ([(header::CONTENT_TYPE, "image/png")], vec![0x89]).into_response(),
        "empty" => html("<title>Nothing</title><p> </p>"),
        "text" => "A plain text about lighthouses and the people who keep them.".into_response(),
        "pdf" => ([(header::CONTENT_TYPE, "application/pdf")], pdf("A printed page about glaciers.")).into_response(),
        "not-a-pdf" => ([(header::CONTENT_TYPE, "application/pdf")], "%PDF-1.4 and then nonsense").into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// 8 MiB of blanks, compressed to a few kilobytes.
fn bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b' '; 8 * 1024 * 1024]).unwrap();
    encoder.finish().unwrap()
}

/// A minimal PDF with one line of text.
fn pdf(text: &str) -> Vec<u8> {
    use std::fmt::Write;
    let content = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (nth, object) in objects.iter().enumerate() {
        places.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", nth + 1).unwrap();
    }
    let start = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for place in places {
        writeln!(file, "{place:010} 00000 n ").unwrap();
    }
    write!(file, "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1).unwrap();
    file.into_bytes()
}
