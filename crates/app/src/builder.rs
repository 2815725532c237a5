//! Builds each service from the configuration and the shared resources.

use std::sync::Arc;

use actors::ActorKind;
use actors::budget::Budgets;
use actors::claim::{self, Claims, Keyring};
use actors::device::{self, DeviceCodes};
use actors::ingest::Ingestion;
use actors::intake::{EventProcessor, HeldBatch, HeldLately, Intake};
use actors::lookup::MachineLookup;
use actors::mail::{self, Mail, Mailer, Transport};
use actors::meter::Usage;
use actors::node::NodeTable;
use actors::outbox::Outbox;
use actors::presence::Presence;
use actors::rule::RulePass;
use actors::service_pause::ServicePauses;
use actors::signin::{self, SignIns};
use actors::upstream::Upstream;
use actors::webhook::{self, WebhookPass};
use chrono::TimeDelta;
use domain::ids::NodeId;
use domain::node::NodeTraits;
use domain::registry::Registry;
use domain::secret::CodeKey;
use domain::token::AssertionKey;
use domain::{Clock, Rng};
use store::Store;
use supervision::Handle;
use supervision::commit::CommitMessage;

use super::error::BuildError;
use super::in_force::LiveSettings;
use crate::config::{Settings, Urls};

/// The folder below `data.dir` that mails are written to if no mail server is configured.
pub const OUTBOX: &str = "outbox";

/// The actor that stores held events in groups.
pub(super) type Hold = Handle<CommitMessage<HeldBatch>>;

/// The resources from which services are built.
pub(super) struct Builder<'b> {
    pub settings: &'b Settings,
    /// The settings in force.
    pub live: &'b LiveSettings,
    pub store: &'b Store,
    pub clock: &'b Clock,
    pub rng: &'b Rng,
    pub urls: &'b Urls,
    /// The id of this node.
    pub node: NodeId,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
}

/// Counters that are written to the store at intervals.
pub(super) struct Counters {
    pub usage: Usage,
    pub presence: Presence,
    pub budgets: Budgets,
}

