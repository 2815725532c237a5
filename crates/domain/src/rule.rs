//! Rules of an account: messages to the owner about recorded events that match (`docs/decisions/0033-notifications.md`).
//!
//! A rule has conditions, all of which an event must meet, and outlets for its messages. [`RuleState`] counts the events that match between
//! two messages, so that a flood of events is one message.

mod digest;
mod observed;

use std::collections::BTreeMap;
use std::str::FromStr;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

pub use self::digest::{WeekDigest, next_digest_after};
pub use self::observed::{Observed, Sighting};
use crate::ids::{RuleId, UserAccountId};
use crate::label::Label;
use crate::lane::Lane;
use crate::registry::Tone;
use crate::{Timestamp, UnknownName};

/// Maximum length of a pattern of event types, in bytes; types that can be held in a row have as many.
pub const TYPE_BYTES_MAX: usize = 128;

/// Maximum value of [`RuleCondition::at_least`].
pub const AT_LEAST_MAX: u32 = 100_000;

/// Minutes in which the events of [`RuleCondition::at_least`] are counted.
const WINDOW_MINUTES: i64 = 60;

/// A property of events with values that are remembered, so that the first event with a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum Novelty {
    /// A tool or skill that an agent ran.
    Tool,
    /// The project of the event.
    Project,
    /// The computer that recorded the event.
    Computer,
}

impl Novelty {
    /// All properties, in the order of lists.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in requests, bodies and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An event type, or the beginning of types followed by `*`: `llm.failed`, `security.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TypePattern(String);

/// A text that is not a pattern of event types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an event type, or the beginning of one and '*', in at most {TYPE_BYTES_MAX} bytes")]
pub struct InvalidPattern;

impl TypePattern {
    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn matches(&self, event_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => event_type.starts_with(beginning),
            None => self.0 == event_type,
        }
    }
}

impl FromStr for TypePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let is_plain = |letter: char| letter.is_ascii_graphic() && letter != '*';
        // A single `*` would restrict nothing.
        if !name.is_empty() && text.len() <= TYPE_BYTES_MAX && name.chars().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPattern)
        }
    }
}

impl TryFrom<String> for TypePattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

/// The conditions of a rule; `None` in a member does not restrict it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleCondition {
    /// The event type.
    pub event_type: Option<TypePattern>,
    /// The lane.
    pub lane: Option<Lane>,
    /// How the work of the event went.
    pub tone: Option<Tone>,
    /// The event has a value of this property that no earlier event of the account had.
    pub first_time: Option<Novelty>,
    /// Number of matching events within an hour, 2 or more; `None` for each event.
    pub at_least: Option<u32>,
}

/// The outlets of the messages of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleOutlets {
    /// A mail to the owner of the account.
    pub mail: bool,
    /// The webhooks and the feed of the account that have the kind `rule.matched`.
    pub notify: bool,
}

/// A rule without its condition or without an outlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// Every event would match.
    #[error("needs an event type, a lane, a tone or a first time")]
    NoCondition,
    /// No message would be sent.
    #[error("needs a mail or notifications")]
    NoOutlet,
    /// `at_least` is out of range.
    #[error("at_least must be from 2 to {AT_LEAST_MAX}")]
    AtLeast,
}

/// A rule of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRule {
    /// Id of the rule.
    pub id: RuleId,
    /// The account that owns the rule.
    pub account: UserAccountId,
    /// Name that the owner gave it.
    pub name: Label,
    /// The events that match.
    pub when: RuleCondition,
    /// The outlets of its messages.
    pub outlets: RuleOutlets,
    /// Time of creation. Events that were received earlier do not match.
    pub created_at: Timestamp,
}

impl EventRule {
    /// Checks that the rule has a condition and an outlet.
    pub fn check(when: &RuleCondition, outlets: RuleOutlets) -> Result<(), InvalidRule> {
        let RuleCondition { event_type, lane, tone, first_time, at_least } = when;
        if event_type.is_none() && lane.is_none() && tone.is_none() && first_time.is_none() {
            return Err(InvalidRule::NoCondition);
        }
        if !at_least.is_none_or(|count| (2..=AT_LEAST_MAX).contains(&count)) {
            return Err(InvalidRule::AtLeast);
        }
        if outlets.mail || outlets.notify { Ok(()) } else { Err(InvalidRule::NoOutlet) }
    }

