//! The background sender: sends spooled events in order, each once, on the chains of the coding agents.
//!
//! It continues while events wait, for up to a day of failures, and ends after a time without events. Each event gets its id when it is
//! spooled, so the server recognises an event that is sent again after a crash. The sender reads the level of each lane from the server
//! while it sends events; the current level applies, not the level at the time of spooling.

use std::io::Write;
use std::time::Duration;

use client::Client;
use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::{Clock, canonical};
use hooks::redaction::Redactor;
use hooks::{Draft, Tool};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wire::consent::ConsentAnswer;

use super::folder::HookFolder;
use super::levels::{LANES, Levels};
use super::progress::Progress;
use super::spool::{Spool, SpoolLine, SpoolReader, SpoolRecord};
use super::{background, log};
use crate::connection::{ProfileConnection, Remote, failed};
use crate::event::LocalChain;
use crate::event::draft::EventDraft;
use crate::event::report::ReportFormat;
use crate::event::sender::EventSender;
use crate::failure::{Done, Failure, FailureKind};

/// Time without events after which the sender ends.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Maximum wait for the lock: a hook or `--status` holds it briefly to test it.
const LOCKED_FOR_MAX: Duration = Duration::from_millis(200);

/// Interval between two reads of the spool.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Minimum and maximum delay after a failure; each further failure doubles it.
const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_mins(1);

/// Maximum delay that a server may request.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Duration of failures after which the sender ends; the next hook starts it again.
const FAILING_MAX: Duration = Duration::from_hours(24);

/// Maximum age of the level at which an event is sent.
const LEVEL_AGE_MAX: Duration = Duration::from_secs(5);

/// Number of events between two writes of the progress. After a crash, at most this number is sent again, and recognised by id.
const KEPT_EVERY: usize = 64;

/// Maximum number of attempts of an event that the server refuses for a permanent reason.
const ATTEMPTS_MAX: u32 = 3;

/// Runs the sender of a profile; returns at once if one runs already.
pub fn main(profile: &str) {
    let Some(folder) = HookFolder::of(profile) else { return };
    background::detach();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.map_err(Failure::caused).and_then(|runtime| runtime.block_on(run(&folder, profile)));
    if let Err(failure) = result {
        log::note(&folder, &format!("the sender ended: {}", failure.reason()));
    }
}

async fn run(folder: &HookFolder, profile: &str) -> Done {
    folder.make().map_err(Failure::caused)?;
    loop {
        let Ok(mut lock) = folder.lock_within(background::LOCK, LOCKED_FOR_MAX) else { return Ok(()) };
        // The process id, for a person who wants to end the sender.
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(Failure::caused)?;
        let mut sender = Sender::new(folder, profile)?;
        sender.work().await;
        drop(lock);
        // A hook that ran while the lock was held has not started a sender.
        if sender.is_failing || !sender.is_waiting() {
            return Ok(());
        }
    }
}

struct Sender<'f> {
    folder: &'f HookFolder,
    remote: Remote,
    redactor: Redactor,
    clock: Clock,
    levels: Levels,
    /// When the levels were read.
    read: Option<Instant>,
    /// Attempts of the event at the front of the spool that failed for a lasting reason.
    attempts: u32,
    is_failing: bool,
}

impl<'f> Sender<'f> {
    fn new(folder: &'f HookFolder, profile: &str) -> Result<Self, Failure> {
        Ok(Self {
            folder,
            remote: Remote { url: None, rag_url: None, profile: profile.to_owned(), json: false },
            redactor: Redactor::built_in().map_err(Failure::caused)?,
            clock: Clock::system(),
            levels: Levels::default(),
            read: None,
            attempts: 0,
            is_failing: false,
        })
    }

    fn is_waiting(&self) -> bool {
        Tool::ALL.iter().any(|tool| Spool::of(self.folder, *tool).size() > 0)
    }

