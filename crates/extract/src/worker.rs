//! Extracts pages and PDFs in a separate process.
//!
//! 1. The server starts the program of [`WorkerCommand`]: itself, with a hidden command that calls [`main`].
//! 2. It writes one line of JSON with the settings, one with the head, and then the bytes. The worker responds with one
//!    line of JSON.
//! 3. The worker enters its [`sandbox`] before it reads anything from outside the server, including the head. The
//!    server limits time and size of the response, and kills a worker that does not exit.
//!
//! **If a worker dies:** its item fails with `extract_failed`; other items are not affected.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Once};

use bytes::Bytes;
use domain::fair::FairLimits;
use domain::ids::UserAccountId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::error::{ExtractError, short};
use crate::fair::FairPlaces;
use crate::format::ContentFormat;
use crate::read::{Extracted, extract, extract_here};
use crate::sandbox::{self, Confinement};
use crate::settings::ExtractSettings;

/// The command of attache's programs that extracts one page or PDF from standard input.
pub const EXTRACT_WORKER: &str = "extract-worker";

/// The program and arguments that start a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments that make it call [`main`].
    pub args: Vec<OsString>,
}

impl WorkerCommand {
    /// A program of attache: its hidden command [`EXTRACT_WORKER`] calls [`main`].
    pub fn of(program: PathBuf) -> Self {
        Self { program, args: vec![EXTRACT_WORKER.into()] }
    }

    /// The current program, which must be one of attache.
    pub fn of_this_program() -> io::Result<Self> {
        std::env::current_exe().map(Self::of)
    }
}

/// The content to extract.
#[derive(Debug, Clone)]
pub struct RawContent {
    /// Media type, with or without parameters.
    pub media_type: String,
    /// Charset of the response header.
    pub charset: Option<String>,
    /// Final URL of the content.
    pub url: Option<String>,
    /// Content after decompression.
    pub body: Bytes,
}

/// Extracts content for a server. Clones share the limit of processes.
#[derive(Debug, Clone)]
pub struct Extractor {
    command: WorkerCommand,
    settings: ExtractSettings,
    places: FairPlaces,
    warned: Arc<Once>,
}

impl Extractor {
    /// An extractor that runs `command` for pages and PDFs.
    pub fn new(command: WorkerCommand, settings: ExtractSettings) -> Self {
        let places = FairPlaces::new(FairLimits::new(settings.processes_max, settings.processes_max));
        Self { command, settings, places, warned: Arc::new(Once::new()) }
    }

    /// Extracts `source` for `account`, after waiting for a place. Dropping the future kills the worker.
    #[boxed]
    pub async fn extract(&self, source: RawContent, account: &UserAccountId) -> Result<Extracted, ExtractError> {
        let _place = self.places.acquire(account).await.map_err(|refusal| failed(&refusal))?;
        if ContentFormat::of(&source.media_type).is_some_and(ContentFormat::is_risky) {
            let answer = self.timed(&source).await?;
            self.judge(answer.confinement);
            return answer.result.into();
        }
        let settings = self.settings.clone();
        let here = move || {
            let RawContent { media_type, charset, url, body } = source;
            extract(&media_type, charset.as_deref(), &body, url.as_deref(), &settings)
        };
        tokio::task::spawn_blocking(here).await.map_err(|error| failed(&error))?
    }

    /// Extracts a minimal page, and returns the restrictions that the kernel enforced.
    #[boxed]
    pub async fn probe(&self) -> Result<Confinement, ExtractError> {
        let body = Bytes::from_static(b"<p>word");
        let page = RawContent { media_type: "text/html".to_owned(), charset: None, url: None, body };
        let answer = self.timed(&page).await?;
        Result::from(answer.result)?;
        answer.confinement.ok_or_else(|| ExtractError::Failed("the worker does not say how it is confined".to_owned()))
    }

    /// Logs once if the kernel does not enforce all restrictions.
    fn judge(&self, confinement: Option<Confinement>) {
        let Some(confinement) = confinement.filter(|confinement| !confinement.is_complete()) else { return };
        self.warned.call_once(|| {
            tracing::warn!(
                extract.confinement = %confinement,
                "pages and PDFs are read without the full sandbox, because this system lacks a part of it"
            );
        });
    }

    async fn timed(&self, source: &RawContent) -> Result<WorkerAnswer, ExtractError> {
        let ended = tokio::time::timeout(self.settings.timeout, self.in_worker(source)).await;
        ended.unwrap_or_else(|_| Err(ExtractError::Failed("it takes too long to read".to_owned())))
    }