    /// Whether one event meets the conditions, apart from their number.
    fn matches(&self, event: &Observed, new: &[Sighting]) -> bool {
        let RuleCondition { event_type, lane, tone, first_time, at_least: _ } = &self.when;
        event.received_at >= self.created_at
            && event_type.as_ref().is_none_or(|pattern| pattern.matches(&event.event_type))
            && lane.is_none_or(|lane| lane == event.lane)
            && tone.is_none_or(|tone| tone == event.tone)
            && first_time.is_none_or(|novelty| new.iter().any(|sighting| sighting.novelty == novelty))
    }
}

/// The matching events of a rule since its last message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleState {
    /// Matching events by the minute of receipt, for a rule with [`RuleCondition::at_least`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    minutes: BTreeMap<i64, u64>,
    /// Content of the next message.
    waiting: Option<RuleMessage>,
    /// Time of the last message.
    sent_at: Option<Timestamp>,
}

/// Content of a message of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMessage {
    /// Number of matching events.
    pub events: u64,
    /// Time of receipt of the first one.
    pub first_at: Timestamp,
    /// The newest one.
    pub last: Observed,
    /// The new value of the newest one, for a rule with [`RuleCondition::first_time`].
    pub new: Option<Sighting>,
}

impl RuleState {
    /// Time of the last message.
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.sent_at
    }

    /// Number of events that the next message reports.
    pub fn waiting(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |message| message.events)
    }

    /// Counts an event that matches `rule`. `new` are its values that no earlier event had.
    pub fn observe(&mut self, rule: &EventRule, event: &Observed, new: &[Sighting]) {
        if !rule.matches(event, new) {
            return;
        }
        let mut events = 1;
        let mut first_at = event.received_at;
        if let Some(at_least) = rule.when.at_least {
            let minute = event.received_at.timestamp().div_euclid(60);
            *self.minutes.entry(minute).or_default() += 1;
            let newest = self.minutes.keys().next_back().copied().unwrap_or(minute);
            self.minutes = self.minutes.split_off(&(newest - WINDOW_MINUTES + 1));
            events = self.minutes.values().sum();
            if events < u64::from(at_least) {
                return;
            }
            let first_minute = self.minutes.keys().next().copied().unwrap_or(minute);
            first_at = Timestamp::from_timestamp(first_minute * 60, 0).unwrap_or(first_at).max(rule.created_at);
            // The next message needs as many further events.
            self.minutes.clear();
        }
        let new = new.iter().find(|sighting| Some(sighting.novelty) == rule.when.first_time).cloned();
        let earlier = self.waiting.take();
        self.waiting = Some(RuleMessage {
            events: events + earlier.as_ref().map_or(0, |message| message.events),
            first_at: earlier.map_or(first_at, |message| message.first_at.min(first_at)),
            last: event.clone(),
            new,
        });
    }

    /// The time from which the next message may be sent; `None` if there is nothing to report.
    pub fn due_at(&self, every: TimeDelta) -> Option<Timestamp> {
        let waiting = self.waiting.as_ref()?;
        Some(self.sent_at.map_or(waiting.first_at, |sent| sent.checked_add_signed(every).unwrap_or(sent)))
    }

    /// Takes the next message, if it is due: at most one in each period `every`.
    pub fn take(&mut self, now: Timestamp, every: TimeDelta) -> Option<RuleMessage> {
        let is_due = self.sent_at.is_none_or(|sent| now - sent >= every);
        let message = self.waiting.take_if(|_| is_due)?;
        self.sent_at = Some(now);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Rng;

    const HOUR: TimeDelta = TimeDelta::hours(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_timestamp(1_767_225_600 + seconds, 0).unwrap()
    }

    fn rule(when: RuleCondition) -> EventRule {
        EventRule {
            id: Rng::seeded(1).uuid_v7(at(0)).into(),
            account: "account1".parse().unwrap(),
            name: "Failures".parse().unwrap(),
            when,
            outlets: RuleOutlets { mail: true, notify: false },
            created_at: at(0),
        }
    }

    fn event(event_type: &str, lane: Lane, tone: Tone, received_at: Timestamp) -> Observed {
        let rng = Rng::seeded(2);
        Observed {
            event_id: rng.uuid_v7(at(0)).into(),
            event_type: event_type.to_owned(),
            lane,
            agent: "claude-code".to_owned(),
            machine: rng.uuid_v7(at(0)).into(),
            tone,
            received_at,
        }
    }

    fn tool(name: &str) -> Sighting {
        Sighting { novelty: Novelty::Tool, value: name.to_owned() }
    }

    fn failure(seconds: i64) -> Observed {
        event("llm.failed", Lane::Llm, Tone::Failed, at(seconds))
    }

    #[test]
    fn a_pattern_is_a_type_or_the_beginning_of_types() {
        for (pattern, event_type, expected) in [
            ("llm.failed", "llm.failed", true),
            ("llm.failed", "llm.failed2", false),
            ("llm.*", "llm.failed", true),
            ("llm.*", "llmx.failed", false),
            ("l*", "llmx.failed", true),
        ] {
            assert_eq!(pattern.parse::<TypePattern>().unwrap().matches(event_type), expected, "{pattern} {event_type}");
        }
        for wrong in ["", "*", "**", "a*b", "llm failed", "llm.é", &"x".repeat(TYPE_BYTES_MAX + 1)] {
            assert_eq!(wrong.parse::<TypePattern>(), Err(InvalidPattern), "{wrong:?}");
        }
    }

    #[test]
    fn an_event_matches_if_it_meets_every_condition() {
        let all = RuleCondition {
            event_type: Some("llm.*".parse().unwrap()),
            lane: Some(Lane::Llm),
            tone: Some(Tone::Failed),
            first_time: Some(Novelty::Tool),
            at_least: None,
        };
        let matching = rule(all.clone());
        let new = [tool("Bash")];
        assert!(matching.matches(&failure(0), &new));
        assert!(!matching.matches(&failure(0), &[]));
        assert!(!matching.matches(&failure(0), &[Sighting { novelty: Novelty::Project, value: "shop".to_owned() }]));
        assert!(!matching.matches(&failure(-1), &new), "received before the rule was created");
        assert!(!matching.matches(&event("llm.failed", Lane::Llm, Tone::Plain, at(0)), &new));
        assert!(!matching.matches(&event("llm.failed", Lane::Skill, Tone::Failed, at(0)), &new));
        assert!(!matching.matches(&event("skill.invoked", Lane::Llm, Tone::Failed, at(0)), &new));
    }

    #[test]
    fn a_rule_needs_a_condition_and_an_outlet() {
        let (lane, mail) = (Some(Lane::Security), RuleOutlets { mail: true, notify: false });
        let when = RuleCondition { lane, ..RuleCondition::default() };
        assert_eq!(EventRule::check(&when, mail), Ok(()));
        assert_eq!(EventRule::check(&RuleCondition::default(), mail), Err(InvalidRule::NoCondition));
        let count = |count| EventRule::check(&RuleCondition { at_least: Some(count), ..when.clone() }, mail);
        assert_eq!((count(2), count(1)), (Ok(()), Err(InvalidRule::AtLeast)));
        assert_eq!(count(AT_LEAST_MAX + 1), Err(InvalidRule::AtLeast));
        assert_eq!(EventRule::check(&when, RuleOutlets { mail: false, notify: false }), Err(InvalidRule::NoOutlet));
    }

    #[test]
    fn the_first_event_is_told_at_once_and_a_flood_is_one_message() {
        let rule = rule(RuleCondition { tone: Some(Tone::Failed), ..RuleCondition::default() });
        let mut state = RuleState::default();
        assert_eq!((state.due_at(HOUR), state.take(at(0), HOUR)), (None, None));
        state.observe(&rule, &failure(0), &[]);
        assert_eq!(state.due_at(HOUR), Some(at(0)));
        assert_eq!(state.take(at(1), HOUR).unwrap().events, 1);
        for second in 2..1002 {
            state.observe(&rule, &failure(second), &[]);
            assert_eq!(state.take(at(second), HOUR), None);
        }
        assert_eq!((state.waiting(), state.due_at(HOUR)), (1000, Some(at(1) + HOUR)));
        let stored = serde_json::to_string(&state).unwrap();
        let mut read: RuleState = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, state);
        let message = read.take(at(1) + HOUR, HOUR).unwrap();
        assert_eq!((message.events, message.first_at, message.last.received_at), (1000, at(2), at(1001)));
    }

    #[test]
    fn a_number_of_events_is_counted_within_an_hour() {
        let rule = rule(RuleCondition { lane: Some(Lane::Llm), at_least: Some(3), ..RuleCondition::default() });
        let mut state = RuleState::default();
        for minute in [0, 30, 61, 95, 130] {
            state.observe(&rule, &failure(minute * 60), &[]);
            assert_eq!(state.waiting(), 0, "minute {minute}");
        }
        state.observe(&rule, &failure(131 * 60), &[]);
        let message = state.take(at(131 * 60), HOUR).unwrap();
        assert_eq!((message.events, message.first_at), (3, at(95 * 60)));
        state.observe(&rule, &failure(132 * 60), &[]);
        assert_eq!(state.waiting(), 0, "events of a message do not count again");
    }

    #[test]
    fn the_digest_is_sent_on_monday_morning() {
        // 2026-01-05 is a Monday.
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        for (now, next) in [
            ("2026-01-05T04:59:59Z", "2026-01-05T05:00:00Z"),
            ("2026-01-05T05:00:00Z", "2026-01-12T05:00:00Z"),
            ("2026-01-11T23:00:00Z", "2026-01-12T05:00:00Z"),
            ("2026-12-31T23:00:00Z", "2027-01-04T05:00:00Z"),
        ] {
            assert_eq!(next_digest_after(time(now)), time(next), "{now}");
        }
    }

    #[test]
    fn a_digest_counts_its_period_and_reports_silence_once() {
        let mut digest = WeekDigest::starting(at(0));
        digest.observe(&failure(-1), &[tool("Bash")]);
        digest.observe(&failure(1), &[tool("Bash")]);
        digest.observe(&event("skill.invoked", Lane::Skill, Tone::Plain, at(2)), &[]);
        let read: WeekDigest = serde_json::from_str(&serde_json::to_string(&digest).unwrap()).unwrap();
        assert_eq!(read, digest);
        let week = digest.take(at(10), 0).unwrap();
        assert_eq!((week.events, week.lanes[&Lane::Llm], week.agents["claude-code"]), (2, 1, 2));
        assert_eq!((week.tones["failed"], week.tones.len()), (1, 1));
        assert_eq!(week.new[&Novelty::Tool], (vec!["Bash".to_owned()], 1));
        assert_eq!(digest.take(at(20), 0).map(|quiet| (quiet.events, quiet.since)), Some((0, at(10))));
        assert_eq!(digest.take(at(30), 0), None);
        assert!(digest.take(at(40), 1).is_some(), "a held event is something");
        digest.observe(&failure(50), &[]);
        assert_eq!(digest.take(at(60), 0).unwrap().events, 1);
        assert!(digest.take(at(70), 0).is_some(), "silence after events is reported again");
    }

    proptest! {
        #[test]
        fn every_event_is_in_one_message_and_messages_keep_their_distance(
            steps in prop::collection::vec((0_i64..4000, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let rule = rule(RuleCondition { tone: Some(Tone::Failed), ..RuleCondition::default() });
            let mut state = RuleState::default();
            let (mut now, mut matched, mut reported, mut last) = (0, 0, 0, None::<Timestamp>);
            for (pause, has_failed, is_looked_at) in steps {
                now += pause;
                let tone = if has_failed { Tone::Failed } else { Tone::Plain };
                state.observe(&rule, &event("llm.failed", Lane::Llm, tone, at(now)), &[]);
                matched += u64::from(has_failed);
                let due = state.due_at(HOUR).is_some_and(|due| due <= at(now));
                let message = is_looked_at.then(|| state.take(at(now), HOUR)).flatten();
                prop_assert_eq!(message.is_some(), is_looked_at && due);
                if let Some(message) = message {
                    prop_assert!(last.is_none_or(|last| at(now) - last >= HOUR));
                    last = Some(at(now));
                    reported += message.events;
                }
                prop_assert_eq!(reported + state.waiting(), matched);
            }
        }

        #[test]
        fn a_threshold_is_met_exactly_by_that_many_events_of_an_hour(
            pauses in prop::collection::vec(0_i64..1500, 1..120), at_least in 2_u32..8,
        ) {
            let rule = rule(RuleCondition { lane: Some(Lane::Llm), at_least: Some(at_least), ..RuleCondition::default() });
            let mut state = RuleState::default();
            let (mut now, mut minutes) = (0, Vec::new());
            for pause in pauses {
                now += pause;
                minutes.push(at(now).timestamp() / 60);
                minutes.retain(|minute| *minute > at(now).timestamp() / 60 - 60);
                let before = state.waiting();
                state.observe(&rule, &failure(now), &[]);
                let is_met = minutes.len() >= at_least as usize;
                prop_assert_eq!(state.waiting() - before, if is_met { minutes.len() as u64 } else { 0 });
                if is_met {
                    minutes.clear();
                }
            }
        }

        #[test]
        fn no_pattern_panics(text in ".{0,20}") {
            if let Ok(pattern) = text.parse::<TypePattern>() {
                prop_assert!(pattern.matches(text.trim_end_matches('*')));
            }
        }
    }
}