    /// Sends events until there are none for [`IDLE_MAX`], or failures last for [`FAILING_MAX`].
    async fn work(&mut self) {
        let (mut worked, mut delay) = (Instant::now(), DELAY_MIN);
        // Reads the levels for the next hooks, even if none permits an event.
        let mut passed = self.refresh().await;
        loop {
            match passed {
                Ok(()) => delay = DELAY_MIN,
                Err(failure) => {
                    if worked.elapsed() > FAILING_MAX || !self.folder.is_there() {
                        self.is_failing = true;
                        return;
                    }
                    log::note(self.folder, failure.reason());
                    self.pause(failure.retry_after().unwrap_or(delay).clamp(DELAY_MIN, RETRY_AFTER_MAX)).await;
                    delay = (delay * 2).min(DELAY_MAX);
                }
            }
            if self.is_waiting() {
                passed = self.pass().await;
                if passed.is_ok() {
                    worked = Instant::now();
                }
                continue;
            }
            // The sender ends if its profile is removed.
            if worked.elapsed() > IDLE_MAX || !self.folder.is_there() {
                return;
            }
            passed = Ok(());
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits, and ends early if the profile is removed.
    async fn pause(&self, delay: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < delay && self.folder.is_there() {
            sleep(LOOK_EVERY).await;
        }
    }

    /// Sends the events of all agents; returns the first failure, after it tried all agents.
    async fn pass(&mut self) -> Done {
        let mut first = Ok(());
        for tool in Tool::ALL {
            let spool = Spool::of(self.folder, tool);
            if spool.size() == 0 {
                continue;
            }
            let mut progress = Progress::of(self.folder, tool).unwrap_or_default();
            let drained = self.drain(tool, &spool, &mut progress).await;
            progress.error = drained.as_ref().err().map(|failure| failure.reason().to_owned());
            let result = progress.keep(self.folder, tool);
            first = first.and(drained).and(result);
        }
        first
    }

    /// Sends the events of one agent.
    async fn drain(&mut self, tool: Tool, spool: &Spool, progress: &mut Progress) -> Done {
        // The profile is read again: another process may have stored a credential.
        let connection = self.remote.open()?;
        let client = credential(&connection)?;
        self.refresh_as(&client).await?;
        let mut sender = EventSender::with(client.clone(), &connection, tool.as_str(), ReportFormat::Silent)?;
        while let Some(mut reader) = spool.open(&progress.place).map_err(Failure::caused)? {
            progress.place = reader.place().clone();
            let mut is_read = false;
            while !is_read {
                let mut chain = sender.chain()?;
                let sent = self.portion(&client, &mut sender, &mut chain, &mut reader, progress).await;
                chain.keep()?;
                progress.keep(self.folder, tool)?;
                is_read = sent?;
            }
            spool.finish().map_err(Failure::caused)?;
        }
        Ok(())
    }

    /// Sends events while the chain is locked; returns whether the file is read to its end.
    async fn portion(
        &mut self,
        client: &Client,
        sender: &mut EventSender,
        chain: &mut LocalChain,
        reader: &mut SpoolReader,
        progress: &mut Progress,
    ) -> Result<bool, Failure> {
        for _ in 0..KEPT_EVERY {
            let Some(line) = reader.next().map_err(Failure::caused)? else { return Ok(true) };
            match line {
                SpoolLine::Damaged => progress.damaged += 1,
                SpoolLine::Record(record) => {
                    self.refresh_as(client).await?;
                    let is_held = self.send(sender, chain, *record, progress).await?;
                    if is_held {
                        // The level may have been lowered. A held event that is sent again after a crash may be held twice.
                        self.read = None;
                        progress.place = reader.place().clone();
                        return Ok(false);
                    }
                }
            }
            progress.place = reader.place().clone();
        }
        Ok(false)
    }

    /// Sends one event; returns whether the server holds it.
    async fn send(
        &mut self,
        sender: &mut EventSender,
        chain: &mut LocalChain,
        record: SpoolRecord,
        progress: &mut Progress,
    ) -> Result<bool, Failure> {
        self.withdraw(chain)?;
        let SpoolRecord { mut event, gap } = record;
        progress.refused += gap;
        if gap > 0 {
            event.payload.insert("gap".to_owned(), json!(gap));
        }
        let level = self.levels.level(event.lane, self.clock.now());
        let Some(draft) = event.at(level) else {
            progress.withheld += 1;
            return Ok(false);
        };
        let before = sender.counts.clone();
        match sender.next(chain, &self.redacted(draft)).await {
            Ok(()) => (self.attempts, progress.error) = (0, None),
            Err(failure) if is_lasting(&failure) && self.attempts + 1 >= ATTEMPTS_MAX => {
                log::note(self.folder, failure.reason());
                self.attempts = 0;
                progress.failed += 1;
                // Otherwise the event would block the chain.
                chain.give_up()?;
                return Ok(false);
            }
            Err(failure) => {
                self.attempts += u32::from(is_lasting(&failure));
                progress.refused -= gap;
                return Err(failure);
            }
        }
        let after = &sender.counts;
        // The id derives from the agent's action: if the agent delivers a payload again, its event is already recorded.
        let repeated = after.known - before.known + after.taken - before.taken;
        progress.sent += (after.sent - before.sent + repeated) as u64;
        progress.held += (after.held - before.held) as u64;
        progress.failed += (after.failed - before.failed - (after.taken - before.taken)) as u64;
        progress.sent_at = Some(self.clock.now());
        Ok(after.held > before.held)
    }

    /// Gives up an event of a hook that was sealed before a crash or failure, if its level was lowered since. The spool still contains it.
    fn withdraw(&self, chain: &mut LocalChain) -> Done {
        let Some(pending) = chain.pending() else { return Ok(()) };
        let sealed = canonical::parse_object(pending.sealed.as_bytes(), usize::MAX).map_err(Failure::caused)?;
        let of = |name: &str| sealed.get(name).and_then(Value::as_str);
        let (lane, level) = (of("lane").and_then(|lane| lane.parse::<Lane>().ok()), of("consent_level"));
        let declared = level.and_then(|level| level.parse::<ConsentLevel>().ok());
        let is_of_hook = sealed.get("payload").is_some_and(|payload| payload.get("hook").is_some());
        match (lane, declared) {
            (Some(lane), Some(declared)) if is_of_hook && declared > self.levels.level(lane, self.clock.now()) => {
                chain.give_up()
            }
            _ => Ok(()),
        }
    }

    /// The draft without secrets.
    fn redacted(&self, draft: Draft) -> EventDraft {
        let Draft { event_type, lane, consent_level, event_id, ts_edge_ms, project_id, session_uuid, mut payload } =
            draft;
        let has_secrets = self.redactor.redact(&mut payload);
        EventDraft {
            event_id,
            ts_edge_ms,
            lane: Some(lane),
            consent_level: Some(consent_level),
            redacted: has_secrets.then_some(true),
            project_id,
            session_uuid,
            ..EventDraft::new(event_type, payload)
        }
    }

    async fn refresh(&mut self) -> Done {
        let connection = self.remote.open()?;
        self.refresh_as(&credential(&connection)?).await
    }

    /// Reads the levels from the server if they are old, and writes them for the hooks.
    async fn refresh_as(&mut self, client: &Client) -> Done {
        if self.read.is_some_and(|read| read.elapsed() < LEVEL_AGE_MAX) {
            return Ok(());
        }
        let mut levels = Levels::default();
        for lane in LANES {
            match client.consent(None, Some(lane)).await.map_err(failed)? {
                ConsentAnswer::Effective { level, .. } => levels.set(lane, level, &self.clock),
                ConsentAnswer::Levels { .. } => {
                    return Err(Failure::refused("the server returned no effective consent level"));
                }
            }
        }
        if self.folder.is_there() {
            levels.keep(self.folder)?;
        }
        (self.levels, self.read) = (levels, Some(Instant::now()));
        Ok(())
    }
}

/// The client that sends events of hooks and reads their levels, with the credential of this computer.
fn credential(connection: &ProfileConnection) -> Result<Client, Failure> {
    connection.as_machine()
}

/// Whether a later attempt of the same event would fail too.
fn is_lasting(failure: &Failure) -> bool {
    matches!(failure.kind(), FailureKind::Refused | FailureKind::NotFound | FailureKind::Usage)
}
