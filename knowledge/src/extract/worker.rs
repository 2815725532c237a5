//! Extraction in a process that can be killed.
//!
//! 1. The server starts the program that [`WorkerCommand`] names: itself, with a hidden command that calls [`main`].
//! 2. It writes one line of JSON, the head, and then the bytes; the worker answers with one line of JSON.
//! 3. The worker limits its own memory and processor time before it reads a byte of the content; the server waits no longer than
//!    `timeout`, reads no more than an honest answer has, and kills what has not ended by itself.
//!
//! A worker that dies, of whatever, is `extract_failed` for its own item and nothing else.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::{ExtractError, ExtractSettings, Extracted, Format, extract, short};

/// The program that extracts, and how it is told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// What is started.
    pub program: PathBuf,
    /// With which arguments.
    pub args: Vec<OsString>,
}

impl WorkerCommand {
    /// This very program with these arguments; they have to lead it to [`main`].
    pub fn of_this_program(args: &[&str]) -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, args: args.iter().map(OsString::from).collect() })
    }
}

/// What is to be extracted.
#[derive(Debug, Clone)]
pub struct Source {
    /// The media type, with or without parameters.
    pub media_type: String,
    /// The encoding that the answer's header named.
    pub charset: Option<String>,
    /// Where it came from.
    pub url: Option<String>,
    /// The decoded bytes.
    pub body: Bytes,
}

/// The way in for a server. Clones share the bound on processes.
#[derive(Debug, Clone)]
pub struct Extractor {
    command: WorkerCommand,
    settings: ExtractSettings,
    permits: Arc<Semaphore>,
}

impl Extractor {
    /// An extractor that starts `command` for pages and PDFs.
    pub fn new(command: WorkerCommand, settings: ExtractSettings) -> Self {
        let permits = Arc::new(Semaphore::new(settings.processes_max.max(1)));
        Self { command, settings, permits }
    }

    /// Reads `source`, waiting for its turn first. Dropping the future ends the work.
    pub async fn extract(&self, source: Source) -> Result<Extracted, ExtractError> {
        let _permit = self.permits.acquire().await.map_err(|error| failed(&error))?;
        if Format::of(&source.media_type).is_some_and(Format::is_risky) {
            let ended = tokio::time::timeout(self.settings.timeout, self.in_worker(&source)).await;
            return ended.unwrap_or_else(|_| Err(ExtractError::Failed("it takes too long to read".to_owned())));
        }
        let settings = self.settings.clone();
        let here = move || {
            let Source { media_type, charset, url, body } = source;
            extract(&media_type, charset.as_deref(), &body, url.as_deref(), &settings)
        };
        tokio::task::spawn_blocking(here).await.map_err(|error| failed(&error))?
    }

    async fn in_worker(&self, source: &Source) -> Result<Extracted, ExtractError> {
        let head = Head {
            media_type: source.media_type.clone(),
            charset: source.charset.clone(),
            url: source.url.clone(),
            settings: self.settings.clone(),
        };
        let mut line = serde_json::to_vec(&head).map_err(|error| failed(&error))?;
        line.push(b'\n');
        let mut child = self.start().map_err(|error| failed(&error))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ExtractError::Failed("the worker cannot be reached".to_owned()));
        };
        let write = async {
            // A worker that has stopped reading has its reason, and says it or is dead: what it answers decides.
            let _ = stdin.write_all(&line).await;
            let _ = stdin.write_all(&source.body).await;
            drop(stdin);
        };
        let mut answer = Vec::new();
        let most = answer_bytes_max(&self.settings);
        let mut limited = stdout.take(most);
        let read = async { limited.read_to_end(&mut answer).await };
        tokio::pin!(read);
        // Who has answered, or has said more than is listened to, need not have read everything.
        let read = tokio::select! {
            read = &mut read => read,
            () = write => read.await,
        };
        read.map_err(|error| failed(&error))?;
        let last = answer.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        match serde_json::from_slice(last) {
            Ok(Answer::Extracted(extracted)) => Ok(extracted),
            Ok(Answer::Refused(error)) => Err(error),
            Err(_) => Err(ExtractError::Failed(format!("the reading process ended: {}", end(&mut child).await))),
        }
    }

    /// Nothing of the server's environment is handed on: secrets may stand in it.
    fn start(&self) -> io::Result<Child> {
        Command::new(&self.command.program)
            .args(&self.command.args)
            .env_clear()
            // The server's allocator would reserve more at once than a worker may have.
            .env("MIMALLOC_ARENA_RESERVE", "32MiB")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    media_type: String,
    charset: Option<String>,
    url: Option<String>,
    settings: ExtractSettings,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Extracted(Extracted),
    Refused(ExtractError),
}

