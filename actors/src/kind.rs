//! The kinds of actor of this server.
//!
//! To add one: a row here, its actor in its own file, and its child in the wiring (`crates/app/src/supervised.rs`). `tests/tidy.rs` checks
//! that every kind is wired, has its row in `docs/operations.md` and, if requests wait for it, its section in `config.toml`.

use std::fmt;
use std::time::Duration;

use domain::Rng;
use domain::log_part::LogPart;
use supervision::{ActorSettings, Jitter, Kind};

/// Defines the enum from its rows: description, variant, name, built-in limits.
macro_rules! kinds {
    ($($(#[doc = $description:literal])+ $kind:ident = $name:literal, $limits:expr;)+) => {
        /// A kind of actor. The order of the variants is the order in which the actors are started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ActorKind {
            $($(#[doc = $description])+ $kind,)+
        }

        impl ActorKind {
            /// Every kind, in start order.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Name in the configuration (`[actors.<name>]`), in logs, in metrics and in `/actors`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// The task of the actor, as one sentence.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($description),+).trim_ascii_start(),)+
                }
            }

            /// The limits in which the kind differs from `[actors]` unless its section `[actors.<name>]` sets them.
            pub const fn limits(self) -> Limits {
                match self {
                    $(Self::$kind => $limits,)+
                }
            }
        }
    };
}

kinds! {
    /// Finds computers by their secrets, many requests in one statement (PostgreSQL only).
    Lookup = "lookup", GROUPED;
    /// Opens parts of the log after their servers were away.
    Parts = "parts", PERIODIC;
    /// Commits events to the embedded log, many in one transaction.
    Intake = "intake", GROUPED;
    /// Assigns tree positions to new events and signs checkpoints.
    Sequence = "sequence", PERIODIC;
    /// Stores the newest checkpoint of the embedded log in the main database.
    Anchor = "anchor", PERIODIC;
    /// Asks witnesses to cosign the newest checkpoint of the embedded log.
    Witness = "witness", PERIODIC;
    /// Counts usage.
    Meter = "meter", PERIODIC;
    /// Adds new events of the embedded log to the sums of their sessions.
    AgentSessions = "agent_sessions", PERIODIC;
    /// Moves the bodies of old events of the embedded log into an object store.
    Archive = "archive", PERIODIC;
    /// Commits held events, many in one transaction.
    Hold = "hold", GROUPED;
    /// Opens the separate database of the memory after its server was away, and empties spaces that were deleted in the meantime.
    Memory = "memory", PERIODIC;
    /// Sends mail.
    Mail = "mail", Limits::NONE;
    /// Serialises the transitions of one registration.
    // A request that finds 64 others waiting for the same registration comes from a faulty client.
    Claims = "claims", Limits { queue_max: Some(64), idle_after: Some(Duration::from_mins(2)), ..Limits::NONE };
    /// Answers the polls of one device code and enforces their interval.
    // A passivated poller forgets the time of the last poll, so it must outlive the longest interval, one minute.
    Devices = "devices", Limits {
        queue_max: Some(64),
        idle_after: Some(Duration::from_mins(2)),
        live_max: Some(200_000),
        ..Limits::NONE
    };
    /// Forwards or holds all other events, one of each chain at a time.
    // Admitted events are answered in time even by a slow statistics service; further ones are refused at once.
    Ordered = "ordered", Limits { queue_max: Some(400), ask_deadline: Some(Duration::from_secs(15)), ..Limits::NONE };
    /// Adds the items of one batch.
    // The actor of a batch stops itself when it has no more work.
    Batches = "batches", Limits {
        queue_max: Some(64),
        idle_after: Some(Duration::ZERO),
        live_max: Some(10_000),
        ..Limits::NONE
    };
    /// Resumes batches whose process ended.
    Drift = "drift", PERIODIC;
    /// Computes missing embeddings.
    Backfill = "backfill", PERIODIC;
    /// Sends notifications to the endpoints of accounts.
    Webhook = "webhook", PERIODIC;
    /// Matches recorded events with rules, and writes weekly digests.
    Rule = "rule", PERIODIC;
    /// Forwards the events of consent changes and of operators' acts.
    Outbox = "outbox", PERIODIC;
    /// Reads changes that other processes made.
    Watch = "watch", PERIODIC;
    /// Stores when computers were last seen.
    Presence = "presence", PERIODIC;
    /// Stores the quota usage of event senders.
    Budget = "budget", PERIODIC;
    /// Writes this node into the table of nodes and reads the others.
    Node = "node", PERIODIC;
    /// Deletes expired records.
    Janitor = "janitor", PERIODIC;
}

impl ActorKind {
    /// Whether the kind has a section `[actors.<name>]`. The passes of a periodic actor have fixed limits.
    pub fn is_configurable(self) -> bool {
        self.limits() != PERIODIC
    }
}

/// Grouping needs many waiting messages at once.
const GROUPED: Limits = Limits { queue_max: Some(8192), ..Limits::NONE };

/// Passes have no waiting callers, and a pass may be slow on a slow disk.
const PERIODIC: Limits = Limits { queue_max: Some(16), stuck_after: Some(Duration::from_mins(2)), ..Limits::NONE };

/// The differences of a kind from the common limits. The fields match [`ActorSettings`]; `None` means no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    queue_max: Option<u32>,
    ask_deadline: Option<Duration>,
    idle_after: Option<Duration>,
    live_max: Option<usize>,
    stuck_after: Option<Duration>,
}

