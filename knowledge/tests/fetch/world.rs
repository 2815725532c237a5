//! A web server that does what a test says, byte by byte, and remembers who came.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge::fetch::{FetchSettings, Fetcher, Lookup, WebUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does next.
#[derive(Debug, Clone)]
pub enum Act {
    Send(Vec<u8>),
    /// So many zeros, for as long as somebody reads.
    Flood(usize),
    /// Sends nothing more, but keeps the connection.
    Hang,
}

/// An answer with a body of a type.
pub fn page(media_type: &str, body: impl AsRef<[u8]>) -> Vec<Act> {
    answer("200 OK", &[("Content-Type", media_type)], body)
}

pub fn html(body: &str) -> Vec<Act> {
    page("text/html", body)
}

pub fn redirect(to: &str) -> Vec<Act> {
    answer("302 Found", &[("Location", to)], "")
}

pub fn answer(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Act> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    vec![Act::Send([bytes.as_bytes(), body].concat())]
}

type Answers = dyn Fn(&str, usize) -> Vec<Act> + Send + Sync;

#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    busiest: Arc<AtomicUsize>,
}

impl Server {
    /// `answers` is asked with the path and with how often that path was asked for before.
    pub async fn start(answers: impl Fn(&str, usize) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, log: Arc::default(), busiest: Arc::default() };
        let (answers, shared): (Arc<Answers>, _) = (Arc::new(answers), server.clone());
        tokio::spawn(async move {
            let busy = Arc::new(AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, server, busy) = (Arc::clone(&answers), shared.clone(), Arc::clone(&busy));
                tokio::spawn(async move {
                    let now = busy.fetch_add(1, Ordering::SeqCst) + 1;
                    server.busiest.fetch_max(now, Ordering::SeqCst);
                    // The client may hang up whenever it likes.
                    let _ = server.converse(stream, &*answers, &busy).await;
                });
            }
        });
        server
    }

    async fn converse(&self, mut stream: TcpStream, answers: &Answers, busy: &AtomicUsize) -> io::Result<()> {
        let mut head = Vec::with_capacity(16 * 1024);
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            let read = stream.read_buf(&mut head).await;
            // The first byte of TLS, which this server does not speak.
            if read.is_err() || matches!(read, Ok(0)) || head[0] == 0x16 {
                busy.fetch_sub(1, Ordering::SeqCst);
                return stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let before = self.asked(&path);
        self.log.lock().unwrap().push(head);
        let acts = answers(&path, before);
        // Counted down before the last byte: whoever has the whole answer may come again.
        busy.fetch_sub(1, Ordering::SeqCst);
        for act in acts {
            match act {
                Act::Send(bytes) => stream.write_all(&bytes).await?,
                Act::Flood(bytes) => {
                    let zeros = vec![0; 64 * 1024];
                    for _ in 0..bytes.div_ceil(zeros.len()) {
                        stream.write_all(&zeros).await?;
                    }
                }
                Act::Hang => {
                    stream.flush().await?;
                    std::future::pending::<()>().await;
                }
            }
        }
        stream.shutdown().await
    }

    /// How often a path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        let line = format!("GET {path} ");
        self.log.lock().unwrap().iter().filter(|head| head.starts_with(&line)).count()
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn busiest(&self) -> usize {
        self.busiest.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> WebUrl {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// Settings under which this server may be fetched from, without waiting.
    pub fn settings(&self) -> FetchSettings {
        FetchSettings {
            allow_private: vec!["127.0.0.1/32".parse().unwrap()],
            ports: vec![self.address.port()],
            host_interval: Duration::ZERO,
            retries: 0,
            ..FetchSettings::default()
        }
    }

    pub fn fetcher(&self) -> Fetcher {
        fetcher(self.settings())
    }
}

pub fn fetcher(settings: FetchSettings) -> Fetcher {
    fetcher_with(settings, Names::default())
}

pub fn fetcher_with(settings: FetchSettings, names: Names) -> Fetcher {
    Fetcher::new(settings, "http://attache.test", Arc::new(names)).unwrap()
}

/// Names that a test makes up; each look-up takes the next answer, and the last one stays.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    pub fn with(self, host: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.0.lock().unwrap().insert(host.to_owned(), answers);
        self
    }
}

impl Lookup for Names {
    fn addresses(&self, host: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let mut names = self.0.lock().unwrap();
        let found =
            names.get_mut(&host).map(|answers| if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() });
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }
}
