//! Changes of consent and the events that report them.

use domain::chain::Prev;
use domain::consent::pause::Pause;
use domain::consent::{Author, ConsentEdit, ConsentLevel, ConsentRule};
use domain::envelope::{AgentKinds, Lane, Sealed};
use domain::ids::UserCuid;
use domain::log_part::LogPart;
use store::Store;
use store::consent::pause::PauseScope;
use store::consent::{ConsentEdited, LevelAuthor};
use store::machine::{NewMachine, Register};
use store::outbox::ServiceChain;

use crate::world::{World, at, now};
use harness::on_each_database;

fn rule(lane: Option<Lane>, level: ConsentLevel) -> ConsentRule {
    ConsentRule { machine: None, lane, level, set_by: Author::Person }
}

async fn set(world: &World, store: &Store, cuid: &UserCuid, rule: &ConsentRule, second: i64) -> usize {
    let author = LevelAuthor { reason: Some("why"), ..LevelAuthor::default() };
    let changed = store.consent_set_by(std::slice::from_ref(cuid), rule, &author, at(second), &world.rng).await;
    changed.unwrap().len()
}

fn chain(cuid: &UserCuid) -> ServiceChain {
    ServiceChain::Identity(cuid.clone())
}

/// The waiting events, opened, and checked to be one chain.
async fn waiting(store: &Store, cuid: &UserCuid) -> Vec<Sealed> {
    let mut opened: Vec<Sealed> = Vec::new();
    for event in store.outbox_of(&chain(cuid), 100).await.unwrap() {
        let sealed = Sealed::open(&event.body, 65_536, &AgentKinds::new([])).unwrap();
        assert!(sealed.seal_is_right());
        assert_eq!((sealed.envelope.event_id, &sealed.envelope.scope.user_id), (event.id, cuid));
        if let Some(before) = opened.last() {
            assert_eq!(sealed.envelope.seq, before.envelope.seq + 1);
            assert_eq!(sealed.envelope.position().prev, Prev::Event(before.seal));
        }
        opened.push(sealed);
    }
    opened
}

