//! Sends events on a chain: completes what a draft leaves open, seals it, and stays with it until it is settled.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use client::{Client, Error};
use domain::chain::Position;
use domain::consent::ConsentLevel;
use domain::ids::EventId;
use domain::lane::Lane;
use domain::registry::Registry;
use domain::{Chance, Clock, Digest};
use serde_json::{Map, Value, json};
use wire::consent::ConsentAnswer;
use wire::events::SubmitResult;

use super::chain::{Chain, Pending, Place};
use super::draft::{self, Defaults, Draft, LINE_BYTES_MAX, Line};
use super::told::{Tally, Told, Voice};
use crate::cli::profile::{Folder, Machine};
use crate::cli::remote::{Connection, failed};
use crate::cli::{Done, Failure, output};

/// Sends events on the chain of one agent on this computer.
#[derive(Debug)]
pub struct Sending {
    client: Client,
    folder: Folder,
    machine: Machine,
    agent_id: String,
    voice: Voice,
    clock: Clock,
    chance: Chance,
    /// Lanes of types, once the server was asked.
    registry: Option<BTreeMap<String, Lane>>,
    /// What holds for this computer, lane by lane, as far as it was asked.
    consent: BTreeMap<Lane, ConsentLevel>,
    /// What this run did.
    pub tally: Tally,
}

impl Sending {
    /// As the computer of a profile.
    pub fn new(connection: &Connection, agent_id: &str, voice: Voice) -> Result<Self, Failure> {
        Ok(Self {
            client: connection.as_machine()?,
            folder: connection.folder.clone(),
            machine: connection.machine()?.clone(),
            agent_id: agent_id.to_owned(),
            voice,
            clock: connection.clock().clone(),
            chance: Chance::system(),
            registry: None,
            consent: BTreeMap::new(),
            tally: Tally::default(),
        })
    }

    /// An input that is known whole: goes on where an earlier run of the same input stopped.
    pub async fn all(&mut self, lines: &[Line]) -> Done {
        let source = Digest::of(&serde_json::to_vec(lines).map_err(Failure::refused)?);
        let mut chain = Chain::open(&self.folder, &self.machine, &self.agent_id)?;
        let sent = self.all_on(&mut chain, lines, source).await;
        let reason = match sent {
            Ok(()) => return chain.keep(),
            Err(Failure::Refused(reason)) => reason,
            Err(other) => return Err(other),
        };
        chain.keep()?;
        let done = chain.done(&source);
        let Some(first) = lines.get(done) else { return Err(Failure::Refused(reason)) };
        let last = lines.last().map_or(first.number, |line| line.number);
        let (unsent, total) = (lines.len() - done, lines.len());
        let which = if unsent == 1 { format!("line {last}") } else { format!("lines {} to {last}", first.number) };
        Err(Failure::Refused(format!(
            "{reason}\n  {unsent} of {total} events {} not sent ({which}): the same command goes on there, and sends nothing twice",
            if unsent == 1 { "is" } else { "are" },
        )))
    }

    async fn all_on(&mut self, chain: &mut Chain, lines: &[Line], source: Digest) -> Done {
        let waiting = chain.pending().map(|pending| pending.place).filter(|place| place.source == Some(source));
        self.deliver(chain, waiting.is_some()).await?;
        // An input of which the last event was waiting is forgotten by now: it is done.
        let begun = waiting.map_or(0, |place| place.done).max(chain.done(&source));
        let total = lines.len();
        if begun > 0 && self.voice == Voice::Human {
            output::say(&format!("goes on after {begun} of {total} events, which were sent before"));
        }
        for (nth, line) in lines.iter().enumerate().skip(begun) {
            let place = Place { source: Some(source), line: line.number, done: nth + 1, total };
            self.send(chain, &line.draft, place).await?;
        }
        Ok(())
    }