impl Builder<'_> {
    /// The keys that sign identity assertions, and the key for codes. The first start creates them.
    pub(super) async fn keys(&self) -> Result<(Vec<AssertionKey>, CodeKey), BuildError> {
        let (store, now) = (self.store, self.clock.now());
        store.assertion_keys_ensure(now, self.rng).await?;
        let keys = store.assertion_keys(now, self.settings.claims.keep_keys_for()).await?;
        Ok((keys, store.code_key(self.rng).await?))
    }

    pub(super) fn claims(&self, codes: CodeKey, keys: &[AssertionKey]) -> Result<Claims, BuildError> {
        let dependencies = claim::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            keyring: Keyring::new(self.urls.base.clone(), keys)?,
            settings: self.settings.claims.clone(),
            base_url: self.urls.base.clone(),
        };
        Ok(Claims::new(dependencies, self.settings.actors.of(ActorKind::Claims)))
    }

    pub(super) fn devices(&self, codes: CodeKey) -> DeviceCodes {
        let dependencies = device::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            settings: self.settings.devices.clone(),
            keys_per_account_max: self.settings.api_keys.per_account_max,
            base_url: self.urls.base.clone(),
        };
        DeviceCodes::new(dependencies, self.settings.actors.of(ActorKind::Devices))
    }

    /// The handle for mail, and the actor that sends it.
    pub(super) fn mail(&self) -> Result<(Mail, Mailer), BuildError> {
        let outbox = self.settings.data.dir.join(OUTBOX);
        let mailer = Mailer::new(mail::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            transport: Transport::new(&self.settings.mail, outbox).map_err(BuildError::Mail)?,
            settings: self.settings.mail.clone(),
            pauses: self.pauses.clone(),
        });
        Ok((Mail::new(self.settings.actors.of(ActorKind::Mail)), mailer))
    }

    pub(super) fn signins(&self, mail: &Mail, codes: CodeKey) -> SignIns {
        SignIns::new(signin::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            mail: mail.clone(),
            base_url: self.urls.base.clone(),
            create_account: self.settings.signin.create_account,
            codes_per_hour: self.settings.signin.codes_per_hour,
            codes_per_hour_total: self.settings.signin.codes_per_hour_total,
            session_valid_for: self.settings.sessions.valid_for,
        })
    }

    /// The lookup of computers. On PostgreSQL an actor groups the lookups of concurrent requests.
    pub(super) fn lookup(&self) -> MachineLookup {
        if self.store.pool().is_postgres() {
            MachineLookup::Grouped(Handle::new(ActorKind::Lookup, self.settings.actors.of(ActorKind::Lookup)))
        } else {
            MachineLookup::InPlace(self.store.clone())
        }
    }

    pub(super) fn hold(&self) -> Hold {
        Handle::new(ActorKind::Hold, self.settings.actors.of(ActorKind::Hold))
    }

    pub(super) fn counters(&self, upstream: &Upstream) -> Counters {
        Counters {
            usage: Usage::new(self.store.clone(), upstream),
            presence: Presence::new(self.store.clone()),
            budgets: Budgets::new(
                self.store.clone(),
                self.live.part(|settings| settings.events.unattached),
                self.live.part(|settings| settings.plans.each(|plan| plan.event_bytes_per_day)),
            ),
        }
    }

    pub(super) fn intake(
        &self,
        upstream: &Upstream,
        registry: &Arc<Registry>,
        counters: &Counters,
        hold: &Hold,
    ) -> Intake {
        let processor = EventProcessor {
            tally: counters.usage.tally(),
            store: self.store.clone(),
            budgets: counters.budgets.clone(),
            hold: hold.clone(),
            upstream: upstream.clone(),
            registry: Arc::clone(registry),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            pauses: self.pauses.clone(),
            held_lately: HeldLately::default(),
        };
        let body_bytes_max = self.live.part(|settings| settings.events.body_bytes_max);
        let limits = self.settings.actors.of(ActorKind::Ordered);
        Intake::new(processor, body_bytes_max, self.settings.agent_kinds(), limits)
    }

    /// This node among the others. It gets its row in the main database once it is introduced.
    pub(super) fn nodes(&self, upstream: &Upstream, ingestion: &Ingestion) -> NodeTable {
        let started_at = self.clock.now();
        let traits = NodeTraits {
            id: self.node,
            name: host_name(),
            address: String::new(),
            operator_address: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: self.settings.shared_digest(),
            settings: self.settings.shared_prints(),
            started_at,
            clock_ahead: TimeDelta::zero(),
        };
        let log = upstream.logs().map(|logs| logs.first().clone());
        NodeTable::new(self.store.clone(), self.clock.clone(), log, ingestion.runner().to_owned(), traits)
    }

    /// Sends notifications; `None` if webhooks are off.
    pub(super) fn webhooks(&self) -> Result<Option<WebhookPass>, BuildError> {
        if !self.settings.webhooks.enabled {
            return Ok(None);
        }
        let settings = self.live.part(|settings| settings.webhooks.clone());
        let sender = webhook::WebhookSender::new(&self.settings.webhooks, &self.urls.base);
        let sender = sender.map_err(|error| BuildError::Webhooks(domain::reasons(&error)))?;
        let (store, clock, rng) = (self.store.clone(), self.clock.clone(), self.rng.clone());
        Ok(Some(WebhookPass { store, clock, rng, sender, settings, pauses: self.pauses.clone() }))
    }

    /// Reads recorded events for rules; `None` if the statistics service is external.
    pub(super) fn rules(&self, upstream: &Upstream, registry: &Arc<Registry>, mail: &Mail) -> Option<RulePass> {
        Some(RulePass {
            store: self.store.clone(),
            logs: upstream.logs()?.clone(),
            registry: Arc::clone(registry),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            mail: mail.clone(),
            base_url: self.urls.base.clone(),
            settings: self.settings.rules.clone(),
        })
    }

    pub(super) fn outbox(&self, upstream: &Upstream) -> Outbox {
        Outbox {
            store: self.store.clone(),
            upstream: upstream.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        }
    }
}

/// Name of the host; empty if it is not valid text.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_str().unwrap_or_default().to_owned()
}
