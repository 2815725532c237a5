//! The actors, in their start order. The supervisor stops them in reverse order.

use std::collections::BTreeMap;
use std::time::Duration;

use actors::agent_sessions::SessionFollower;
use actors::anchor::Anchor;
use actors::archive::ArchivePass;
use actors::backfill::Backfill;
use actors::budget::BudgetKeeper;
use actors::claim::Claims;
use actors::device::DeviceCodes;
use actors::ingest::OrphanedBatches;
use actors::intake::grouped::{AppendedPart, GroupedIntake};
use actors::intake::{HeldBatch, Intake};
use actors::janitor::Janitor;
use actors::keys::KeyedActors;
use actors::lookup::{MachineLookup, SecretBatch};
use actors::mail::{Mail, Mailer};
use actors::meter::UsageMeter;
use actors::node::{NodePass, NodeTable};
use actors::outbox::Outbox;
use actors::presence::PresencePass;
use actors::rule::RulePass;
use actors::sequence::Sequence;
use actors::upstream::Upstream;
use actors::watch::{ChangeFeed, OrderExecutor, OverrideFollower};
use actors::webhook::WebhookPass;
use actors::witness::Witnesses;
use actors::{ActorKind, PartKind, jitter};
use domain::log_part::LogPart;
use domain::node::BEAT_SECONDS;
use statistics::parts::PartSlot;
use supervision::ChildSpec;
use supervision::commit::Committer;
use supervision::periodic::{LiveSchedule, Pass, Periodic, Rest, Schedule, Waker};

use super::builder::{Builder, Counters, Hold, OUTBOX};
use super::config::Settings;
use super::installation::{MemoryKeeper, PartOpener};
use super::knowledge::KnowledgeServices;

/// Pause of actors that only look for changes.
const SECOND: Duration = Duration::from_secs(1);

/// Maximum number of items in one transaction: larger groups save little of a commit, and the first item waits for the last.
const GROUP_MAX: usize = 256;

/// Maximum number of events in one pass of the sequencer: about a second of the fastest intake.
const SEQUENCE_MAX: u32 = 20_000;

/// Timeout of one pass of a periodic actor.
const PASS_DEADLINE: Duration = Duration::from_mins(1);

/// Rest of the sequencer: the time until it rests, and the pause of its passes then. The first exceeds another node's lease, so that a node
/// with events to sequence does not rest before it could take the lease.
const SEQUENCE_REST: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(2));

/// Rest of the meter, which the local sequencer wakes; other nodes count the leaves that they add.
const METER_REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(20));

/// Rest of the actor that adds events to sessions, which the local sequencer wakes.
const SESSIONS_REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(20));

/// Pause between two passes that write the archive.
const ARCHIVE_EVERY: Duration = Duration::from_secs(2);

/// Rest of the actor that writes the archive. The local sequencer wakes it; bodies leave the database late by this much.
const ARCHIVE_REST: (Duration, Duration) = (Duration::from_secs(4), Duration::from_mins(1));

/// Rest of the reader of recorded events, which the local sequencer wakes. Messages that wait for their time are late by this much.
const RULE_REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));

/// Pause between two passes that compute missing embeddings.
const EMBED_MISSING_EVERY: Duration = Duration::from_secs(5);

/// Pause between two tries to open a part of the log, or the database of the memory.
const OPEN_EVERY: Duration = Duration::from_secs(2);

/// Rest of the anchor, which the local sequencer wakes.
const ANCHOR_REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));

/// Rest of the reader of changes while a connection listens. Three passes follow each hint.
const WATCH_REST: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(8));

/// Wake actors that rest.
#[derive(Default)]
pub(super) struct Wakers {
    /// The tree of any part has grown: the reader of recorded events.
    pub recorded: Waker,
    /// Other processes changed something: the reader of changes.
    pub changed: Waker,
}

