//! Every knob of the server: one [`Settings`] value, composed of the settings that each room keeps beside its code.
//!
//! A knob is read from three places, later ones winning: the default in the code, `config.toml`, and an environment variable named
//! `ATTACHE_` + the path in capitals joined by `__` (`ATTACHE_HTTP__BIND`). All mistakes are reported at once, each with its place,
//! its reason and a way out ([`reading`]).

mod actors;
mod knowledge;
mod plans;
pub mod reading;
mod signin;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::actors::budget::BudgetSettings;
use serde::{Deserialize, Serialize};
use statistics::client::UpstreamSettings;
use statistics::log::WriterSettings;
use store::DatabaseSettings;
use store::held::HeldQuotas;
use supervision::RootSettings;

pub use self::actors::ActorsSettings;
pub use self::knowledge::KnowledgeSettings;
pub use self::plans::{AccountSettings, PlanSettings};
pub use self::reading::{Problem, Problems, load};
pub use self::signin::{OidcSettings, SigninSettings};

/// Every knob.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where files live.
    pub data: DataSettings,
    /// The main database.
    pub database: DatabaseSettings,
    /// The public listener.
    pub http: crate::http::Settings,
    /// The operator's listener.
    pub admin: AdminSettings,
    /// The statistics service.
    pub upstream: UpstreamSettings,
    /// The embedded statistics service.
    pub log: LogSettings,
    /// Event intake.
    pub events: EventSettings,
    /// Registration and claims of agents.
    pub claims: ::actors::claim::ClaimSettings,
    /// Device codes.
    pub devices: ::actors::device::DeviceSettings,
    /// The account page and summary.
    pub account: AccountSettings,
    /// What every plan allows.
    pub plans: PlanSettings,
    /// Computers.
    pub machines: MachineSettings,
    /// Browser sessions.
    pub sessions: SessionSettings,
    /// Signing in.
    pub signin: SigninSettings,
    /// Letters.
    pub mail: ::actors::mail::MailSettings,
    /// Consent.
    pub consent: ConsentSettings,
    /// Keys of the knowledge API.
    pub api_keys: ApiKeySettings,
    /// The knowledge API.
    pub knowledge: KnowledgeSettings,
    /// How often one address may try.
    pub limits: crate::http::LimitSettings,
    /// Cleaning up.
    pub janitor: ::actors::janitor::JanitorSettings,
    /// Supervision.
    pub actors: ActorsSettings,
    /// Starting and stopping as a whole.
    pub shutdown: ShutdownSettings,
    /// Logs.
    pub telemetry: crate::telemetry::Settings,
}

/// `[data]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSettings {
    /// Folder of the embedded databases; created when it is missing.
    pub dir: PathBuf,
}

impl DataSettings {
    /// The name of the embedded database with the facts.
    pub const FACTS: &str = "attache.db";

    /// The name of that with the log.
    pub const LOG: &str = "statistics.db";

    /// The embedded database with the facts.
    pub fn facts(&self) -> PathBuf {
        self.dir.join(Self::FACTS)
    }

    /// That with the log.
    pub fn log(&self) -> PathBuf {
        self.dir.join(Self::LOG)
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        Self { dir: PathBuf::from("data") }
    }
}

/// `[admin]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminSettings {
    /// Address of the operator's listener: health, metrics, the living actors. It asks for no credential, so it belongs on loopback
    /// or on a closed network.
    pub bind: SocketAddr,
    /// Names under which operators reach it, beside `localhost` and any address.
    pub hosts: Vec<String>,
    /// How many connections may be open; one more closes the oldest that is idle.
    pub connections_max: usize,
    /// How long one probe of the databases answers for every request for readiness.
    #[serde(with = "humantime_serde")]
    pub probe_every: Duration,
    /// How long a probe may take before its database is reported as failing.
    #[serde(with = "humantime_serde")]
    pub probe_deadline: Duration,
    /// How long an actor with waiting messages may finish none, and how long signing the log may fail, before the server is unready.
    #[serde(with = "humantime_serde")]
    pub stalled_after: Duration,
    /// SQLite: with fewer free bytes on the file system of the data folder the server is unready; 0 switches that off.
    pub free_bytes_min: u64,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 8081)),
            hosts: Vec::new(),
            connections_max: 64,
            probe_every: Duration::from_secs(1),
            probe_deadline: Duration::from_secs(2),
            stalled_after: Duration::from_secs(3),
            free_bytes_min: 1 << 20,
        }
    }
}

