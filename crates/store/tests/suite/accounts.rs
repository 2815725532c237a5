//! Accounts, people, identities, consent, sessions.

use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::envelope::Lane;
use domain::signin::SignInMethod;
use domain::usage::Plan;
use store::account::Provision;
use store::session::{NewSession, PersonSessionFilter};

use crate::world::{World, at, email, now};
use harness::on_each_database;

on_each_database! {
    async fn a_first_sign_in_makes_a_person_and_if_wanted_an_account(world: &World) {
        let store = &world.store;
        let ada = store.person_sign_in(&email("ada@example.com"), false, now(), &world.rng).await.unwrap();
        assert_eq!((ada.account.as_ref(), ada.email.as_str()), (None, "ada@example.com"));
        let again = store.person_sign_in(&email("Ada@Example.com"), true, at(1), &world.rng).await.unwrap();
        assert_eq!(again.id, ada.id);
        let account = again.account.clone().unwrap();
        assert_eq!(store.person_sign_in(&email("ada@example.com"), true, at(2), &world.rng).await.unwrap(), again);
        let stored = store.account_by_id(&account).await.unwrap().unwrap();
        assert_eq!((stored.plan, stored.balance_cents, stored.created_at), (Plan::Free, 0, at(1)));
        assert_eq!(stored.owner, Some((ada.id, ada.email.clone())));
        assert_eq!(store.persons(10).await.unwrap(), [again]);
        assert_eq!(store.accounts(None, 10).await.unwrap(), [(stored, None)]);
    }

    async fn people_who_sign_in_at_once_with_one_address_are_one(world: &World) {
        let second = world.second().await;
        let address = email("ada@example.com");
        let mut signing = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { world.store.clone() } else { second.clone() };
            let (address, rng) = (address.clone(), world.rng.clone());
            signing.spawn(async move { store.person_sign_in(&address, true, now(), &rng).await.unwrap() });
        }
        let people = signing.join_all().await;
        assert!(people.iter().all(|person| *person == people[0] && person.account.is_some()));
        assert_eq!(world.store.persons(10).await.unwrap().len(), 1);
        assert_eq!(world.store.accounts(None, 10).await.unwrap().len(), 1);
    }

    async fn an_account_is_provisioned_once_for_an_identity_and_once_for_a_person(world: &World) {
        let store = &world.store;
        let (cuid, ada) = (world.cuid(), email("ada@example.com"));
        let made = store.account_provision(Some(&cuid), None, Some("Lab"), now(), &world.rng).await.unwrap();
        let Provision::Created(account) = made else { panic!("{made:?}") };
        let stored = store.account_by_id(&account).await.unwrap().unwrap();
        assert_eq!((stored.name.as_deref(), stored.owner), (Some("Lab"), None));
        assert_eq!(store.identity(&cuid).await.unwrap().unwrap().account, Some(account.clone()));
        assert_eq!(store.identities_of_account(&account).await.unwrap(), std::slice::from_ref(&cuid));

        let refused = store.account_provision(Some(&cuid), Some(&ada), None, now(), &world.rng).await.unwrap();
        assert_eq!(refused, Provision::IdentityLinked);
        assert_eq!(store.accounts(None, 10).await.unwrap().len(), 1, "a refusal leaves nothing");
        assert!(store.persons(10).await.unwrap().is_empty());

        let made = store.account_provision(None, Some(&ada), None, now(), &world.rng).await.unwrap();
        assert!(matches!(made, Provision::Created(_)));
        let other = world.cuid();
        let refused = store.account_provision(Some(&other), Some(&ada), None, now(), &world.rng).await.unwrap();
        assert_eq!(refused, Provision::PersonHasAccount);
        assert_eq!(store.identity(&other).await.unwrap(), None);
    }

    async fn an_account_has_the_plan_that_it_was_given(world: &World) {
        let account = world.account("ada@example.com").await;
        for plan in Plan::ALL.iter().copied() {
            assert!(world.store.account_plan_set(&account, plan, now()).await.unwrap());
            assert_eq!(world.store.account_by_id(&account).await.unwrap().unwrap().plan, plan);
        }
        assert!(!world.store.account_plan_set(&"nobody".parse().unwrap(), Plan::Max, now()).await.unwrap());
        assert_eq!(world.store.account_by_id(&"nobody".parse().unwrap()).await.unwrap(), None);
    }

    async fn a_level_is_one_row_for_its_scope_and_only_changes_count(world: &World) {
        let store = &world.store;
        let ((machine, cuid, _), (_, other, _)) = (world.machine().await, world.machine().await);
        let rule = |machine, lane, level| ConsentRule { machine, lane, level, set_by: Author::Person };
        let scopes = [(None, None), (None, Some(Lane::Memory)), (Some(machine), None), (Some(machine), Some(Lane::Memory))];
        for (machine, lane) in scopes {
            let mut both = [cuid.clone(), other.clone()];
            both.sort_by_key(|cuid| cuid.as_str().to_owned());
            let off = rule(machine, lane, ConsentLevel::Off);
            assert_eq!(store.consent_set(&both, &off, Some("because\0"), now(), &world.rng).await.unwrap(), both);
            assert_eq!(store.consent_set(&both, &off, None, at(1), &world.rng).await.unwrap(), []);
            let full = rule(machine, lane, ConsentLevel::Full);
            assert_eq!(store.consent_set(std::slice::from_ref(&cuid), &full, None, at(2), &world.rng).await.unwrap(), std::slice::from_ref(&cuid));
        }
        let rules = store.consent_rules(&cuid).await.unwrap();
        assert_eq!(rules, scopes.map(|(machine, lane)| rule(machine, lane, ConsentLevel::Full)));
        let rules = store.consent_rules(&other).await.unwrap();
        assert_eq!(rules, scopes.map(|(machine, lane)| rule(machine, lane, ConsentLevel::Off)));
        assert!(store.consent_set(&[world.cuid()], &rules[0], None, now(), &world.rng).await.unwrap_err().is_foreign_key_violation());
    }

    async fn a_computer_and_its_person_have_a_level_each_for_one_scope(world: &World) {
        let store = &world.store;
        let (machine, cuid, secret) = world.machine().await;
        let rule = |level, set_by| ConsentRule { machine: Some(machine), lane: Some(Lane::Llm), level, set_by };
        let one = std::slice::from_ref(&cuid);
        let (off, full) = (rule(ConsentLevel::Off, Author::Person), rule(ConsentLevel::Full, Author::Computer));
        for rule in [&off, &full] {
            assert_eq!(store.consent_set(one, rule, None, now(), &world.rng).await.unwrap(), one);
            assert_eq!(store.consent_set(one, rule, None, now(), &world.rng).await.unwrap(), []);
        }
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), [off, full.clone()]);
        // An agent acts for the person: its level replaces the person's.
        let agents = rule(ConsentLevel::MetadataOnly, Author::Agent);
        assert_eq!(store.consent_set(one, &agents, None, now(), &world.rng).await.unwrap(), one);
        let rules = [agents, full];
        assert_eq!(store.consent_rules(&cuid).await.unwrap(), rules);
        let mut levels = store.machine_by_secret(&secret).await.unwrap().unwrap().facts.consent;
        levels.sort_by_key(|rule| rule.level);
        assert_eq!(levels, rules);
        assert_eq!(store.machines_by_secret(&[secret]).await.unwrap()[0].as_ref().unwrap().facts.consent.len(), 2);
        assert_eq!(store.machine_facts(machine).await.unwrap().unwrap().facts.consent.len(), 2);
    }

    async fn levels_that_are_set_at_once_are_one_row(world: &World) {
        let (_, cuid, _) = world.machine().await;
        let second = world.second().await;
        let levels = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full];
        let mut setting = tokio::task::JoinSet::new();
        for round in 0..9 {
            let (store, cuid) = (if round % 2 == 0 { &world.store } else { &second }.clone(), cuid.clone());
            let rng = world.rng.clone();
            let rule = ConsentRule { machine: None, lane: None, level: levels[round % 3], set_by: Author::Person };
            setting.spawn(async move { store.consent_set(&[cuid], &rule, None, now(), &rng).await.unwrap().len() });
        }
        assert!(setting.join_all().await.into_iter().sum::<usize>() >= 1);
        assert_eq!(world.store.consent_rules(&cuid).await.unwrap().len(), 1);
    }

    async fn an_account_sees_the_levels_of_its_own_identities(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (_, cuid, _) = world.attached(&ada).await;
        let (_, strange, _) = world.attached(&bob).await;
        let rule = ConsentRule { machine: None, lane: Some(Lane::Llm), level: ConsentLevel::Off, set_by: Author::Person };
        store.consent_set(&[cuid.clone(), strange], &rule, None, now(), &world.rng).await.unwrap();
        let records = store.consent_of_account(&ada).await.unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!((&records[0].user_cuid, &records[0].rule), (&cuid, &rule));
    }

    async fn a_session_holds_until_it_ends(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let token = world.session(ada.id, now(), at(100)).await;
        let facts = store.session_by_hash(&token, at(99)).await.unwrap().unwrap();
        assert_eq!((facts.person, &facts.email, &facts.account), (ada.id, &ada.email, &ada.account));
        assert_eq!((facts.created_at, facts.expires_at), (now(), at(100)));
        assert_eq!(store.session_by_hash(&token, at(100)).await.unwrap(), None);
        assert_eq!(store.session_by_hash(&world.secret(), now()).await.unwrap(), None);

        assert!(store.session_slide(&token, at(200), at(50)).await.unwrap());
        assert!(store.session_slide(&token, at(150), at(60)).await.unwrap());
        let facts = store.session_by_hash(&token, at(199)).await.unwrap().unwrap();
        assert_eq!((facts.last_used_at, facts.expires_at), (at(60), at(200)), "never shorter");
        assert!(!store.session_slide(&token, at(400), at(200)).await.unwrap(), "never again after its end");

        assert!(store.session_revoke(&token, at(60)).await.unwrap());
        assert!(!store.session_revoke(&token, at(61)).await.unwrap());
        assert_eq!(store.session_by_hash(&token, at(62)).await.unwrap(), None);
        assert!(!store.session_slide(&token, at(400), at(62)).await.unwrap());
    }

    async fn a_person_sees_and_ends_their_own_sessions(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let long = "x".repeat(1000);
        let first = NewSession { user_agent: Some(&long), address: None, via: SignInMethod::Oidc("work".into()), ..world.new_session(ada.id, at(100)) };
        store.session_create(&first, None, now()).await.unwrap();
        let second = world.new_session(ada.id, at(100));
        store.session_create(&second, None, at(1)).await.unwrap();
        let bobs = world.session(bob.id, now(), at(100)).await;
        let listed = store.sessions_of_person(ada.id, at(2), 10).await.unwrap();
        assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), [second.id, first.id]);
        assert_eq!((&listed[0].via, listed[0].address.as_deref()), (&SignInMethod::Code, Some("192.0.2.1")));
        assert_eq!((listed[0].created_at, listed[0].expires_at), (at(1), at(100)));
        assert_eq!((&listed[1].via, &listed[1].address), (&SignInMethod::Oidc("work".into()), &None));
        assert_eq!(listed[1].user_agent.as_ref().map(String::len), Some(300));
        assert_eq!(store.session_by_hash(&second.token, at(2)).await.unwrap().unwrap().session, second.id);
        assert_eq!(store.sessions_of_person(ada.id, at(2), 1).await.unwrap().len(), 1);
        assert!(!store.session_revoke_by_id(first.id, Some(bob.id), at(2)).await.unwrap(), "another's");
        assert!(store.session_revoke_by_id(first.id, Some(ada.id), at(2)).await.unwrap());
        assert!(!store.session_revoke_by_id(first.id, Some(ada.id), at(2)).await.unwrap());
        assert!(!store.session_revoke_by_id(second.id, Some(ada.id), at(100)).await.unwrap(), "over anyway");
        assert!(store.session_revoke_by_id(second.id, Some(ada.id), at(3)).await.unwrap());
        assert!(store.sessions_of_person(ada.id, at(4), 10).await.unwrap().is_empty());
        assert!(store.session_by_hash(&bobs, at(4)).await.unwrap().is_some());
    }

    async fn an_operator_sees_valid_sessions_and_ends_one(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let mut ids = Vec::new();
        for (person, second) in [(&ada, 0), (&ada, 1), (&bob, 2)] {
            let id = world.rng.uuid_v7(at(second)).into();
            let via = if second == 1 { SignInMethod::Operator } else { SignInMethod::Code };
            store.session_create(&NewSession { id, via, ..world.new_session(person.id, at(100 + second)) }, None, at(second)).await.unwrap();
            ids.push(id);
        }
        let list = async |filter: PersonSessionFilter, after, now| {
            store.sessions_valid(&filter, after, now, 2).await.unwrap().into_iter().map(|session| session.id).collect::<Vec<_>>()
        };
        let (all, account) = (PersonSessionFilter::default, bob.account.clone());
        assert!(account.is_some());
        let first = store.sessions_valid(&all(), None, at(3), 1).await.unwrap().remove(0);
        assert_eq!((first.person, &first.account, first.via), (ada.id, &ada.account, SignInMethod::Code));
        assert_eq!((first.created_at, first.last_used_at, first.expires_at), (now(), now(), at(100)));
        assert_eq!(list(all(), None, at(3)).await, ids[..2]);
        assert_eq!(list(all(), Some(ids[1]), at(3)).await, ids[2..]);
        assert_eq!(list(all(), None, at(100)).await, ids[1..], "the first has expired");
        assert_eq!(list(PersonSessionFilter { person: Some(ada.id), ..all() }, Some(ids[0]), at(3)).await, ids[1..2]);
        assert_eq!(list(PersonSessionFilter { account: account.clone(), ..all() }, None, at(3)).await, ids[2..]);
        assert!(list(PersonSessionFilter { account, person: Some(ada.id) }, None, at(3)).await.is_empty());
        assert!(store.session_revoke_by_id(ids[2], None, at(4)).await.unwrap());
        assert!(!store.session_revoke_by_id(ids[2], None, at(4)).await.unwrap());
        assert!(!store.session_revoke_by_id(ids[1], None, at(101)).await.unwrap(), "over anyway");
        assert_eq!(list(all(), None, at(5)).await, ids[..2]);
    }

    async fn all_sessions_of_a_person_but_one_are_ended_at_once(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let kept = world.new_session(ada.id, at(100));
        store.session_create(&kept, None, now()).await.unwrap();
        for _ in 0..150 {
            world.session(ada.id, at(1), at(100)).await;
        }
        let bobs = world.session(bob.id, now(), at(100)).await;
        assert_eq!(store.sessions_revoke_others(ada.id, kept.id, at(2)).await.unwrap(), 150);
        assert_eq!(store.sessions_revoke_others(ada.id, kept.id, at(3)).await.unwrap(), 0);
        let left = store.sessions_of_person(ada.id, at(3), 200).await.unwrap();
        assert_eq!(left.iter().map(|session| session.id).collect::<Vec<_>>(), [kept.id]);
        assert!(store.session_by_hash(&bobs, at(3)).await.unwrap().is_some());
    }

    async fn a_new_session_ends_the_one_that_the_browser_had(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let old = world.session(ada.id, now(), at(100)).await;
        let new = world.new_session(ada.id, at(100));
        store.session_create(&new, Some(&old), at(1)).await.unwrap();
        assert_eq!(store.session_by_hash(&old, at(2)).await.unwrap(), None);
        assert!(store.session_by_hash(&new.token, at(2)).await.unwrap().is_some());
        store.session_create(&world.new_session(ada.id, at(100)), Some(&world.secret()), at(3)).await.unwrap();
    }
}