on_each_database! {
    async fn every_changed_level_leaves_one_event_at_the_end_of_its_chain(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let (_, cuid, _) = world.attached(&account).await;
        assert_eq!(store.identity(&cuid).await.unwrap().unwrap().control_machine, None);
        assert_eq!(set(world, store, &cuid, &rule(None, ConsentLevel::Off), 0).await, 1);
        assert_eq!(set(world, store, &cuid, &rule(None, ConsentLevel::Off), 1).await, 0);
        assert_eq!(set(world, store, &cuid, &rule(None, ConsentLevel::Full), 2).await, 1);
        assert_eq!(set(world, store, &cuid, &rule(Some(Lane::Rsi), ConsentLevel::Off), 3).await, 1);
        let events = waiting(store, &cuid).await;
        let machine = store.identity(&cuid).await.unwrap().unwrap().control_machine.unwrap();
        let (user_cuid, secret) = (world.cuid(), world.secret());
        let pretender = NewMachine { machine_uuid: machine, user_cuid: &user_cuid, name: None, secret, part: LogPart::FIRST };
        assert_eq!(store.machine_register(&pretender, now()).await.unwrap(), Register::AlreadyRegistered);
        let payloads: Vec<_> = events.iter().map(|event| event.envelope.payload.clone()).collect();
        let levels: Vec<_> = payloads.iter().map(|payload| (payload["previous_level"].as_str(), payload["level"].as_str().unwrap(), payload["lane"].as_str())).collect();
        assert_eq!(levels, [(None, "off", None), (Some("off"), "full", None), (None, "off", Some("rsi"))]);
        assert_eq!(events[0].envelope.seq, 0);
        for event in &events {
            assert_eq!(event.envelope.scope.machine_id, machine);
            assert_eq!(event.envelope.scope.user_account_id.as_ref(), Some(&account));
            assert_eq!(event.envelope.payload["reason"], "why");
        }
        assert_eq!(store.outbox_chains(10).await.unwrap(), [chain(&cuid)]);
        assert_eq!(store.outbox_of(&chain(&cuid), 10).await.unwrap()[0].account, Some(account));
    }

    async fn a_pause_of_an_account_ends_by_itself_or_by_its_person(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let (machine, cuid, _) = world.attached(&account).await;
        let scope = PauseScope::Account(account.clone());
        let pause = |until, by| Pause { until: at(until), by };
        let begun = store.recording_pause(&scope, pause(60, Author::Person), &LevelAuthor::default(), at(1), &world.rng).await.unwrap();
        assert_eq!((begun.until, begun.identities), (Some(at(60)), vec![cuid.clone()]));
        assert_eq!(store.pauses_of_account(&account, at(59)).await.unwrap().of(machine), Some(at(60)));
        assert!(!store.pauses_of_account(&account, at(60)).await.unwrap().is_any());
        let end = async |author, second| {
            store.recording_continue(&scope, author, ConsentLevel::MetadataOnly, at(second), &world.rng).await.unwrap()
        };
        assert!(end(Author::Agent, 2).await.is_refused && end(Author::Computer, 2).await.is_refused);
        assert_eq!(end(Author::Person, 3).await.until, None);
        assert!(!store.pauses_of_account(&account, at(4)).await.unwrap().is_any());
        let events = waiting(store, &cuid).await;
        assert_eq!(events.iter().filter(|event| event.envelope.payload.contains_key("pause")).count(), 2);
        // The level is the previous one.
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), []);
    }

    async fn an_identity_gets_the_levels_of_its_account_when_it_is_linked(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let (first, first_cuid, _) = world.attached(&account).await;
        let (_, second_cuid, _) = world.attached(&account).await;
        let baseline = |lane, level, set_by| ConsentRule { machine: None, lane, level, set_by };
        let off = baseline(None, ConsentLevel::Off, Author::Person);
        assert_eq!(store.consent_set_baseline(&account, &off, &LevelAuthor { reason: Some("why"), ..LevelAuthor::default() }, at(1), &world.rng).await.unwrap().len(), 2);
        let llm = baseline(Some(Lane::Llm), ConsentLevel::MetadataOnly, Author::Agent);
        store.consent_set_baseline(&account, &llm, &LevelAuthor::default(), at(2), &world.rng).await.unwrap();
        // Levels of one computer do not apply to others, and of two different levels the newest counts.
        let own = ConsentRule { machine: Some(first), lane: Some(Lane::Rsi), level: ConsentLevel::Full, set_by: Author::Person };
        store.consent_set(std::slice::from_ref(&first_cuid), &own, None, at(3), &world.rng).await.unwrap();
        let newest = baseline(Some(Lane::Llm), ConsentLevel::Full, Author::Person);
        store.consent_set(&[second_cuid], &newest, None, at(4), &world.rng).await.unwrap();

        let (_, cuid, secret) = world.attached(&account).await;
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), [off.clone(), newest.clone()]);
        let facts = store.machine_by_secret(&secret).await.unwrap().unwrap().facts;
        assert_eq!(facts.consent.len(), 2);
        let events = waiting(store, &cuid).await;
        let payloads: Vec<_> = events.iter().map(|event| event.envelope.payload.clone()).collect();
        let expected = |level: &str, lane: Option<&str>| serde_json::json!({
            "level": level, "previous_level": null, "machine_uuid": null, "lane": lane, "set_by": "person", "reason": null, "inherited": true,
        });
        assert_eq!(serde_json::json!(payloads), serde_json::json!([expected("off", None), expected("full", Some("llm"))]));
        assert_eq!(events[0].envelope.scope.user_account_id.as_ref(), Some(&account));
        // Approving it again does not change levels, nor does attaching it to an account without levels.
        store.machine_attach(facts.machine_uuid, &account, at(5), &world.rng).await.unwrap().unwrap();
        assert_eq!(waiting(store, &cuid).await.len(), 2);
        let (_, foreign, _) = world.attached(&world.account("bob@example.com").await).await;
        assert_eq!(store.consent_rules(&foreign).await.unwrap(), []);
    }

    async fn a_level_that_is_set_while_an_identity_is_linked_is_that_of_both(world: &World) {
        let account = world.account("ada@example.com").await;
        world.attached(&account).await;
        for round in 0..8 {
            let level = if round % 2 == 0 { ConsentLevel::Off } else { ConsentLevel::Full };
            let rule = rule(None, level);
            let ((machine, ..), second) = (world.machine().await, world.second().await);
            let author = LevelAuthor::default();
            let (set, attached) = tokio::join!(
                world.store.consent_set_baseline(&account, &rule, &author, at(round), &world.rng),
                second.machine_attach(machine, &account, at(round), &world.rng),
            );
            set.unwrap();
            attached.unwrap().unwrap();
            let records = world.store.consent_of_account(&account).await.unwrap();
            assert_eq!(records.len(), 2 + usize::try_from(round).unwrap());
            assert!(records.iter().all(|record| record.rule == rule), "{round}: {records:?}");
        }
    }

    async fn an_edit_that_leaves_out_an_identity_is_stale(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let cuids = [world.attached(&account).await.1, world.attached(&account).await.1];
        let edit = |cuid: &UserCuid| ConsentEdit { identity: cuid.clone(), machine: None, lane: None, before: None, after: Some(ConsentLevel::Off) };
        let apply = async |edits: &[ConsentEdit]| {
            store.consent_edit(edits, Author::Person, ConsentLevel::MetadataOnly, now(), &world.rng).await.unwrap()
        };
        assert_eq!(apply(&[edit(&cuids[0])]).await, ConsentEdited::Stale);
        assert_eq!(store.consent_of_account(&account).await.unwrap(), []);
        assert!(matches!(apply(&cuids.each_ref().map(edit)).await, ConsentEdited::Written { records: 2, .. }));
    }

    async fn edits_are_written_together_and_a_scope_follows_the_general_level_again(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let (machine, cuid, _) = world.attached(&account).await;
        let edit = |machine, lane, before, after| ConsentEdit { identity: cuid.clone(), machine, lane, before, after };
        let apply = async |edits: &[ConsentEdit], second| {
            store.consent_edit(edits, Author::Person, ConsentLevel::MetadataOnly, at(second), &world.rng).await.unwrap()
        };
        let written = |records| ConsentEdited::Written { records, identities: vec![cuid.clone()] };
        let rules = async || {
            let rules = store.consent_rules(&cuid).await.unwrap();
            rules.iter().map(|rule| (rule.machine, rule.lane, rule.level)).collect::<Vec<_>>()
        };
        let (off, full) = (ConsentLevel::Off, ConsentLevel::Full);
        let first = [edit(Some(machine), Some(Lane::Llm), None, Some(full)), edit(None, None, None, Some(off))];
        assert_eq!(apply(&first, 1).await, written(2));
        assert_eq!(rules().await, [(None, None, off), (Some(machine), Some(Lane::Llm), full)]);
        // If one edit is stale, no edit is written.
        let stale = [edit(None, Some(Lane::Rsi), None, Some(full)), edit(None, None, Some(full), None)];
        assert_eq!(apply(&stale, 2).await, ConsentEdited::Stale);
        assert_eq!(apply(&first, 3).await, ConsentEdited::Stale);
        assert_eq!(rules().await.len(), 2);
        // The exception ends, and its report contains the level that applies again.
        assert_eq!(apply(&[edit(Some(machine), Some(Lane::Llm), Some(full), None)], 4).await, written(1));
        assert_eq!(apply(&[edit(None, None, Some(off), None)], 5).await, written(1));
        assert_eq!(apply(&[edit(None, None, None, None)], 6).await, ConsentEdited::Written { records: 0, identities: vec![] });
        assert_eq!(rules().await, []);
        let payloads: Vec<_> = waiting(store, &cuid).await.into_iter().map(|event| event.envelope.payload).collect();
        let reports: Vec<_> = payloads
            .iter()
            .map(|payload| (payload["previous_level"].as_str(), payload["level"].as_str(), payload.get("inherited").is_some()))
            .collect();
        assert_eq!(reports, [
            (None, Some("off"), false),
            (None, Some("full"), false),
            (Some("full"), Some("off"), true),
            (Some("off"), Some("metadata-only"), true),
        ]);
        // The computer's own level stays.
        let own = ConsentRule { machine: Some(machine), lane: None, level: off, set_by: Author::Computer };
        store.consent_set(std::slice::from_ref(&cuid), &own, None, at(7), &world.rng).await.unwrap();
        assert_eq!(apply(&[edit(Some(machine), None, None, Some(full))], 8).await, written(1));
        assert_eq!(apply(&[edit(Some(machine), None, Some(full), None)], 9).await, written(1));
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), [own]);
    }

    async fn a_sent_event_leaves_the_outbox_and_the_chain_continues_after_it(world: &World) {
        let store = &world.store;
        let ((_, cuid, _), (_, other, _)) = (world.machine().await, world.machine().await);
        set(world, store, &other, &rule(None, ConsentLevel::Off), 1).await;
        set(world, store, &cuid, &rule(None, ConsentLevel::Off), 0).await;
        // Longest waiting first.
        assert_eq!(store.outbox_chains(10).await.unwrap(), [chain(&cuid), chain(&other)]);
        let chains = store.outbox_overview(10).await.unwrap();
        let numbers: Vec<_> = chains.into_iter().map(|waiting| (waiting.chain, waiting.waiting)).collect();
        assert_eq!(numbers, [(chain(&cuid), 1), (chain(&other), 1)]);
        let first = waiting(store, &cuid).await.remove(0);
        assert!(store.outbox_done(&chain(&cuid), first.envelope.event_id, now()).await.unwrap());
        assert!(!store.outbox_done(&chain(&cuid), first.envelope.event_id, now()).await.unwrap());
        assert_eq!(store.outbox_chains(10).await.unwrap(), [chain(&other)]);
        set(world, store, &cuid, &rule(None, ConsentLevel::Full), 2).await;
        let second = waiting(store, &cuid).await.remove(0);
        assert_eq!((second.envelope.seq, second.envelope.position().prev), (1, Prev::Event(first.seal)));
    }

    async fn a_new_epoch_takes_over_everything_that_waits(world: &World) {
        let store = &world.store;
        let (_, cuid, _) = world.machine().await;
        for (second, level) in [ConsentLevel::Off, ConsentLevel::Full, ConsentLevel::Off].into_iter().enumerate() {
            set(world, store, &cuid, &rule(None, level), i64::try_from(second).unwrap()).await;
        }
        let before = waiting(store, &cuid).await;
        assert!(store.outbox_done(&chain(&cuid), before[0].envelope.event_id, now()).await.unwrap());
        assert_eq!(store.outbox_rechain(&chain(&cuid), 0, 7).await.unwrap(), 2);
        let moved = waiting(store, &cuid).await;
        assert_eq!(moved.iter().map(|event| (event.envelope.chain_epoch, event.envelope.seq)).collect::<Vec<_>>(), [(7, 0), (7, 1)]);
        assert_eq!(moved[0].envelope.position().prev, Prev::Genesis);
        let ids = |events: &[Sealed]| events.iter().map(|event| event.envelope.event_id).collect::<Vec<_>>();
        assert_eq!(ids(&moved), ids(&before[1..]));
        // A lower epoch than the stored one is already closed.
        assert_eq!(store.outbox_rechain(&chain(&cuid), 7, 0).await.unwrap(), 2);
        // A caller that was refused in an earlier epoch changes nothing.
        for refused in [0, 7] {
            assert_eq!(store.outbox_rechain(&chain(&cuid), refused, 20).await.unwrap(), 0);
        }
        set(world, store, &cuid, &rule(None, ConsentLevel::Full), 9).await;
        let last = waiting(store, &cuid).await;
        assert_eq!(last.iter().map(|event| (event.envelope.chain_epoch, event.envelope.seq)).collect::<Vec<_>>(), [(8, 0), (8, 1), (8, 2)]);
        assert_eq!(store.outbox_rechain(&chain(&world.cuid()), 0, 0).await.unwrap(), 0);
    }

    async fn changes_at_once_are_one_chain(world: &World) {
        let (_, cuid, _) = world.machine().await;
        let second = world.second().await;
        let mut setting = tokio::task::JoinSet::new();
        for (round, lane) in Lane::ALL.iter().copied().cycle().take(18).enumerate() {
            let (store, cuid, rng) = (if round % 2 == 0 { &world.store } else { &second }.clone(), cuid.clone(), world.rng.clone());
            let level = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full][round % 3];
            setting.spawn(async move { store.consent_set(&[cuid], &rule(Some(lane), level), None, now(), &rng).await.unwrap().len() });
        }
        let written: usize = setting.join_all().await.into_iter().sum();
        assert_eq!(waiting(&world.store, &cuid).await.len(), written);
        assert!(written >= 6);
    }
}