/// What the worker's process does: reads one head and one body, answers, and is done. `Err` when nobody listens.
pub fn main(stdin: impl Read, mut stdout: impl Write) -> io::Result<()> {
    /// A head without a URL of unusual length.
    const HEAD_BYTES_MAX: u64 = 64 * 1024;
    let mut input = io::BufReader::new(stdin);
    let mut line = Vec::new();
    input.by_ref().take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
    let answer = match serde_json::from_slice::<Head>(&line) {
        Ok(head) => {
            limit(&head.settings);
            let mut body = Vec::new();
            input.read_to_end(&mut body)?;
            let Head { media_type, charset, url, settings } = head;
            match extract(&media_type, charset.as_deref(), &body, url.as_deref(), &settings) {
                Ok(extracted) => Answer::Extracted(extracted),
                Err(error) => Answer::Refused(error),
            }
        }
        Err(error) => Answer::Refused(failed(&error)),
    };
    // A library may have written to standard output without ending its line.
    stdout.write_all(b"\n")?;
    serde_json::to_writer(&mut stdout, &answer)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Bounds this process. Where the system refuses, the time that the server waits still is a bound.
fn limit(settings: &ExtractSettings) {
    let at_most = |bound: u64| Rlimit { current: Some(bound), maximum: Some(bound) };
    let seconds = settings.timeout.saturating_add(Duration::from_secs(1)).as_secs();
    for (resource, bound) in [
        (Resource::Data, settings.memory_bytes_max),
        (Resource::Cpu, seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let _ = setrlimit(resource, at_most(bound));
    }
}

/// The longest honest answer: every byte of the Markdown escaped, and a title.
fn answer_bytes_max(settings: &ExtractSettings) -> u64 {
    let markdown = u64::try_from(settings.markdown_bytes_max).unwrap_or(u64::MAX);
    markdown.saturating_mul(6).saturating_add(64 * 1024)
}

/// How a worker that gave no answer ended.
async fn end(child: &mut Child) -> String {
    // It may be alive, with more to say than anyone wants to hear.
    let _ = child.start_kill();
    child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn failed(error: &impl ToString) -> ExtractError {
    ExtractError::Failed(short(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, settings: ExtractSettings) -> Extractor {
        let args = ["-c", script].map(OsString::from).to_vec();
        Extractor::new(WorkerCommand { program: "/bin/sh".into(), args }, settings)
    }

    fn source(media_type: &str, body: &'static [u8]) -> Source {
        Source { media_type: media_type.into(), charset: None, url: None, body: Bytes::from_static(body) }
    }

    fn answered(input: &[u8]) -> String {
        let mut output = Vec::new();
        main(input, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[tokio::test]
    async fn a_worker_that_misbehaves_fails_its_item_alone() {
        let settings = ExtractSettings { markdown_bytes_max: 1000, ..ExtractSettings::default() };
        for script in ["exit 3", "kill -9 $$", "echo nonsense", "cat /dev/zero", "cat", "exec 0<&-; echo {}"] {
            let extractor = shell(script, settings.clone());
            let big = Bytes::from(vec![b'x'; 1_000_000]);
            let read = extractor.extract(Source { body: big, ..source("text/html", b"") }).await;
            assert!(matches!(read, Err(ExtractError::Failed(_))), "{script}: {read:?}");
        }
        let missing = WorkerCommand { program: "/nowhere".into(), args: vec![] };
        assert!(Extractor::new(missing, settings).extract(source("application/pdf", b"x")).await.is_err());
    }

    #[tokio::test]
    async fn a_worker_that_hangs_is_given_up() {
        let settings = ExtractSettings { timeout: Duration::from_millis(50), ..ExtractSettings::default() };
        let read = shell("while :; do :; done", settings).extract(source("text/html", b"<p>x")).await;
        assert_eq!(read, Err(ExtractError::Failed("it takes too long to read".into())));
    }

    #[tokio::test]
    async fn nothing_of_the_environment_reaches_the_worker() {
        let found = "printf '{\"extracted\":{\"title\":\"%s\",\"markdown\":\"x\",\"kind\":\"page\"}}' \"${CARGO_PKG_NAME-none}\"";
        assert!(std::env::var("CARGO_PKG_NAME").is_ok());
        let read = shell(found, ExtractSettings::default()).extract(source("text/html", b"<p>x")).await.unwrap();
        assert_eq!(read.title.as_deref(), Some("none"));
    }

    #[tokio::test]
    async fn harmless_types_need_no_process() {
        let extractor = shell("exit 1", ExtractSettings::default());
        assert_eq!(extractor.extract(source("text/plain", b"words")).await.unwrap().markdown, "words");
        let unknown = extractor.extract(source("image/png", b"x")).await.unwrap_err();
        assert_eq!(unknown, ExtractError::Unsupported("image/png".into()));
    }

    #[test]
    fn a_head_that_is_none_is_answered_too() {
        for input in [&b""[..], b"{}\n", b"no json\nbody"] {
            assert!(answered(input).starts_with("\n{\"refused\":{\"error\":\"failed\""));
        }
    }
}