/// Wake the actors of one part of the log that rest.
#[derive(Default)]
struct PartWakers {
    /// Events were appended: the sequencer.
    appended: Waker,
    /// The tree has grown: the meter.
    grown: Waker,
    /// The tree has grown: the actor that adds events to sessions.
    followed: Waker,
    /// A checkpoint was signed: the anchor.
    signed: Waker,
    /// The tree has grown: the actor that writes the archive.
    archived: Waker,
}

pub(super) struct Supervised<'s> {
    pub builder: &'s Builder<'s>,
    pub lookup: &'s MachineLookup,
    pub upstream: &'s Upstream,
    /// Of each part of the embedded log.
    pub anchors: &'s [Anchor],
    /// Of each part of the embedded log, if there are any.
    pub witnesses: &'s [Witnesses],
    /// Opens further parts of the embedded log.
    pub parts: Option<&'s PartOpener>,
    /// Opens a separate database of the memory.
    pub memory: Option<MemoryKeeper>,
    pub hold: &'s Hold,
    pub mail: (&'s Mail, Mailer),
    pub claims: &'s Claims,
    pub devices: &'s DeviceCodes,
    pub intake: &'s Intake,
    pub knowledge: &'s KnowledgeServices,
    pub outbox: &'s Outbox,
    pub counters: &'s Counters,
    pub nodes: &'s NodeTable,
    /// Only if webhooks are on.
    pub webhooks: Option<&'s WebhookPass>,
    /// Only with the embedded log.
    pub rules: Option<&'s RulePass>,
    pub overrides: OverrideFollower,
    pub orders: OrderExecutor,
    pub wakers: Wakers,
}

