//! The configuration of the server: one [`Settings`] value, composed of sections that mostly live next to the code that they configure.
//!
//! A setting is read from three places, later ones take precedence: the default in the code, `config.toml`, and an environment variable
//! named `ATTACHE_` + the path in capitals joined by `__` (`ATTACHE_HTTP__BIND`). All mistakes are reported at once, each with its place,
//! its reason and a remedy ([`reading`]).

mod actors;
mod admin;
mod differences;
mod http;
mod knowledge;
mod limits;
pub mod live;
mod log;
mod plans;
pub mod reading;
mod shared;
pub mod shown;
mod signin;
mod urls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::actors::budget::BudgetSettings;
use domain::log_part::LogPart;
use serde::{Deserialize, Serialize};
use statistics::client::UpstreamSettings;
use store::DatabaseSettings;
use store::feed::ENTRIES_WRITTEN_MAX;
use store::held::HeldQuotas;
use store::memory::MemoryQuota;
use store::notice::NoticeLimits;
use store::pool::{ServerRole, check_url};

pub use self::actors::ActorsSettings;
pub use self::admin::{AdminSettings, OperatorClaim, OperatorSettings};
pub use self::http::{BODY_BYTES_HARD_MAX, HttpSettings};
pub use self::knowledge::{ImportSettings, KnowledgeSettings};
pub use self::limits::LimitSettings;
pub use self::log::{LogPartSettings, LogSettings};
pub use self::plans::{AccountSettings, PlanSettings};
pub use self::reading::{Problem, Problems, load};
pub(crate) use self::signin::is_protected;
pub use self::signin::{OidcSettings, SigninSettings};
pub use self::urls::Urls;
pub use crate::services::activity::browse::ActivitySettings;
pub use crate::services::feeds::FeedSettings;

/// All settings, one field for each section of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `[data]`: the folder of the embedded databases.
    pub data: DataSettings,
    /// `[database]`: the main database.
    pub database: DatabaseSettings,
    /// `[http]`: the public listener.
    pub http: HttpSettings,
    /// `[admin]`: the operator's listener.
    pub admin: AdminSettings,
    /// `[upstream]`: the external statistics service, if any.
    pub upstream: UpstreamSettings,
    /// `[log]`: the embedded statistics service.
    pub log: LogSettings,
    /// `[events]`: event intake.
    pub events: EventSettings,
    /// `[claims]`: registration and claims of agents.
    pub claims: ::actors::claim::ClaimSettings,
    /// `[devices]`: device codes.
    pub devices: ::actors::device::DeviceSettings,
    /// `[account]`: the account page and summary.
    pub account: AccountSettings,
    /// `[activity]`: the pages of recorded events.
    pub activity: ActivitySettings,
    /// `[plans]`: the allowance of each plan.
    pub plans: PlanSettings,
    /// `[machines]`: registration of computers.
    pub machines: MachineSettings,
    /// `[sessions]`: browser sessions.
    pub sessions: SessionSettings,
    /// `[signin]`: sign-in by code and with OpenID providers.
    pub signin: SigninSettings,
    /// `[mail]`: the transport of mails.
    pub mail: ::actors::mail::MailSettings,
    /// `[consent]`: consent levels and the outbox.
    pub consent: ConsentSettings,
    /// `[api_keys]`: keys of the knowledge API.
    pub api_keys: ApiKeySettings,
    /// `[knowledge]`: the knowledge API.
    pub knowledge: KnowledgeSettings,
    /// `[webhooks]`: endpoints that accounts are notified at.
    pub webhooks: ::actors::webhook::WebhookSettings,
    /// `[feeds]`: feeds of notifications.
    pub feeds: FeedSettings,
    /// `[rules]`: rules about recorded events.
    pub rules: ::actors::rule::RuleSettings,
    /// `[limits]`: attempts of each client address.
    pub limits: LimitSettings,
    /// `[janitor]`: retention and removal of old rows.
    pub janitor: ::actors::janitor::JanitorSettings,
    /// `[actors]`: limits and restarts of actors.
    pub actors: ActorsSettings,
    /// `[shutdown]`: deadlines of start and shutdown.
    pub shutdown: ShutdownSettings,
    /// `[telemetry]`: log lines.
    pub telemetry: crate::telemetry::Settings,
}

/// `[data]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct DataSettings {
    pub dir: PathBuf,
}

impl DataSettings {
    /// File name of the main database.
    pub const MAIN_DATABASE: &str = "attache.db";

    /// File name of the log's database.
    pub const LOG: &str = "statistics.db";

    /// File in which a node on PostgreSQL stores the newest checkpoint.
    pub const CHECKPOINT: &str = "checkpoint.json";

    /// Path of the main database.
    pub fn main_database(&self) -> PathBuf {
        self.dir.join(Self::MAIN_DATABASE)
    }

