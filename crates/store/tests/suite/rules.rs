//! Rules of accounts, the weekly digest, and the reader of recorded events.

use std::collections::HashSet;

use chrono::TimeDelta;
use domain::ids::UserAccountId;
use domain::lane::Lane;
use domain::log_part::LogPart;
use domain::recorder::Recorder;
use domain::registry::Tone;
use domain::rule::{EventRule, Novelty, Observed, RuleCondition, RuleOutlets, RuleState, Sighting, WeekDigest};
use domain::webhook::NotificationKind;
use harness::on_each_database;
use serde_json::json;
use store::held::{HeldQuotas, Sender};
use store::janitor::PurgeSettings;
use store::notice::NoticeLimits;
use store::pool::scalar;
use store::rule::{DigestWrite, RuleWrite, StoredRule, WatchWrite};

use crate::held::new_held;
use crate::world::{World, at, now};

const MAX: u32 = 3;

/// A number of leaves of the first part.
fn at_first(leaves: u64) -> [(LogPart, u64); 1] {
    [(LogPart::FIRST, leaves)]
}

fn rule(world: &World, account: &UserAccountId) -> EventRule {
    EventRule {
        id: world.rng.uuid_v7(now()).into(),
        account: account.clone(),
        name: "Failures".parse().unwrap(),
        when: RuleCondition {
            event_type: Some("llm.*".parse().unwrap()),
            at_least: Some(2),
            ..RuleCondition::default()
        },
        outlets: RuleOutlets { mail: true, notify: false },
        created_at: now(),
    }
}

async fn added(world: &World, account: &UserAccountId, leaves: u64) -> EventRule {
    let rule = rule(world, account);
    assert!(world.store.rule_create(&rule, &at_first(leaves), MAX).await.unwrap());
    rule
}

fn tool(value: &str) -> Sighting {
    Sighting { novelty: Novelty::Tool, value: value.to_owned() }
}

/// A state with an event that waits for its message.
fn counted(world: &World, rule: &EventRule) -> RuleState {
    let event = Observed {
        event_id: world.event(),
        event_type: "llm.failed".to_owned(),
        lane: Lane::Llm,
        agent: "codex".to_owned(),
        machine: world.rng.uuid_v7(now()).into(),
        tone: Tone::Failed,
        received_at: at(1),
    };
    let mut state = RuleState::default();
    state.observe(
        &EventRule { when: RuleCondition { at_least: None, ..rule.when.clone() }, ..rule.clone() },
        &event,
        &[],
    );
    assert_eq!(state.waiting(), 1);
    state
}

fn write(account: &UserAccountId) -> WatchWrite {
    WatchWrite { account: account.clone(), rules: Vec::new(), digest: None, seen: Vec::new() }
}

async fn rows(world: &World, table: &'static str) -> i64 {
    let sql = match table {
        "mails" => "SELECT COUNT(*) FROM mails",
        "feed_entries" => "SELECT COUNT(*) FROM feed_entries",
        "seen_values" => "SELECT COUNT(*) FROM seen_values",
        "watched_accounts" => "SELECT COUNT(*) FROM watched_accounts",
        other => panic!("{other}"),
    };
    scalar(sql).fetch_one(world.store.pool()).await.unwrap()
}