impl Supervised<'_> {
    /// The specifications of all actors, in the order of their start.
    pub(super) fn children(self) -> Vec<ChildSpec> {
        let mut children = Vec::new();
        children.extend(self.lookup());
        children.extend(self.log());
        children.push(self.hold());
        children.extend(self.memory.clone().map(|keeper| self.periodic(ActorKind::Memory, keeper, every(OPEN_EVERY))));
        children.extend(self.knowledge_and_requests());
        children.extend(self.webhooks());
        children.extend(self.rules());
        children.extend(self.housekeeping());
        children
    }

    /// PostgreSQL: groups the lookups of concurrent requests.
    fn lookup(&self) -> Option<ChildSpec> {
        let MachineLookup::Grouped(group) = self.lookup else { return None };
        let ledger = SecretBatch(self.builder.store.clone());
        Some(ChildSpec::singleton(group, move || (Committer::new(ledger.clone(), GROUP_MAX), ())))
    }

    /// The actors of the embedded statistics service: of each part, and one appender for each server.
    fn log(&self) -> Vec<ChildSpec> {
        let Upstream::Embedded { intake, log } = self.upstream else { return Vec::new() };
        let mut children = Vec::new();
        children.extend(self.parts.map(|opener| self.periodic(ActorKind::Parts, opener.clone(), every(OPEN_EVERY))));
        let wakers: BTreeMap<LogPart, PartWakers> =
            log.slots().map(|(part, _)| (part, PartWakers::default())).collect();
        for (handle, parts) in intake.actors() {
            let appended = parts.into_iter().filter_map(|part| {
                let (log, appended) = (log.slot(part)?.clone(), wakers.get(&part)?.appended.clone());
                Some(AppendedPart { part, log, appended })
            });
            let grouped = GroupedIntake::new(appended.collect(), GROUP_MAX);
            children.push(ChildSpec::singleton(handle, move || (grouped.clone(), ())));
        }
        for (part, slot) in log.slots() {
            if let Some(wakers) = wakers.get(&part) {
                children.extend(self.part(part, slot, wakers));
            }
        }
        children
    }

    /// The actors of a part.
    fn part(&self, part: LogPart, slot: &PartSlot, wakers: &PartWakers) -> Vec<ChildSpec> {
        let PartWakers { appended, grown, followed, signed, archived } = wakers;
        let sequence = Sequence {
            part,
            log: slot.clone(),
            events_max: SEQUENCE_MAX,
            grown: vec![grown, followed, &self.wakers.recorded, signed, archived].into_iter().cloned().collect(),
        };
        let checkpoint = self.live_every(|settings| settings.log.checkpoint_every);
        let remember = self.live_every(|settings| settings.log.remember_every);
        let of = |kind| (kind, PartKind::new(kind, part));
        let mut children =
            vec![self.resting(of(ActorKind::Sequence), sequence, checkpoint.clone(), SEQUENCE_REST, appended)];
        let anchor = self.anchors.iter().find(|anchor| anchor.part == part);
        children.extend(
            anchor.map(|anchor| self.resting(of(ActorKind::Anchor), anchor.clone(), remember, ANCHOR_REST, signed)),
        );
        let witnesses = self.witnesses.iter().find(|witnesses| witnesses.part() == part);
        children.extend(witnesses.map(|pass| self.periodic_of(of(ActorKind::Witness), pass.clone(), checkpoint)));
        let meter = UsageMeter { usage: self.counters.usage.clone(), part };
        children.push(self.resting(of(ActorKind::Meter), meter, every(SECOND), METER_REST, grown));
        let follower = SessionFollower(slot.clone());
        children.push(self.resting(of(ActorKind::AgentSessions), follower, every(SECOND), SESSIONS_REST, followed));
        if self.builder.settings.log.archive.url.is_some() {
            let pass = ArchivePass { part, log: slot.clone() };
            children.push(self.resting(of(ActorKind::Archive), pass, every(ARCHIVE_EVERY), ARCHIVE_REST, archived));
        }
        children
    }

    /// Stores held events in groups.
    fn hold(&self) -> ChildSpec {
        let quotas = self.builder.live.part(|settings| settings.events.held);
        let ledger = HeldBatch { store: self.builder.store.clone(), quotas };
        ChildSpec::singleton(self.hold, move || (Committer::new(ledger.clone(), GROUP_MAX), ()))
    }

    /// The actors that requests wait for.
    fn knowledge_and_requests(&self) -> Vec<ChildSpec> {
        let (mail, mailer) = (self.mail.0, self.mail.1.clone());
        let KnowledgeServices { pipeline, search, ingestion } = self.knowledge;
        let (store, embedder) = (ingestion.store().clone(), pipeline.stages().embedder.clone());
        let backfill = Backfill { store, embedder, index: search.index().clone(), pauses: self.builder.pauses.clone() };
        let settings = self.builder.settings;
        // Looks for orphans of other nodes; on SQLite only an earlier process leaves any.
        let drift_every = if self.builder.store.pool().is_postgres() { 3 * SECOND } else { SECOND };
        vec![
            ChildSpec::singleton(mail.handle(), move || (mailer.clone(), ())),
            self.claims.ceremonies().child(self.claims.prototype()),
            self.devices.pollers().child(self.devices.prototype()),
            self.intake.ordered(settings.events.workers),
            ingestion.batches().child(ingestion.prototype()),
            self.periodic(ActorKind::Drift, OrphanedBatches(ingestion.clone()), every(drift_every)),
            self.periodic(ActorKind::Backfill, backfill, every(EMBED_MISSING_EVERY)),
        ]
    }

    /// Sends notifications.
    fn webhooks(&self) -> Option<ChildSpec> {
        let pass = self.webhooks?.clone();
        let schedule = self.live_every(|settings| settings.webhooks.look_every);
        Some(self.periodic(ActorKind::Webhook, pass, schedule))
    }

    /// Reads recorded events for rules.
    fn rules(&self) -> Option<ChildSpec> {
        let pass = self.rules?.clone();
        Some(self.resting(ActorKind::Rule, pass, every(SECOND), RULE_REST, &self.wakers.recorded))
    }

    /// The actors that no request waits for.
    fn housekeeping(&self) -> Vec<ChildSpec> {
        let Builder { settings, live, store, clock, .. } = self.builder;
        let Counters { usage, presence, budgets } = self.counters;
        let Wakers { changed, .. } = &self.wakers;
        let changes = ChangeFeed {
            store: (*store).clone(),
            clock: (*clock).clone(),
            keyed: KeyedActors {
                claims: self.claims.clone(),
                devices: self.devices.clone(),
                ingestion: self.knowledge.ingestion.clone(),
            },
            keep_retired_for: settings.claims.keep_keys_for(),
            overrides: self.overrides.clone(),
            pauses: self.builder.pauses.clone(),
            node: self.builder.node,
            orders: self.orders.clone(),
            waker: changed.clone(),
        };
        let janitor = Janitor {
            store: (*store).clone(),
            clock: (*clock).clone(),
            settings: live.part(|settings| settings.janitor.purge),
            feeds_kept: live.part(|settings| settings.feeds.kept),
            outbox: settings.data.dir.join(OUTBOX),
            mail_files_kept: settings.mail.files_kept,
        };
        let outbox = self.live_every(|settings| settings.consent.outbox_every);
        let mut children = vec![
            self.periodic(ActorKind::Outbox, self.outbox.clone(), outbox),
            self.resting(ActorKind::Watch, changes, every(SECOND), WATCH_REST, changed),
        ];
        if self.upstream.logs().is_none() {
            let meter = UsageMeter { usage: usage.clone(), part: LogPart::FIRST };
            children.push(self.periodic(ActorKind::Meter, meter, every(SECOND)));
        }
        children.extend([
            self.periodic(ActorKind::Presence, PresencePass(presence.clone()), every(SECOND)),
            self.periodic(ActorKind::Budget, BudgetKeeper(budgets.clone()), every(SECOND)),
            self.periodic(ActorKind::Node, NodePass(self.nodes.clone()), every(Duration::from_secs(BEAT_SECONDS))),
            self.periodic(ActorKind::Janitor, janitor, self.live_every(|settings| settings.janitor.every)),
        ]);
        children
    }

    /// A periodic actor that rests on PostgreSQL while there is no work: an idle node must cost the database little.
    fn resting<P: Pass>(
        &self,
        kind: impl Into<(ActorKind, PartKind)>,
        pass: P,
        schedule: impl Into<LiveSchedule>,
        (after, rest): (Duration, Duration),
        waker: &Waker,
    ) -> ChildSpec {
        let (limits, kind) = kind.into();
        let rest = Rest { after, every: rest, waker: waker.clone() };
        let rest = self.builder.store.pool().is_postgres().then_some(rest);
        let handle = Periodic::<P>::handle(kind, self.builder.settings.actors.of(limits));
        Periodic::new(kind, pass, schedule, jitter(self.builder.rng)).resting(rest).child(&handle)
    }

    fn periodic<P: Pass>(&self, kind: ActorKind, pass: P, schedule: impl Into<LiveSchedule>) -> ChildSpec {
        self.periodic_of(kind.into(), pass, schedule)
    }

    fn periodic_of<P: Pass>(
        &self,
        (limits, kind): (ActorKind, PartKind),
        pass: P,
        schedule: impl Into<LiveSchedule>,
    ) -> ChildSpec {
        let handle = Periodic::<P>::handle(kind, self.builder.settings.actors.of(limits));
        Periodic::new(kind, pass, schedule, jitter(self.builder.rng)).child(&handle)
    }

    /// The schedule of passes with this pause between them, which follows the settings in force.
    fn live_every(&self, pause: impl Fn(&Settings) -> Duration + Send + Sync + 'static) -> LiveSchedule {
        let live = self.builder.live;
        let schedule = LiveSchedule::new(every(pause(&live.get())));
        let follower = schedule.clone();
        live.follow(move |settings| follower.set(every(pause(settings))));
        schedule
    }
}

/// The schedule of passes with this pause between them.
fn every(every: Duration) -> Schedule {
    Schedule { every, deadline: PASS_DEADLINE }
}