/// `[log]`: the embedded statistics service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Name of the log in its checkpoints and keys; fixed once the log has begun.
    pub origin: String,
    /// How many events one commit takes at most.
    pub batch_max: usize,
    /// How often new events get their place in the tree and a checkpoint is signed.
    #[serde(with = "humantime_serde")]
    pub checkpoint_every: Duration,
    /// How many events one such pass takes at most.
    pub sequence_max: u32,
    /// How often the main database remembers the newest checkpoint, while the log grows.
    #[serde(with = "humantime_serde")]
    pub remember_every: Duration,
    /// SQLite: how many chains have their heads in memory.
    pub chains_max: usize,
    /// SQLite: size of a page of a log file that is created, in bytes; a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// SQLite: size of the write-ahead log, in bytes, at which it is overwritten from its beginning; it is copied into the file in parts.
    pub wal_bytes: u64,
    /// SQLite: events after which a busy log writes its indexes.
    pub index_every: usize,
    /// SQLite: maximum size of the filters in front of the index of ids, in bytes.
    pub id_filters_bytes: u64,
    /// Maximum size of the cache of full Merkle tiles, in bytes.
    pub tiles_cache_bytes: u64,
}

impl LogSettings {
    /// The limits of the writer of an SQLite file.
    pub fn writer(&self) -> WriterSettings {
        WriterSettings {
            group_max: self.batch_max,
            chains_max: self.chains_max,
            wal_bytes: self.wal_bytes,
            index_every: self.index_every,
            id_filters_bytes: self.id_filters_bytes,
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            origin: "attache/log".into(),
            batch_max: WriterSettings::default().group_max,
            checkpoint_every: Duration::from_millis(500),
            sequence_max: 20_000,
            remember_every: Duration::from_secs(5),
            chains_max: WriterSettings::default().chains_max,
            page_bytes: 16_384,
            wal_bytes: WriterSettings::default().wal_bytes,
            index_every: WriterSettings::default().index_every,
            id_filters_bytes: WriterSettings::default().id_filters_bytes,
            tiles_cache_bytes: 64 << 20,
        }
    }
}

/// `[events]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventSettings {
    /// The six third-party agents that events may name.
    pub third_party_agents: Vec<String>,
    /// A registry file that extends or replaces the built-in event types.
    pub registry: Option<PathBuf>,
    /// Largest envelope that is read as one; larger bodies are held unread.
    pub body_bytes_max: usize,
    /// How many events may be in the hands of the intake at once, over all chains.
    pub workers: usize,
    /// How much may be held.
    pub held: HeldQuotas,
    /// Budget of a sender without an account.
    pub unattached: BudgetSettings,
}

impl Default for EventSettings {
    fn default() -> Self {
        let third_party = ["claude-code", "codex", "cursor", "gemini-cli", "github-copilot", "opencode"];
        Self {
            third_party_agents: third_party.map(String::from).to_vec(),
            registry: None,
            body_bytes_max: 256 * 1024,
            workers: 128,
            held: HeldQuotas::default(),
            unattached: BudgetSettings::default(),
        }
    }
}

/// Who may register computers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineRegistration {
    /// Anyone.
    #[default]
    Open,
    /// Whoever presents the enrolment key as a bearer token.
    Key,
    /// Operators alone, with `attache admin machine add`.
    Off,
}

/// `[machines]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSettings {
    /// Who may register computers.
    pub registration: MachineRegistration,
    /// The key that `registration = "key"` asks for.
    pub enrolment_key: Option<String>,
}

/// `[sessions]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// How long a session lives after it was last used.
    #[serde(with = "humantime_serde")]
    pub valid_for: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { valid_for: Duration::from_hours(7 * 24) }
    }
}

/// `[api_keys]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiKeySettings {
    /// Good keys that one account may have.
    pub per_account_max: u32,
}

impl Default for ApiKeySettings {
    fn default() -> Self {
        Self { per_account_max: 100 }
    }
}

/// `[consent]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsentSettings {
    /// The level that is reported where a person set none; it is never enforced.
    pub default_level: domain::consent::ConsentLevel,
    /// Pause between two tries to report changes that the statistics service did not take at once.
    #[serde(with = "humantime_serde")]
    pub outbox_every: Duration,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        Self { default_level: domain::consent::ConsentLevel::MetadataOnly, outbox_every: Duration::from_secs(5) }
    }
}

/// `[shutdown]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownSettings {
    /// How long requests and actors get to finish after SIGTERM; a second signal ends everything at once.
    #[serde(with = "humantime_serde")]
    pub drain_deadline: Duration,
    /// How long they get when the supervision gives up.
    #[serde(with = "humantime_serde")]
    pub give_up_deadline: Duration,
    /// An actor that is not up after this long has failed to start.
    #[serde(with = "humantime_serde")]
    pub start_deadline: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self {
            drain_deadline: Duration::from_secs(20),
            give_up_deadline: Duration::from_secs(10),
            start_deadline: Duration::from_secs(30),
        }
    }
}

impl ShutdownSettings {
    /// As the supervision wants it.
    pub fn root(&self) -> RootSettings {
        let Self { give_up_deadline, start_deadline, .. } = *self;
        RootSettings { give_up_deadline, start_deadline, ..RootSettings::default() }
    }
}

