//! Reads recorded events behind the log, and sends the messages of rules and the weekly digest (`docs/decisions/0033-notifications.md`).
//!
//! 1. Each pass reads the leaves after the cursor. Only events that a watched account sees are read with their bytes.
//! 2. The rules of these accounts count matching events, and the digests count all.
//! 3. Messages and digests that are due, the counts and the moved cursor are written in one transaction, guarded by the cursor that the pass
//!    has read. The outboxes of mail, webhooks and feeds send the messages.
//!
//! An account is watched while it has a rule or the digest. Its earlier events are read once, so that what they had is not new.
//!
//! Each node reads, the one that signs the log first, because its sequencer wakes the pass. The guard lets one reader write, so no event is
//! counted twice.
//!
//! **If it crashes:** nothing of the pass was written, and the next one repeats it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use domain::clock::{date_time, delta};
use domain::ids::{Email, UserAccountId};
use domain::log_part::LogPart;
use domain::mail::{MailNames, rule_matched, weekly_digest};
use domain::recorder::{Recorder, Recorders};
use domain::registry::{Registry, Tone};
use domain::rule::{EventRule, Novelty, Observed, RuleMessage, Sighting, next_digest_after};
use domain::{Clock, Rng, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use statistics::log::{Log, RecordedEvent};
use statistics::parts::Logs;
use store::rule::{DigestWrite, RuleCursor, RuleWrite, SEEN_MAX, StoredRule, Watch, WatchWrite};
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

use crate::mail::{Mail, queued};

/// Leaves of one pass.
const LEAVES_MAX: u32 = 20_000;

/// Events that one pass reads with their bytes, which are at most `events.body_bytes_max` each.
const EVENTS_MAX: u32 = 256;

/// Accounts with due messages that one pass considers.
const ACCOUNTS_MAX: usize = 100;

/// Accounts with earlier events that one pass reads.
const LEARNED_MAX: usize = 4;

/// Earlier events that are read of each computer, agent kind and lane.
const LEARNED_EVENTS_MAX: u32 = 200;

/// Computers of an account with a name in a mail.
const COMPUTERS_MAX: usize = 1_000;

/// Longest time between two messages of a rule that can be configured.
const MESSAGE_EVERY_MAX: Duration = Duration::from_hours(7 * 24);

/// `[rules]`: rules about recorded events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleSettings {
    /// Maximum number of rules per account; 0 permits none.
    pub per_account_max: u32,
    /// Shortest time between two messages of a rule.
    #[serde(with = "humantime_serde")]
    pub message_every: Duration,
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self { per_account_max: 20, message_every: Duration::from_hours(1) }
    }
}

impl RuleSettings {
    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let is_valid = (Duration::from_secs(1)..=MESSAGE_EVERY_MAX).contains(&self.message_every);
        let problem = (!is_valid).then_some(("message_every", "must be from 1s to 7days"));
        problem.into_iter().collect()
    }
}

/// Reads recorded events for rules and digests.
#[derive(Debug, Clone)]
pub struct RulePass {
    /// The database of rules.
    pub store: Store,
    /// The parts of the log of recorded events.
    pub logs: Logs,
    /// The registry of event types.
    pub registry: Arc<Registry>,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// Sends the queued mails.
    pub mail: Mail,
    /// URL of the server, for links.
    pub base_url: String,
    /// Limits of rules.
    pub settings: RuleSettings,
}

/// An event with the values of its properties.
struct Seen {
    event: Observed,
    values: Vec<Sighting>,
}

/// The events of a pass.
#[derive(Default)]
struct Batch {
    /// The place after the last one.
    place: u64,
    /// Whether more events follow.
    is_full: bool,
    /// The events that each watched account sees.
    by_account: BTreeMap<UserAccountId, Vec<Arc<Seen>>>,
}

/// The changes of an account by the events of a pass.
struct Outcome {
    rules: Vec<(EventRule, RuleWrite, Option<RuleMessage>)>,
    seen: Vec<Sighting>,
}

impl Pass for RulePass {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("rule.pass");
        let Some(first) = self.store.rule_cursor(LogPart::FIRST).await? else { return Ok(Next::Idle) };
        for (account, since) in self.store.accounts_to_learn(LEARNED_MAX).await? {
            self.learn(&account, since).await?;
        }
        let (mut next, mut failed) = (Next::Idle, None);
        for (part, log) in self.logs.iter() {
            let followed =
                if part.is_first() { self.follow(log, first).await } else { self.follow_further(part, log).await };
            match followed {
                Ok(found) => next = next.sooner(found),
                // The other parts are read all the same.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(next), Err)
    }
}

impl RulePass {
    /// The same for a further part, with its cursor.
    async fn follow_further(&self, part: LogPart, log: &Log) -> Result<Next, PassError> {
        match self.store.rule_cursor(part).await? {
            Some(cursor) => self.follow(log, cursor).await,
            None => Ok(Next::Idle),
        }
    }