impl Limits {
    const NONE: Self =
        Self { queue_max: None, ask_deadline: None, idle_after: None, live_max: None, stuck_after: None };

    /// `settings` with these limits.
    #[must_use]
    pub fn applied_to(self, settings: &ActorSettings) -> ActorSettings {
        ActorSettings {
            queue_max: self.queue_max.unwrap_or(settings.queue_max),
            ask_deadline: self.ask_deadline.unwrap_or(settings.ask_deadline),
            idle_after: self.idle_after.unwrap_or(settings.idle_after),
            live_max: self.live_max.unwrap_or(settings.live_max),
            stuck_after: self.stuck_after.unwrap_or(settings.stuck_after),
            ..settings.clone()
        }
    }
}

impl Kind for ActorKind {
    const METRICS_PREFIX: &'static str = "attache";

    fn name(self) -> &'static str {
        self.name()
    }

    /// All kinds except grouping ones: those only buffer a message, several per request in event intake, and their later work serves many
    /// senders at once.
    fn has_spans(self) -> bool {
        !matches!(self, Self::Lookup | Self::Intake | Self::Hold)
    }
}

/// A kind of actor of one part of the log. Kinds of further parts have its number in their names.
#[derive(Debug, Clone, Copy)]
pub struct PartKind {
    kind: ActorKind,
    name: &'static str,
}

impl PartKind {
    /// The kind of a part. Called once for each configured part: the name stays in memory.
    pub fn new(kind: ActorKind, part: LogPart) -> Self {
        let name = if part.is_first() { kind.name() } else { Box::leak(format!("{kind}_{part}").into_boxed_str()) };
        Self { kind, name }
    }
}

impl From<ActorKind> for (ActorKind, PartKind) {
    fn from(kind: ActorKind) -> Self {
        (kind, PartKind::new(kind, LogPart::FIRST))
    }
}

impl Kind for PartKind {
    const METRICS_PREFIX: &'static str = ActorKind::METRICS_PREFIX;

    fn name(self) -> &'static str {
        self.name
    }

    fn has_spans(self) -> bool {
        Kind::has_spans(self.kind)
    }
}

impl fmt::Display for ActorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Jitter of restarts and passes, from the server's random generator.
pub fn jitter(rng: &Rng) -> Jitter {
    let rng = rng.clone();
    Jitter::new(move || rng.fraction())
}