on_each_database! {
    async fn rules_are_stored_limited_and_deleted_by_their_account_alone(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let mut rules = Vec::new();
        for _ in 0..MAX {
            rules.push(added(world, &account, 0).await);
        }
        assert!(!store.rule_create(&rule(world, &account), &at_first(0), MAX).await.unwrap());
        added(world, &other, 0).await;
        let stored = store.rules_of_account(&account).await.unwrap();
        let expected = rules.iter().map(|rule| StoredRule { rule: rule.clone(), state: RuleState::default() });
        assert_eq!(stored, expected.collect::<Vec<_>>());
        assert!(!store.rule_delete(rules[0].id, &other).await.unwrap());
        assert!(store.rule_delete(rules[0].id, &account).await.unwrap());
        assert!(!store.rule_delete(rules[0].id, &account).await.unwrap());
        assert_eq!(store.rules_of_account(&account).await.unwrap().len(), 2);
        added(world, &account, 0).await;
    }

    async fn the_first_watched_account_starts_at_the_end_of_the_log(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        assert_eq!(store.rule_cursor(LogPart::FIRST).await.unwrap(), None);
        let rule = added(world, &account, 7).await;
        let cursor = store.rule_cursor(LogPart::FIRST).await.unwrap().unwrap();
        assert_eq!(cursor.place, 7);
        // A further account does not move the cursor: the events before it are not read for the first one.
        store.digest_set(&other, Some(at(100)), &at_first(9), now()).await.unwrap();
        assert_eq!(store.rule_cursor(LogPart::FIRST).await.unwrap(), Some(cursor));
        store.digest_set(&other, Some(at(200)), &at_first(9), now()).await.unwrap();
        assert_eq!(store.digest_of_account(&other).await.unwrap(), Some(at(100)), "it is on already");
        assert_eq!(store.accounts_to_learn(10).await.unwrap().len(), 2);
        store.account_learned(&account, &[tool("Bash"), tool("Bash"), tool("Read")]).await.unwrap();
        store.account_learned(&account, &[tool("Write")]).await.unwrap();
        assert_eq!(rows(world, "seen_values").await, 2, "an account is learned once");
        assert_eq!(store.accounts_to_learn(10).await.unwrap(), [(other.clone(), now())]);
        // The last rule and the digest end the watch.
        assert!(store.rule_delete(rule.id, &account).await.unwrap());
        assert_eq!((rows(world, "seen_values").await, rows(world, "watched_accounts").await), (0, 1));
        store.digest_set(&other, None, &at_first(0), now()).await.unwrap();
        assert_eq!((store.digest_of_account(&other).await.unwrap(), store.rule_cursor(LogPart::FIRST).await.unwrap()), (None, None));
        added(world, &other, 20).await;
        assert_eq!(store.rule_cursor(LogPart::FIRST).await.unwrap().unwrap().place, 20);
    }

    async fn of_two_readers_one_writes(world: &World) {
        let store = world.store.clone().with_notices(NoticeLimits { feed_entries_max: Some(10), ..NoticeLimits::default() });
        let account = world.account("ada@example.com").await;
        let feed = domain::feed::Feed { account: account.clone(), kinds: vec![NotificationKind::RuleMatched], created_at: now() };
        assert!(store.feed_create(&feed, &world.secret()).await.unwrap());
        let (rule, deleted) = (added(world, &account, 0).await, added(world, &account, 0).await);
        store.digest_set(&account, Some(at(100)), &at_first(0), at(0)).await.unwrap();
        let cursor = store.rule_cursor(LogPart::FIRST).await.unwrap().unwrap();
        assert!(store.rule_delete(deleted.id, &account).await.unwrap());
        let mut digest = WeekDigest::starting(at(0));
        assert!(digest.take(at(100), 1).is_some());
        let message = |rule: &EventRule| RuleWrite {
            id: rule.id,
            state: counted(world, rule),
            due_at: Some(at(50)),
            notice: Some(json!({ "events": 1 })),
            mail: Some(world.new_mail("ada@example.com")),
        };
        let written = WatchWrite {
            rules: vec![message(&rule), message(&deleted)],
            digest: Some(DigestWrite { before: at(100), next_at: at(700), digest: digest.clone(), mail: Some(world.new_mail("ada@example.com")) }),
            seen: vec![tool("Bash"), tool("a\0b")],
            ..write(&account)
        };
        let (one, two) = (world.second().await, world.second().await);
        let (first, second) = tokio::join!(
            store.rules_write(cursor, 5, std::slice::from_ref(&written), at(10)),
            one.rules_write(cursor, 5, std::slice::from_ref(&written), at(10)),
        );
        assert_ne!(first.unwrap(), second.unwrap());
        assert!(!two.rules_write(cursor, 6, &[written], at(10)).await.unwrap());
        one.close().await;
        two.close().await;
        // A mail of the rule and one of the digest; the deleted rule sends nothing.
        assert_eq!(rows(world, "mails").await, 2);
        assert!(rows(world, "feed_entries").await <= 1);
        let cursor = store.rule_cursor(LogPart::FIRST).await.unwrap().unwrap();
        assert_eq!(cursor.place, 5);
        let values = HashSet::from([tool("Bash"), tool("Read"), Sighting { novelty: Novelty::Project, value: "Bash".to_owned() }]);
        let watch = store.watch_of_account(&account, &values).await.unwrap().unwrap();
        assert_eq!((watch.is_learned, watch.rules.len(), watch.digest.clone()), (false, 1, Some((at(700), digest.clone()))));
        assert_eq!((watch.seen, watch.seen_counts[&Novelty::Tool]), (HashSet::from([tool("Bash")]), 2));
        assert_eq!(watch.rules[0].state.waiting(), 1);
        assert_eq!(store.accounts_with_due_rules(at(49), 10).await.unwrap(), []);
        assert_eq!(store.accounts_with_due_rules(at(50), 10).await.unwrap(), std::slice::from_ref(&account));
        // A digest that was switched off and on in between is not sent, and its new counts stay.
        store.digest_set(&account, None, &at_first(0), now()).await.unwrap();
        store.digest_set(&account, Some(at(900)), &at_first(0), at(800)).await.unwrap();
        let late = DigestWrite { before: at(700), next_at: at(1400), digest, mail: Some(world.new_mail("ada@example.com")) };
        assert!(store.rules_write(cursor, 5, &[WatchWrite { digest: Some(late), ..write(&account) }], at(810)).await.unwrap());
        assert_eq!((rows(world, "mails").await, store.digest_of_account(&account).await.unwrap()), (2, Some(at(900))));
    }

    async fn events_of_a_recorder_are_seen_by_the_accounts_that_watch_it(world: &World) {
        let store = &world.store;
        let (account, other) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (machine, cuid, _) = world.attached(&account).await;
        let (others_machine, others_cuid, _) = world.attached(&other).await;
        let recorder = Recorder { machine, identity: cuid.clone() };
        let stranger = Recorder { machine, identity: others_cuid.clone() };
        let all = [recorder, Recorder { machine: others_machine, identity: others_cuid }, stranger.clone()];
        assert_eq!(store.accounts_that_see(&all).await.unwrap(), []);
        added(world, &account, 0).await;
        assert_eq!(store.accounts_that_see(&all).await.unwrap(), std::slice::from_ref(&account));
        assert_eq!(store.accounts_that_see(&[stranger]).await.unwrap(), []);
        added(world, &other, 0).await;
        assert_eq!(store.accounts_that_see(&all).await.unwrap().len(), 2);
        let held = new_held(world, Sender::Machine(machine), "held", at(5));
        store.held_insert(&[held], &HeldQuotas::default()).await.unwrap();
        assert_eq!((store.held_since(&account, at(5)).await.unwrap(), store.held_since(&account, at(6)).await.unwrap()), (1, 0));
        assert_eq!(store.held_since(&other, at(0)).await.unwrap(), 0);
        assert_eq!(store.watch_of_account(&world.account("eve@example.com").await, &HashSet::new()).await.unwrap(), None);
    }

    async fn a_closed_account_has_no_rules(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let rule = added(world, &account, 0).await;
        store.digest_set(&account, Some(at(100)), &at_first(0), now()).await.unwrap();
        store.account_learned(&account, &[tool("Bash")]).await.unwrap();
        assert!(store.account_close(&account, None, now()).await.unwrap());
        assert_eq!(store.rule_cursor(LogPart::FIRST).await.unwrap(), None);
        // A request that saw the account open adds a rule after it was closed.
        assert!(store.rule_create(&rule, &at_first(0), MAX).await.unwrap());
        store.closed_accounts_empty(now() + TimeDelta::days(1), &PurgeSettings::default()).await.unwrap();
        assert_eq!(store.rules_of_account(&account).await.unwrap(), []);
        assert_eq!((rows(world, "seen_values").await, rows(world, "watched_accounts").await), (0, 0));
    }
}