    /// Reads new leaves of the part of a cursor. With the first part, messages that are due are sent.
    async fn follow(&self, log: &Log, cursor: RuleCursor) -> Result<Next, PassError> {
        let mut batch = self.read(log, cursor).await?;
        let now = self.clock.now();
        let due_accounts = if cursor.part.is_first() {
            self.store.accounts_with_due_rules(now, ACCOUNTS_MAX).await?
        } else {
            Vec::new()
        };
        let is_more = batch.is_full || due_accounts.len() >= ACCOUNTS_MAX;
        for account in due_accounts {
            batch.by_account.entry(account).or_default();
        }
        let mut writes = Vec::new();
        for (account, events) in batch.by_account {
            writes.extend(self.evaluate(account, &events, now).await?);
        }
        if writes.is_empty() && batch.place == cursor.place {
            return Ok(Next::Idle);
        }
        domain::failpoint!("rule.write");
        let is_written = self.store.rules_write(cursor, batch.place, &writes, now).await?;
        domain::failpoint!("rule.written");
        if is_written {
            self.report(&writes);
        }
        Ok(Next::at_once_if(is_more))
    }

    /// Stores the values of the newest events that an account had when its watch started: they are not new.
    async fn learn(&self, account: &UserAccountId, since: Timestamp) -> Result<(), PassError> {
        let recorders = self.store.recorders_of_account(account).await?;
        let events = self.logs.newest_events(&recorders, LEARNED_EVENTS_MAX).await?;
        let earlier = events.iter().filter(|event| event.received_at < since);
        let values: BTreeSet<Sighting> = earlier.flat_map(|event| observed(event, &self.registry).values).collect();
        let mut left: HashMap<Novelty, u64> = HashMap::new();
        let fits = |sighting: &Sighting| {
            let count = left.entry(sighting.novelty).or_insert(0);
            *count += 1;
            *count <= SEEN_MAX
        };
        let values: Vec<Sighting> = values.into_iter().filter(fits).collect();
        Ok(self.store.account_learned(account, &values).await?)
    }

    /// The events after the cursor that watched accounts see.
    async fn read(&self, log: &Log, cursor: RuleCursor) -> Result<Batch, PassError> {
        let (until, recorders) = log.recorders_from(cursor.place, LEAVES_MAX).await?;
        let mut batch =
            Batch { place: until, is_full: until - cursor.place >= u64::from(LEAVES_MAX), ..Batch::default() };
        if recorders.is_empty() {
            return Ok(batch);
        }
        let mut watched: Vec<(UserAccountId, Recorders)> = Vec::new();
        for account in self.store.accounts_that_see(&recorders).await? {
            let recorders = self.store.recorders_of_account(&account).await?;
            watched.push((account, recorders));
        }
        let is_watched = |recorder: &Recorder| watched.iter().any(|(_, own)| own.all().any(|other| other == recorder));
        let recorders: BTreeSet<Recorder> = recorders.into_iter().filter(is_watched).collect();
        if recorders.is_empty() {
            return Ok(batch);
        }
        let events = log.events_between(&recorders, cursor.place, until, EVENTS_MAX).await?;
        if let Some(last) = events.last().filter(|_| events.len() >= EVENTS_MAX as usize) {
            (batch.place, batch.is_full) = (last.place + 1, true);
        }
        for event in &events {
            let seen = Arc::new(observed(event, &self.registry));
            for (account, _) in watched.iter().filter(|(_, own)| event.is_shown_to(own)) {
                batch.by_account.entry(account.clone()).or_default().push(Arc::clone(&seen));
            }
        }
        Ok(batch)
    }

    /// The write about an account; `None` if nothing changes.
    async fn evaluate(
        &self,
        account: UserAccountId,
        events: &[Arc<Seen>],
        now: Timestamp,
    ) -> Result<Option<WatchWrite>, StoreError> {
        let values: HashSet<Sighting> = events.iter().flat_map(|seen| seen.values.iter().cloned()).collect();
        let Some(mut watch) = self.store.watch_of_account(&account, &values).await? else { return Ok(None) };
        let before = watch.digest.clone();
        let Outcome { rules, seen } = observe(&mut watch, events, now, self.settings.message_every);
        let due_digest = watch.digest.as_ref().filter(|(at, _)| *at <= now);
        let has_mail =
            due_digest.is_some() || rules.iter().any(|(rule, _, message)| message.is_some() && rule.outlets.mail);
        let (to, names) = if has_mail { self.parties(&account).await? } else { (None, MailNames::new()) };
        let digest = match watch.digest {
            Some((at, mut digest)) if at <= now => {
                let held = self.store.held_since(&account, digest.since).await?;
                let mail = digest.take(now, held).zip(to.clone());
                let mail = mail.map(|(week, to)| weekly_digest(to, &week, held, now, &names, &self.base_url));
                let mail = mail.map(|mail| queued(mail, &self.rng, now));
                Some(DigestWrite { before: at, next_at: next_digest_after(now), digest, mail })
            }
            Some((at, digest)) if before.as_ref().is_some_and(|(_, before)| *before != digest) => {
                Some(DigestWrite { before: at, next_at: at, digest, mail: None })
            }
            _ => None,
        };
        let with_message = |(rule, mut write, message): (EventRule, RuleWrite, Option<RuleMessage>)| {
            if let Some(message) = message {
                write.notice = rule.outlets.notify.then(|| notice_of(&rule, &message));
                let every = humantime_serde::re::humantime::format_duration(self.settings.message_every).to_string();
                let to = to.clone().filter(|_| rule.outlets.mail);
                let mail = to.map(|to| rule_matched(to, &rule, &message, &names, &every, &self.base_url));
                write.mail = mail.map(|mail| queued(mail, &self.rng, now));
            }
            write
        };
        let rules: Vec<RuleWrite> = rules.into_iter().map(with_message).collect();
        let is_needed = !rules.is_empty() || digest.is_some() || !seen.is_empty();
        Ok(is_needed.then_some(WatchWrite { account, rules, digest, seen }))
    }