    async fn in_worker(&self, source: &RawContent) -> Result<WorkerAnswer, ExtractError> {
        let RawContent { media_type, charset, url, .. } = source.clone();
        let mut lines = serde_json::to_vec(&self.settings).map_err(|error| failed(&error))?;
        lines.push(b'\n');
        serde_json::to_writer(&mut lines, &SourceHead { media_type, charset, url }).map_err(|error| failed(&error))?;
        lines.push(b'\n');
        let mut child = self.start().map_err(|error| failed(&error))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ExtractError::Failed("the worker cannot be reached".to_owned()));
        };
        let write = async {
            // If the worker has stopped reading, its response or exit status gives the reason.
            let _ = stdin.write_all(&lines).await;
            let _ = stdin.write_all(&source.body).await;
            drop(stdin);
        };
        let mut answer = Vec::new();
        let most = answer_bytes_max(&self.settings);
        let mut limited = stdout.take(most);
        let read = async { limited.read_to_end(&mut answer).await };
        tokio::pin!(read);
        // A worker that has responded, or exceeded the limit, need not read all input.
        let read = tokio::select! {
            read = &mut read => read,
            () = write => read.await,
        };
        read.map_err(|error| failed(&error))?;
        let last = answer.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        match serde_json::from_slice(last) {
            Ok(answer) => Ok(answer),
            Err(_) => Err(ExtractError::Failed(format!("the reading process ended: {}", end(&mut child).await))),
        }
    }

    /// Starts a worker with an empty environment, because variables may contain secrets.
    fn start(&self) -> io::Result<Child> {
        Command::new(&self.command.program)
            .args(&self.command.args)
            .env_clear()
            // The allocator's default reservation exceeds the worker's memory limit.
            .env("MIMALLOC_ARENA_RESERVE", "32MiB")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SourceHead {
    media_type: String,
    charset: Option<String>,
    url: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WorkerAnswer {
    /// `None` if the worker did not enter the sandbox.
    confinement: Option<Confinement>,
    #[serde(flatten)]
    result: WorkerOutcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkerOutcome {
    Extracted(Extracted),
    Refused(ExtractError),
}

impl From<WorkerOutcome> for Result<Extracted, ExtractError> {
    fn from(outcome: WorkerOutcome) -> Self {
        match outcome {
            WorkerOutcome::Extracted(extracted) => Ok(extracted),
            WorkerOutcome::Refused(error) => Err(error),
        }
    }
}

impl From<Result<Extracted, ExtractError>> for WorkerOutcome {
    fn from(result: Result<Extracted, ExtractError>) -> Self {
        result.map_or_else(Self::Refused, Self::Extracted)
    }
}

/// Main function of the worker process: reads settings, head and body, and writes the response. Fails if standard
/// output is closed.
pub fn main(stdin: impl Read + Send, mut stdout: impl Write + Send) -> io::Result<()> {
    let mut input = io::BufReader::new(stdin);
    match line::<ExtractSettings>(&mut input) {
        Ok(settings) => sandbox::run(&settings, |confinement| {
            let (confinement, result) = match confinement {
                Ok(confinement) => (Some(confinement), read(&mut input, &settings)),
                Err(error) => (None, Err(ExtractError::Failed(format!("its limits cannot be set: {error}")))),
            };
            answer(&mut stdout, &WorkerAnswer { confinement, result: result.into() })
        })?,
        Err(error) => answer(&mut stdout, &WorkerAnswer { confinement: None, result: WorkerOutcome::Refused(error) }),
    }
}

fn line<T: for<'de> Deserialize<'de>>(input: &mut impl BufRead) -> Result<T, ExtractError> {
    /// Maximum length of a line, enough for every valid URL.
    const LINE_BYTES_MAX: u64 = 64 * 1024;
    let mut line = Vec::new();
    input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|error| failed(&error))?;
    serde_json::from_slice(&line).map_err(|error| failed(&error))
}

fn read(input: &mut impl BufRead, settings: &ExtractSettings) -> Result<Extracted, ExtractError> {
    let SourceHead { media_type, charset, url } = line(input)?;
    let mut body = Vec::new();
    input.read_to_end(&mut body).map_err(|error| failed(&error))?;
    extract_here(&media_type, charset.as_deref(), &body, url.as_deref(), settings)
}

fn answer(stdout: &mut impl Write, answer: &WorkerAnswer) -> io::Result<()> {
    // A library may have written to standard output without ending its line.
    stdout.write_all(b"\n")?;
    serde_json::to_writer(&mut *stdout, answer)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Maximum size of a valid response: Markdown with every byte escaped, and a title.
fn answer_bytes_max(settings: &ExtractSettings) -> u64 {
    let markdown = u64::try_from(settings.markdown_bytes_max).unwrap_or(u64::MAX);
    markdown.saturating_mul(6).saturating_add(64 * 1024)
}

/// Kills the worker and describes how it ended.
async fn end(child: &mut Child) -> String {
    // The worker may still run, with more output than is read.
    let _ = child.start_kill();
    child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn failed(error: &impl ToString) -> ExtractError {
    ExtractError::Failed(short(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sandbox::LandlockSupport;
    use super::*;

    fn account() -> UserAccountId {
        "account".parse().unwrap()
    }

    fn shell(script: &str, settings: ExtractSettings) -> Extractor {
        let args = ["-c", script].map(OsString::from).to_vec();
        Extractor::new(WorkerCommand { program: "/bin/sh".into(), args }, settings)
    }

    fn source(media_type: &str, body: &'static [u8]) -> RawContent {
        RawContent { media_type: media_type.into(), charset: None, url: None, body: Bytes::from_static(body) }
    }

    #[tokio::test]
    async fn a_worker_that_misbehaves_fails_its_item_alone() {
        let settings = ExtractSettings { markdown_bytes_max: 1000, ..ExtractSettings::default() };
        for script in ["exit 3", "kill -9 $$", "echo nonsense", "cat /dev/zero", "cat", "exec 0<&-; echo {}"] {
            let extractor = shell(script, settings.clone());
            let big = Bytes::from(vec![b'x'; 1_000_000]);
            let read = extractor.extract(RawContent { body: big, ..source("text/html", b"") }, &account()).await;
            assert!(matches!(read, Err(ExtractError::Failed(_))), "{script}: {read:?}");
        }
        let missing = WorkerCommand { program: "/nowhere".into(), args: vec![] };
        assert!(Extractor::new(missing, settings).extract(source("application/pdf", b"x"), &account()).await.is_err());
    }

    #[tokio::test]
    async fn a_worker_that_hangs_is_given_up() {
        let settings = ExtractSettings { timeout: Duration::from_millis(50), ..ExtractSettings::default() };
        let read = shell("while :; do :; done", settings).extract(source("text/html", b"<p>x"), &account()).await;
        assert_eq!(read, Err(ExtractError::Failed("it takes too long to read".into())));
    }

    #[tokio::test]
    async fn nothing_of_the_environment_reaches_the_worker() {
        let script = "printf '{\"extracted\":{\"title\":\"%s\",\"markdown\":\"x\",\"kind\":\"page\"}}' \"${CARGO_PKG_NAME-none}\"";
        assert!(std::env::var("CARGO_PKG_NAME").is_ok());
        let read =
            shell(script, ExtractSettings::default()).extract(source("text/html", b"<p>x"), &account()).await.unwrap();
        assert_eq!(read.title.as_deref(), Some("none"));
    }

    #[tokio::test]
    async fn harmless_types_need_no_process() {
        let extractor = shell("exit 1", ExtractSettings::default());
        assert_eq!(extractor.extract(source("text/plain", b"words"), &account()).await.unwrap().markdown, "words");
        let unknown = extractor.extract(source("image/png", b"x"), &account()).await.unwrap_err();
        assert_eq!(unknown, ExtractError::Unsupported("image/png".into()));
    }

    #[test]
    fn a_head_that_is_none_is_answered_too() {
        for input in [&b""[..], b"{}\n", b"no json\nbody"] {
            let refused = read(&mut &*input, &ExtractSettings::default());
            assert!(matches!(refused, Err(ExtractError::Failed(_))), "{refused:?}");
        }
        // Invalid settings are reported before the sandbox restricts this test process.
        let mut output = Vec::new();
        main(&b"no json\n{}\n"[..], &mut output).unwrap();
        let said = String::from_utf8(output).unwrap();
        assert!(said.starts_with("\n{\"confinement\":null,\"refused\":{\"error\":\"failed\""), "{said}");
    }

    #[tokio::test]
    async fn a_system_without_a_sandbox_is_said_once() {
        let without = r#"echo '{"confinement":{"landlock":"none","seccomp":false},"extracted":{"title":"x","markdown":"x","kind":"page"}}'"#;
        let extractor = shell(without, ExtractSettings::default());
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer({
            let lines = lines.clone();
            move || lines.clone()
        });
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        for _ in 0..3 {
            extractor.clone().extract(source("text/html", b"<p>x"), &account()).await.unwrap();
        }
        let said = lines.text();
        assert_eq!(said.matches("without the full sandbox").count(), 1, "{said}");
        assert!(said.contains("no landlock, no seccomp"), "{said}");
        let confinement = extractor.probe().await.unwrap();
        assert_eq!(confinement, Confinement { landlock: LandlockSupport::None, seccomp: false });
        assert!(!confinement.is_complete());
    }

    /// Captured log output.
    #[derive(Debug, Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
