//! Sends events on a chain: completes each draft, seals it, and resends it until it is accepted, held or refused.

mod delivery;
mod envelope;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use client::Client;
use domain::consent::ConsentLevel;
use domain::ids::EventId;
use domain::lane::Lane;
use domain::{Clock, Digest, Rng};

use super::chain::{InputPosition, LocalChain, beginnings};
use super::draft::{self, Defaults, EventDraft, LINE_BYTES_MAX, Line};
use super::report::{ReportFormat, SendCounts};
use crate::connection::ProfileConnection;
use crate::failure::{Done, Failure};
use crate::output;
use crate::profile_folder::{Machine, ProfileFolder};

/// The end of a message about an event without a response.
const KEPT: &str = "is stored and sent first by the next `attache event send`";

/// Sends events on the chain of one agent kind on this computer.
#[derive(Debug)]
pub struct EventSender {
    client: Client,
    folder: ProfileFolder,
    machine: Machine,
    agent_id: String,
    format: ReportFormat,
    clock: Clock,
    rng: Rng,
    /// Lanes of event types, once requested from the server.
    registry: Option<BTreeMap<String, Lane>>,
    /// Effective consent levels of this computer, for the lanes requested so far.
    consent: BTreeMap<Lane, ConsentLevel>,
    /// Outcomes of this run.
    pub counts: SendCounts,
}

impl EventSender {
    /// A sender with the machine secret of the profile.
    pub fn new(connection: &ProfileConnection, agent_id: &str, format: ReportFormat) -> Result<Self, Failure> {
        Self::with(connection.as_machine()?, connection, agent_id, format)
    }

    /// A sender with the credential of `client`.
    pub fn with(
        client: Client,
        connection: &ProfileConnection,
        agent_id: &str,
        format: ReportFormat,
    ) -> Result<Self, Failure> {
        Ok(Self {
            client,
            folder: connection.folder.clone(),
            machine: connection.machine()?.clone(),
            agent_id: agent_id.to_owned(),
            format,
            clock: connection.clock().clone(),
            rng: Rng::system(),
            registry: None,
            consent: BTreeMap::new(),
            counts: SendCounts::default(),
        })
    }

    /// Sends a complete input; resumes where an earlier run of the same input stopped.
    pub async fn all(&mut self, lines: &[Line]) -> Done {
        let beginnings = beginnings(lines)?;
        self.check(lines).await?;
        let mut chain = LocalChain::open(&self.folder, &self.machine, &self.agent_id)?;
        let mut completed = chain.done(&beginnings);
        let sent = self.all_on(&mut chain, lines, &beginnings, &mut completed).await;
        chain.keep()?;
        let Err(failure) = sent else { return Ok(()) };
        let Some(first) = lines.get(completed) else { return Err(failure) };
        let last = lines.last().map_or(first.number, |line| line.number);
        let (unsent, total) = (lines.len() - completed, lines.len());
        let which = if unsent == 1 { format!("line {last}") } else { format!("lines {} to {last}", first.number) };
        Err(failure.advised(&format!(
            "{unsent} of {total} events {} not sent ({which}): run the same command again to resume (no event is sent twice)",
            if unsent == 1 { "was" } else { "were" },
        )))
    }

    async fn all_on(
        &mut self,
        chain: &mut LocalChain,
        lines: &[Line],
        beginnings: &[Digest],
        done: &mut usize,
    ) -> Done {
        let waiting = chain.pending_of(beginnings);
        self.deliver(chain, waiting.is_some()).await?;
        *done = waiting.unwrap_or(0).max(*done);
        if *done > 0 && self.format == ReportFormat::Human {
            output::print(&format!("resuming after {done} of {} events, which were sent before", lines.len()));
        }
        for (nth, line) in lines.iter().enumerate().skip(*done) {
            let before = nth.checked_sub(1).and_then(|nth| beginnings.get(nth)).copied();
            let place =
                InputPosition { source: beginnings.get(nth).copied(), before, line: line.number, done: nth + 1 };
            let event = self.complete(&line.draft, line.number).await?;
            chain.put(event, place)?;
            self.deliver(chain, true).await?;
            *done = nth + 1;
        }
        chain.forget(beginnings);
        Ok(())
    }

    /// Sends a single event. Only its id identifies it as the event of an earlier run.
    pub async fn one(&mut self, draft: &EventDraft) -> Done {
        match self.alone(draft, 1).await {
            Ok(()) => Ok(()),
            Err((failure, Some(event_id))) => Err(failure.advised(&format!(
                "event {event_id} {KEPT}; to repeat the command without a second event, add --event-id {event_id}",
            ))),
            Err((failure, None)) => Err(failure.advised("the event was not sent")),
        }
    }

    /// Sends lines as they are read. The chain is unlocked between two lines.
    pub async fn stream(&mut self, mut input: impl BufRead, defaults: &Defaults) -> Done {
        let mut settled = 0_usize;
        for number in 1.. {
            let mut line = Vec::new();
            let bytes_max = LINE_BYTES_MAX as u64 + 2;
            let read = input.by_ref().take(bytes_max).read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::refused(format!("standard input: {error}")))? == 0 {
                break;
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let sent = match draft::read(line, defaults) {
                Ok(None) => Ok(false),
                Ok(Some(draft)) => self.alone(&draft, number).await.map(|()| true),
                Err(mistake) => Err((Failure::refused(format!("standard input:{number}: {mistake}")), None)),
            };
            let (failure, kept) = match sent {
                Ok(is_event) => {
                    settled += usize::from(is_event);
                    continue;
                }
                Err(failed) => failed,
            };
            let kept = if kept.is_some() { KEPT } else { "was not sent" };
            return Err(failure.advised(&format!(
                "line {number} {kept}; the lines after it were not sent; of the lines before it, {settled} were",
            )));
        }
        Ok(())
    }

    /// Opens and locks the chain.
    pub fn chain(&self) -> Result<LocalChain, Failure> {
        LocalChain::open(&self.folder, &self.machine, &self.agent_id)
    }

    /// Sends one event on a chain that the caller keeps locked for several; the caller calls [`LocalChain::keep`] at the end.
    pub async fn next(&mut self, chain: &mut LocalChain, draft: &EventDraft) -> Done {
        let event = self.complete(draft, 1).await?;
        let is_own = chain.pending().is_some_and(|pending| pending.event_id == event.event_id && pending.is(&event));
        self.deliver(chain, is_own).await?;
        if is_own {
            return Ok(());
        }
        chain.put(event, InputPosition::alone(1))?;
        self.deliver(chain, true).await
    }

    /// Sends one event of an input with unknown length. The error contains the event's id if it is stored for the next run.
    async fn alone(&mut self, draft: &EventDraft, line: u64) -> Result<(), (Failure, Option<EventId>)> {
        let event = self.complete(draft, line).await.map_err(|failure| (failure, None))?;
        let mut chain =
            LocalChain::open(&self.folder, &self.machine, &self.agent_id).map_err(|failure| (failure, None))?;
        let event_id = event.event_id;
        let is_own = chain.pending().is_some_and(|pending| pending.event_id == event_id && pending.is(&event));
        let sent = async {
            self.deliver(&mut chain, is_own).await?;
            if is_own {
                return Ok(());
            }
            chain.put(event, InputPosition::alone(line))?;
            self.deliver(&mut chain, true).await
        }
        .await;
        let stored = chain.pending().map(|pending| pending.event_id).filter(|stored| *stored == event_id);
        sent.and(chain.keep()).map_err(|failure| (failure, stored))
    }
}
