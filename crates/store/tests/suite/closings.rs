//! Accounts that their owners close.

use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::recorder::Recorder;
use domain::space::AccessType;
use domain::usage::{Day, QuotaUsed, UsageWindow};
use store::held::{HeldQuotas, NewHeld, Sender};
use store::janitor::PurgeSettings;
use store::memory::MemoryScope;
use store::outbox::ServiceChain;
use store::usage::UsageDay;

use crate::held::new_held;
use crate::memories::{Draft, space};
use crate::world::{World, at, email, now};
use harness::on_each_database;

/// Seconds after which requests that saw the account open have ended.
const LATER: i64 = 660;

on_each_database! {
    async fn a_closed_account_loses_its_access_at_once_and_its_contents_step_by_step(world: &World) {
        let store = &world.store;
        let (person, stranger) = (world.person("ada@example.com").await, world.account("bob@example.com").await);
        let account = person.account.clone().unwrap();
        let session = world.session(person.id, now(), at(9000)).await;
        let (machine, cuid, secret) = world.attached(&account).await;
        let (other_machine, other_cuid, other_secret) = world.attached(&stranger).await;
        let (agent, _) = world.claimed("ada@example.com").await;
        let home = space(world, &account).await;
        let draft = Draft { spaces: vec![home], ..Draft::new(world, &account, "key", &["some text"]) };
        draft.put(store, 10).await;
        let foreign_space = space(world, &stranger).await;
        assert!(store.space_share(foreign_space, &stranger, &account, Some(AccessType::Edit)).await.unwrap());
        for scope in [None, Some(machine)] {
            let rule = ConsentRule { machine: scope, lane: None, level: ConsentLevel::Off, set_by: Author::Person };
            store.consent_set(std::slice::from_ref(&cuid), &rule, None, now(), &world.rng).await.unwrap();
        }
        let day = UsageDay {
            recorder: Recorder { machine, identity: cuid.clone() },
            day: Day::from(10),
            used: QuotaUsed { memory: 3, retrospectives: 0 },
        };
        store.usage_add(std::slice::from_ref(&day)).await.unwrap();

        let notice = world.new_mail("ada@example.com");
        assert!(store.account_close(&account, Some(&notice), at(1)).await.unwrap());
        assert!(!store.account_close(&account, Some(&notice), at(2)).await.unwrap(), "once");
        assert!(!store.account_close(&"unknown".parse().unwrap(), None, at(2)).await.unwrap());
        assert_eq!(store.mails_claim_due(at(3), at(60), 10).await.unwrap().len(), 1);
        assert_eq!(store.session_by_hash(&session, at(2)).await.unwrap(), None);
        assert_eq!(store.machine_by_secret(&secret).await.unwrap(), None);
        assert!(store.registration_by_id(agent).await.unwrap().unwrap().0.revoked_at.is_some());
        assert_eq!(store.account_by_email(&email("ada@example.com")).await.unwrap(), None);
        // The e-mail address may sign up again, as a new account without access to the old one.
        let again = store.person_sign_in(&email("ada@example.com"), true, at(3), &world.rng).await.unwrap().account.unwrap();
        assert_ne!(again, account);
        assert_eq!(store.computers_ended(&again, 10).await.unwrap(), []);

        // The reports of consent are forwarded first, and the grace period passes.
        let settings = PurgeSettings::default();
        assert_eq!(store.closed_accounts_empty(at(LATER), &settings).await.unwrap(), 0);
        assert_eq!(store.memories_of(&MemoryScope::Account(account.clone()), None, 10, 10).await.unwrap(), []);
        assert_eq!(store.spaces_of_account(&account, 10).await.unwrap(), []);
        let chain = ServiceChain::Identity(cuid.clone());
        for event in store.outbox_of(&chain, 10).await.unwrap() {
            assert!(store.outbox_done(&chain, event.id, now()).await.unwrap());
        }
        assert_eq!(store.closed_accounts_empty(at(2), &settings).await.unwrap(), 0);
        assert_eq!(store.purge(at(LATER), &settings).await.unwrap().closed_accounts, 1);
        assert_eq!(store.closed_accounts_empty(at(LATER), &settings).await.unwrap(), 0, "it is done");

        assert_eq!(store.registration_by_id(agent).await.unwrap(), None);
        assert_eq!(store.machine_facts(machine).await.unwrap(), None);
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), []);
        assert_eq!(store.identity(&cuid).await.unwrap(), None);
        assert_eq!(store.computers_ended(&account, 10).await.unwrap(), []);
        let all = UsageWindow { first: Day::from(0), end: Day::from(100) };
        assert_eq!(store.usage_history(&[day.recorder], all, 10).await.unwrap(), []);
        // Other accounts keep their data.
        assert!(store.machine_by_secret(&other_secret).await.unwrap().is_some());
        assert_eq!(store.computers_of_account(&stranger, 10).await.unwrap()[0].machine_uuid, other_machine);
        assert!(store.identity(&other_cuid).await.unwrap().is_some());
    }

    async fn a_person_who_does_not_return_is_forgotten_and_events_held_for_an_agent_are_deleted(world: &World) {
        let store = &world.store;
        let (agent, claim) = world.claimed("ada@example.com").await;
        let sender = Sender::Registration(agent);
        let held = NewHeld { account: Some(claim.account.clone()), ..new_held(world, sender, "{}", now()) };
        store.held_insert(&[held], &HeldQuotas::default()).await.unwrap();
        assert!(store.held_bytes().await.unwrap() > 0);
        assert!(store.account_close(&claim.account, None, at(1)).await.unwrap());
        assert_eq!(store.closed_accounts_empty(at(LATER), &PurgeSettings::default()).await.unwrap(), 1);
        assert_eq!(store.registration_by_id(agent).await.unwrap(), None);
        assert_eq!(store.person_by_id(claim.person).await.unwrap(), None);
        assert_eq!(store.held_bytes().await.unwrap(), 0);
    }
}