impl Settings {
    /// What is wrong with values that have the right type, as pairs of path and reason.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut rule = |kept: bool, path: &str, reason: &str| {
            if !kept {
                problems.push((path.to_owned(), reason.to_owned()));
            }
        };
        let mut agents = self.events.third_party_agents.clone();
        agents.sort();
        agents.dedup();
        rule(agents.len() == 6, "events.third_party_agents", "exactly six different names are needed");
        let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        rule(
            agents.iter().all(|name| !name.is_empty() && plain(name)),
            "events.third_party_agents",
            "names are of letters, digits, '-', '_' and '.'",
        );
        rule(
            !agents.iter().any(|name| name.starts_with("svc-")),
            "events.third_party_agents",
            "names that begin with svc- are ours",
        );
        rule(
            (1..=crate::http::BODY_BYTES_HARD_MAX).contains(&self.events.body_bytes_max),
            "events.body_bytes_max",
            "must be from 1 to 1048576; larger bodies are refused on every route",
        );
        rule(self.events.workers > 0, "events.workers", "must be at least 1");
        let is_part = (1..=100).contains(&self.events.held.sender_percent);
        rule(is_part, "events.held.sender_percent", "must be from 1 to 100");
        rule(self.log.batch_max > 0, "log.batch_max", "must be at least 1");
        rule(self.log.sequence_max > 0, "log.sequence_max", "must be at least 1");
        rule(self.log.index_every > 0, "log.index_every", "must be at least 1");
        for (page_bytes, key) in
            [(self.log.page_bytes, "log.page_bytes"), (self.database.page_bytes, "database.page_bytes")]
        {
            let is_fit = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
            rule(is_fit, key, "must be a power of two from 512 to 65536");
        }
        rule(
            (Duration::from_millis(10)..=Duration::from_secs(1)).contains(&self.log.checkpoint_every),
            "log.checkpoint_every",
            "must be from 10ms to 1s: checkpoints are promised at least every second",
        );
        rule(
            (Duration::from_secs(1)..=Duration::from_mins(1)).contains(&self.log.remember_every),
            "log.remember_every",
            "must be from 1s to 1m",
        );
        rule(
            statistics::checkpoint::base_of(&self.log.origin) == self.log.origin,
            "log.origin",
            "must not contain '/epoch-', with which epochs of the log are named",
        );
        rule(
            statistics::checkpoint::SignerKey::from_seed(&self.log.origin, &[0; 32]).is_ok(),
            "log.origin",
            "must be a name without spaces and '+'",
        );
        rule(
            self.machines.registration != MachineRegistration::Key || self.machines.enrolment_key.is_some(),
            "machines.enrolment_key",
            "is needed when machines.registration is \"key\"",
        );
        rule(!self.consent.outbox_every.is_zero(), "consent.outbox_every", "must be longer than 0s");
        rule(self.admin.connections_max > 0, "admin.connections_max", "must be at least 1");
        rule(!self.admin.probe_deadline.is_zero(), "admin.probe_deadline", "must be longer than 0s");
        rule(!self.admin.stalled_after.is_zero(), "admin.stalled_after", "must be longer than 0s");
        rule(!self.sessions.valid_for.is_zero(), "sessions.valid_for", "must be longer than 0s");
        rule(!self.account.section_deadline.is_zero(), "account.section_deadline", "must be longer than 0s");
        let within = |section: &'static str, inner: Vec<(String, String)>| {
            inner.into_iter().map(move |(path, reason)| (format!("{section}.{path}"), reason))
        };
        problems.extend(within("http", self.http.problems()));
        problems.extend(within("upstream", self.upstream.problems()));
        problems.extend(within("limits", self.limits.problems()));
        problems.extend(within("claims", self.claims.problems()));
        problems.extend(within("signin", self.signin.problems()));
        problems.extend(within("mail", self.mail.problems()));
        problems.extend(within("devices", self.devices.problems()));
        problems.extend(within("plans", self.plans.problems()));
        problems.extend(within("knowledge", self.knowledge.problems()));
        problems.extend(within("actors", self.actors.problems()));
        if let Err(error) = self.registry() {
            problems.push(("events.registry".into(), error));
        }
        problems
    }

    /// The event registry that `events.registry` asks for.
    pub fn registry(&self) -> Result<domain::registry::Registry, String> {
        use domain::registry::Registry;
        let read = match &self.events.registry {
            None => Registry::built_in(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                Registry::from_file(&text)
            }
        };
        read.map_err(|error| error.to_string())
    }

    /// The agents that events may name.
    pub fn agent_kinds(&self) -> domain::envelope::AgentKinds {
        domain::envelope::AgentKinds::new(self.events.third_party_agents.iter().cloned())
    }
}