    /// The address of the owner, and the names of the computers.
    async fn parties(&self, account: &UserAccountId) -> Result<(Option<Email>, MailNames), StoreError> {
        let owner = self.store.account_by_id(account).await?.and_then(|account| account.owner);
        let mut computers = self.store.computers_of_account(account, COMPUTERS_MAX).await?;
        computers.extend(self.store.computers_ended(account, COMPUTERS_MAX).await?);
        let name =
            |computer: store::machine::Computer| Some((computer.machine_uuid, computer.shown_name()?.to_owned()));
        Ok((owner.map(|(_, email)| email), computers.into_iter().filter_map(name).collect()))
    }

    /// Counts the written messages, and wakes the mailer.
    fn report(&self, writes: &[WatchWrite]) {
        let rules = || writes.iter().flat_map(|write| &write.rules);
        let messages = rules().filter(|rule| rule.notice.is_some() || rule.mail.is_some()).count();
        let digests = writes.iter().filter(|write| write.digest.as_ref().is_some_and(|digest| digest.mail.is_some()));
        let digests = digests.count();
        metrics::counter!("attache_rule_messages_total", "kind" => "match").increment(messages as u64);
        metrics::counter!("attache_rule_messages_total", "kind" => "digest").increment(digests as u64);
        if digests > 0 || rules().any(|rule| rule.mail.is_some()) {
            self.mail.wake();
        }
    }
}

/// Counts the events of an account in its rules and its digest, and takes the messages that are due.
fn observe(watch: &mut Watch, events: &[Arc<Seen>], now: Timestamp, every: Duration) -> Outcome {
    let every = delta(every);
    let rules = std::mem::take(&mut watch.rules);
    let mut rules: Vec<(StoredRule, StoredRule)> = rules.into_iter().map(|rule| (rule.clone(), rule)).collect();
    let mut seen = Vec::new();
    for event in events {
        let mut new = Vec::new();
        for value in &event.values {
            let count = watch.seen_counts.entry(value.novelty).or_default();
            if *count < SEEN_MAX && watch.seen.insert(value.clone()) {
                *count += 1;
                new.push(value.clone());
            }
        }
        seen.extend(new.iter().cloned());
        // Until the earlier events are read, nothing is known to be new.
        if !watch.is_learned {
            new.clear();
        }
        for (_, StoredRule { rule, state }) in &mut rules {
            state.observe(rule, &event.event, &new);
        }
        if let Some((_, digest)) = &mut watch.digest {
            digest.observe(&event.event, &new);
        }
    }
    let changed = rules.into_iter().filter_map(|(before, StoredRule { rule, mut state })| {
        let message = state.take(now, every);
        let due_at = state.due_at(every);
        // An account without events was due: if a longer `message_every` delays its message, the stored time changes.
        let is_delayed = events.is_empty() && due_at.is_some();
        let write = RuleWrite { id: rule.id, state, due_at, notice: None, mail: None };
        (before.state != write.state || is_delayed).then_some((rule, write, message))
    });
    Outcome { rules: changed.collect(), seen }
}

fn observed(event: &RecordedEvent, registry: &Registry) -> Seen {
    let mut observed = Observed {
        event_id: event.event_id,
        event_type: event.event_type.clone(),
        lane: event.lane,
        agent: event.agent.clone(),
        machine: event.recorder.machine,
        tone: Tone::Plain,
        received_at: event.received_at,
    };
    let values = observed.read(&event.canonical, event.consent_level, registry);
    Seen { event: observed, values }
}

/// The data of a notification: ids, counts and names, never content.
fn notice_of(rule: &EventRule, message: &RuleMessage) -> Value {
    let RuleMessage { events, first_at, last, new } = message;
    json!({
        "rule_id": rule.id,
        "rule": rule.name,
        "events": events,
        "first_at": date_time(*first_at),
        "event_id": last.event_id,
        "event_type": last.event_type,
        "lane": last.lane,
        "agent_id": last.agent,
        "machine_uuid": last.machine,
        "tone": last.tone,
        "first_time": new.as_ref().map(|new| new.novelty),
        "value": new.as_ref().map(|new| &new.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_the_rule_is_checked() {
        assert_eq!(RuleSettings::default().problems(), []);
        let broken = RuleSettings { message_every: Duration::ZERO, ..RuleSettings::default() };
        assert_eq!(broken.problems().len(), 1);
    }
}