    /// Path of the log's database.
    pub fn log(&self) -> PathBuf {
        self.dir.join(Self::LOG)
    }

    /// Path of the file in which a node on PostgreSQL stores the newest checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.dir.join(Self::CHECKPOINT)
    }

    /// The same for a part of the log.
    pub fn checkpoint_of(&self, part: LogPart) -> PathBuf {
        if part.is_first() { self.checkpoint() } else { self.dir.join(format!("checkpoint-p{part}.json")) }
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        Self { dir: PathBuf::from("data") }
    }
}

/// `[events]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct EventSettings {
    pub third_party_agents: Vec<String>,
    pub registry: Option<PathBuf>,
    pub body_bytes_max: usize,
    pub workers: usize,
    pub held: HeldQuotas,
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

/// The clients that may register computers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineRegistration {
    /// Any client may register a computer.
    #[default]
    Open,
    /// Clients that present the enrolment key as a bearer token.
    Key,
    /// Only operators may, with `attache admin machine add`.
    Off,
}

/// `[machines]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct MachineSettings {
    pub registration: MachineRegistration,
    pub enrolment_key: Option<String>,
}

/// `[sessions]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct SessionSettings {
    #[serde(with = "humantime_serde")]
    pub valid_for: Duration,
    #[serde(with = "humantime_serde")]
    pub ends_after: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { valid_for: Duration::from_hours(7 * 24), ends_after: Duration::from_hours(90 * 24) }
    }
}

/// `[api_keys]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ApiKeySettings {
    pub per_account_max: u32,
}

impl Default for ApiKeySettings {
    fn default() -> Self {
        Self { per_account_max: 100 }
    }
}

/// The path, or its nearest existing parent folder.
fn first_existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.symlink_metadata().is_ok())
}

/// `[consent]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ConsentSettings {
    pub default_level: domain::consent::ConsentLevel,
    #[serde(with = "humantime_serde")]
    pub outbox_every: Duration,
    #[serde(with = "humantime_serde")]
    pub pause_max: Duration,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        Self {
            default_level: domain::consent::ConsentLevel::MetadataOnly,
            outbox_every: Duration::from_secs(5),
            pause_max: Duration::from_hours(24 * 7),
        }
    }
}

/// `[shutdown]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ShutdownSettings {
    #[serde(with = "humantime_serde")]
    pub lame_duck: Duration,
    #[serde(with = "humantime_serde")]
    pub drain_deadline: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { lame_duck: Duration::ZERO, drain_deadline: Duration::from_secs(20) }
    }
}