    /// Lines as they come. Each is sent before the next is read, and the chain is free in between.
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
                Ok(Some(draft)) => self.next_of_stream(&draft, number).await,
                Err(mistake) => Err((Failure::Refused(format!("standard input:{number}: {mistake}")), false)),
            };
            let (failure, is_kept) = match sent {
                Ok(is_event) => {
                    settled += usize::from(is_event);
                    continue;
                }
                Err(failed) => failed,
            };
            let Failure::Refused(reason) = failure else { return Err(failure) };
            let kept = if is_kept { "is kept and sent first by the next `attache event send`" } else { "is not sent" };
            return Err(Failure::Refused(format!(
                "{reason}\n  line {number} {kept}, and those after it are not sent; of those before it, {settled} are",
            )));
        }
        Ok(())
    }

    /// Says that there was an event, or of one that fails whether it is kept.
    async fn next_of_stream(&mut self, draft: &Draft, line: u64) -> Result<bool, (Failure, bool)> {
        let mut chain = Chain::open(&self.folder, &self.machine, &self.agent_id).map_err(|failure| (failure, false))?;
        let place = Place { source: None, line, done: 0, total: 0 };
        let sent = match self.deliver(&mut chain, false).await {
            Ok(()) => self.send(&mut chain, draft, place).await,
            Err(failure) => return Err((failure, false)),
        };
        let is_kept = chain.pending().is_some();
        match sent.and_then(|()| chain.keep()) {
            Ok(()) => Ok(true),
            Err(failure) => Err((failure, is_kept)),
        }
    }

    async fn send(&mut self, chain: &mut Chain, draft: &Draft, place: Place) -> Done {
        let (members, event_id) = self.complete(draft, place.line).await?;
        chain.put(members, event_id, place)?;
        self.deliver(chain, true).await
    }

    /// The envelope, but for its place in the chain.
    async fn complete(&mut self, draft: &Draft, number: u64) -> Result<(Map<String, Value>, EventId), Failure> {
        let lane = match draft.lane {
            Some(lane) => lane,
            None => self.lane_of(&draft.event_type, number).await?,
        };
        let consent_level = match draft.consent_level {
            Some(level) => level,
            None => self.consent_in(lane).await?,
        };
        let now = self.clock.now();
        let event_id = draft.event_id.unwrap_or_else(|| self.chance.uuid_v7(now).into());
        let mut scope = json!({
            "user_id": self.machine.user_cuid,
            "machine_id": self.machine.machine_uuid,
            "agent_id": self.agent_id,
        });
        if let Some(project) = &draft.project_id {
            scope["project_id"] = json!(project);
        }
        if let Some(session) = draft.session_uuid {
            scope["session_uuid"] = json!(session);
        }
        let members = [
            ("schema_version", json!("v1")),
            ("event_id", json!(event_id)),
            ("event_type", json!(draft.event_type)),
            ("lane", json!(lane)),
            ("ts_edge_ms", json!(draft.ts_edge_ms.unwrap_or_else(|| now.timestamp_millis()))),
            ("consent_level", json!(consent_level)),
            ("redacted", json!(draft.redacted.unwrap_or(false))),
            ("scope", scope),
            ("payload", Value::Object(draft.payload.clone())),
        ];
        Ok((members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(), event_id))
    }

    /// The server may have types of its own, and lanes of its own for ours.
    async fn lane_of(&mut self, event_type: &str, number: u64) -> Result<Lane, Failure> {
        if self.registry.is_none() {
            self.registry = Some(match self.client.event_registry().await {
                Ok(registry) => registry.event_types.into_iter().map(|kind| (kind.event_type, kind.lane)).collect(),
                // A server that keeps its registry to itself knows the built-in types.
                Err(Error::Refused(refusal)) if matches!(refusal.status, 404 | 405) => BTreeMap::new(),
                Err(error) => return Err(failed(error)),
            });
        }
        let told = self.registry.as_ref().and_then(|registry| registry.get(event_type).copied());
        if let Some(lane) = told {
            return Ok(lane);
        }
        let built_in = Registry::built_in().map_err(Failure::refused)?.lane_of(event_type);
        built_in.filter(|_| self.registry.as_ref().is_some_and(BTreeMap::is_empty)).ok_or_else(|| {
            Failure::refused(format!(
                "line {number}: {event_type:?} is not a registered event type; with --lane it is sent all the same, and held"
            ))
        })
    }

    async fn consent_in(&mut self, lane: Lane) -> Result<ConsentLevel, Failure> {
        if let Some(level) = self.consent.get(&lane) {
            return Ok(*level);
        }
        match self.client.consent(None, Some(lane)).await.map_err(failed)? {
            ConsentAnswer::Effective { level } => {
                self.consent.insert(lane, level);
                Ok(level)
            }
            ConsentAnswer::Levels { .. } => Err(Failure::refused(
                "the server does not say what holds for this computer: say it with --consent-level",
            )),
        }
    }

    /// Sends what is pending until it is settled. `own`: whether it is of the input that is worked on.
    async fn deliver(&mut self, chain: &mut Chain, own: bool) -> Done {
        let mut moved = false;
        while let Some(pending) = chain.pending().cloned() {
            let told = Told { pending: &pending, position: chain.next(), own, moved };
            match self.client.event_submit(pending.sealed.clone()).await {
                Ok(SubmitResult::Forwarded { receipt_id }) => {
                    self.tally.sent += 1;
                    self.tally.receipts.push((pending.event_id, receipt_id));
                    told.say(
                        self.voice,
                        json!({ "receipt_id": receipt_id }),
                        "sent ",
                        &format!("receipt {receipt_id}"),
                    );
                    chain.taken();
                }
                Ok(SubmitResult::Held { warning, .. }) => {
                    self.tally.held += 1;
                    told.say(self.voice, json!({ "held": true, "warning": warning }), "held ", &warning);
                    chain.set_aside();
                }
                Err(error) if error.code() == Some("event_id_conflict") => {
                    self.tally.known += 1;
                    let words = "an event with this id is in the log already";
                    told.say(self.voice, json!({ "known": true }), "known", words);
                    chain.set_aside();
                }
                Err(error) => match expected(&error).filter(|_| !moved) {
                    Some(position) => {
                        moved = true;
                        chain.move_to(position)?;
                    }
                    None => return Err(unsettled(chain, &pending, error)),
                },
            }
        }
        Ok(())
    }
}

/// The place at which the server wants the chain to go on.
fn expected(error: &Error) -> Option<Position> {
    let refusal = error.refusal().filter(|refusal| matches!(refusal.status, 409 | 422))?;
    serde_json::from_value(refusal.body.others.get("expected")?.clone()).ok()
}

fn unsettled(chain: &mut Chain, pending: &Pending, error: Error) -> Failure {
    let is_hopeless = error.refusal().is_some_and(|refusal| refusal.status == 413);
    let is_refused_again = expected(&error).is_some();
    let Failure::Refused(reason) = failed(error) else { return Failure::refused("the event was refused") };
    if is_hopeless {
        chain.give_up();
        return Failure::Refused(format!("{reason}\n  event {} is too large for this server", pending.event_id));
    }
    if is_refused_again {
        return Failure::Refused(format!(
            "{reason}\n  event {} was put on the place that the server expected, and was refused there too: something else sends \
             on this chain. It is kept in {}",
            pending.event_id,
            chain.path(),
        ));
    }
    Failure::Refused(reason)
}