impl Settings {
    /// Values of the right type that break a rule, as pairs of path and reason.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut rule = |is_valid: bool, path: &str, reason: &str| {
            if !is_valid {
                problems.push((path.to_owned(), reason.to_owned()));
            }
        };
        rule(
            crate::telemetry::is_filter(&self.telemetry.log),
            "telemetry.log",
            "expected a level, or a filter such as \"info,api=debug\"",
        );
        self.check_events(&mut rule);
        self.log.check(self.database.url.is_some(), &mut rule);
        rule(
            self.database.replica_url.is_none() || self.database.url.is_some(),
            "database.replica_url",
            "needs database.url: SQLite has no replica",
        );
        let memory = &self.knowledge.database;
        rule(
            memory.url.is_none() || self.database.url.is_some(),
            "knowledge.database.url",
            "needs database.url: the memory of an SQLite installation is in its file",
        );
        rule(
            memory.replica_url.is_none() || memory.url.is_some(),
            "knowledge.database.replica_url",
            "needs knowledge.database.url",
        );
        for (path, url, role) in [
            ("database.url", &self.database.url, ServerRole::Primary),
            ("database.replica_url", &self.database.replica_url, ServerRole::Standby),
            ("knowledge.database.url", &memory.url, ServerRole::Primary),
            ("knowledge.database.replica_url", &memory.replica_url, ServerRole::Standby),
        ] {
            if let Some(Err(reason)) = url.as_deref().map(|url| check_url(url, role)) {
                rule(false, path, &format!("cannot be used: {reason}"));
            }
        }
        rule(
            self.machines.registration != MachineRegistration::Key || self.machines.enrolment_key.is_some(),
            "machines.enrolment_key",
            "is needed when machines.registration is \"key\"",
        );
        rule(!self.consent.outbox_every.is_zero(), "consent.outbox_every", "must be longer than 0s");
        rule(
            (Duration::from_hours(1)..=Duration::from_hours(24 * 365)).contains(&self.consent.pause_max),
            "consent.pause_max",
            "must be from 1h to 365days",
        );
        rule(!self.janitor.every.is_zero(), "janitor.every", "must be longer than 0s");
        rule(!self.database.acquire_timeout.is_zero(), "database.acquire_timeout", "must be longer than 0s");
        rule(!self.database.connect_timeout.is_zero(), "database.connect_timeout", "must be longer than 0s");
        rule(!self.database.silent_after.is_zero(), "database.silent_after", "must be longer than 0s");
        rule(!self.sessions.valid_for.is_zero(), "sessions.valid_for", "must be longer than 0s");
        rule(
            self.sessions.ends_after >= self.sessions.valid_for,
            "sessions.ends_after",
            "must be at least sessions.valid_for",
        );
        rule(!self.account.section_deadline.is_zero(), "account.section_deadline", "must be longer than 0s");
        let window = Duration::from_hours(24) * (self.plans.longest_window_days().saturating_add(2));
        rule(
            self.janitor.purge.usage_days_kept >= window,
            "janitor.purge.usage_days_kept",
            "must be at least the longest window_days of a plan and two days",
        );
        let has_folder = first_existing(&self.data.dir).is_none_or(Path::is_dir);
        rule(has_folder, "data.dir", "is a file, or below one: name a folder");
        problems
            .extend(self.endless_durations().into_iter().map(|path| (path, "must be at most 100 years".to_owned())));
        problems.extend(self.section_problems());
        if let Err(error) = self.registry() {
            problems.push(("events.registry".into(), error));
        }
        if let Err(error) = self.prices() {
            problems.push(("activity.prices".into(), error));
        }
        problems
    }

    /// The paths of durations that are too long for the program's clocks.
    fn endless_durations(&self) -> Vec<String> {
        const LONGEST: Duration = Duration::from_hours(100 * 366 * 24);
        let mut paths = Vec::new();
        if let Ok(tree) = serde_json::to_value(self) {
            differences::leaves(&tree, "", &mut |path, value| {
                let text = value.as_str().unwrap_or_default();
                if humantime_serde::re::humantime::parse_duration(text).is_ok_and(|duration| duration > LONGEST) {
                    paths.push(path.to_owned());
                }
            });
        }
        paths
    }

    fn check_events(&self, rule: &mut impl FnMut(bool, &str, &str)) {
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
            (1..=BODY_BYTES_HARD_MAX).contains(&self.events.body_bytes_max),
            "events.body_bytes_max",
            "must be from 1 to 1048576; larger bodies are refused on every route",
        );
        rule(self.events.workers > 0, "events.workers", "must be at least 1");
        let is_part = (1..=100).contains(&self.events.held.sender_percent);
        rule(is_part, "events.held.sender_percent", "must be from 1 to 100");
    }

    /// The notifications that the store writes.
    pub fn notices(&self) -> NoticeLimits {
        NoticeLimits {
            webhook_waiting_max: self.webhooks.enabled.then_some(self.webhooks.waiting_max),
            feed_entries_max: self.feeds.enabled.then_some(ENTRIES_WRITTEN_MAX),
        }
    }

    fn section_problems(&self) -> impl Iterator<Item = (String, String)> {
        fn owned(faults: Vec<(&'static str, &'static str)>) -> Vec<(String, String)> {
            faults.into_iter().map(|(field, rule)| (field.to_owned(), rule.to_owned())).collect()
        }
        let sections = [
            ("http", self.http.problems()),
            ("upstream", self.upstream.problems()),
            ("claims", self.claims.problems()),
            ("signin", self.signin.problems()),
            ("admin", self.admin.problems(&self.data.dir, &self.signin)),
            ("mail", self.mail.problems()),
            ("devices", self.devices.problems()),
            ("activity", self.activity.problems()),
            ("plans", self.plans.problems()),
            ("knowledge", self.knowledge.problems()),
            ("actors", self.actors.problems()),
            ("webhooks", owned(self.webhooks.problems())),
            ("feeds", owned(self.feeds.problems())),
            ("rules", owned(self.rules.problems())),
        ];
        sections.into_iter().flat_map(|(section, faults)| {
            faults.into_iter().map(move |(path, reason)| (format!("{section}.{path}"), reason))
        })
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
        read.map_err(|error| domain::reasons(&error))
    }

    /// The prices of models that `activity.prices` asks for.
    pub fn prices(&self) -> Result<domain::prices::PriceTable, String> {
        use domain::prices::PriceTable;
        let read = match &self.activity.prices {
            None => PriceTable::built_in(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                PriceTable::parse(&text)
            }
        };
        read.map_err(|error| domain::reasons(&error))
    }

    /// How much an account may keep.
    pub fn memory_quota(&self) -> MemoryQuota {
        let bytes_max = self.plans.each(|plan| plan.memory_bytes);
        MemoryQuota { memories_max: self.knowledge.memories_per_account_max, bytes_max }
    }

    /// The agents that events may name.
    pub fn agent_kinds(&self) -> domain::envelope::AgentKinds {
        domain::envelope::AgentKinds::new(self.events.third_party_agents.iter().cloned())
    }
}
