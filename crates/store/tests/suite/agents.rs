//! Registrations of agents, and claim attempts.

use chrono::TimeDelta;
use domain::claim::{ATTEMPT_SECONDS, AttemptState, Claim, Registration, RegistrationType, WRONG_TRIES_MAX};
use domain::confirm::ConfirmedVia;
use domain::label::Label;
use domain::token::TokenScope;
use store::claim::{AttemptStart, Confirmed};

use crate::world::{World, at, email, now};
use harness::on_each_database;

const STARTS_MAX: u32 = 3;

fn window() -> TimeDelta {
    TimeDelta::hours(1)
}

on_each_database! {
    async fn an_account_names_its_agents(world: &World) {
        let store = &world.store;
        let (agent, claim) = world.claimed("ada@example.com").await;
        let stranger = world.account("bob@example.com").await;
        let label = Label::or_none("Coding agent").unwrap();
        assert!(!store.agent_label_set(agent, &stranger, label.as_ref()).await.unwrap());
        assert!(store.agent_label_set(agent, &claim.account, label.as_ref()).await.unwrap());
        assert_eq!(store.agents_of_account(&claim.account, 10).await.unwrap()[0].label, label);
        assert!(store.agent_label_set(agent, &claim.account, None).await.unwrap());
        assert_eq!(store.registration_by_id(agent).await.unwrap().unwrap().0.label, None);
    }

    async fn a_registration_is_kept_whole(world: &World) {
        let store = &world.store;
        let anonymous = world.new_registration();
        store.registration_create(&anonymous, None).await.unwrap();
        assert_eq!(store.registration_by_id(anonymous.id).await.unwrap(), Some((anonymous.clone(), None)));
        let registration = store.registration_by_claim_token(&anonymous.claim_token).await.unwrap();
        assert_eq!(registration, Some((anonymous, None)));

        let hinted = Registration {
            registration_type: RegistrationType::ServiceAuth,
            login_hint: Some(email("ada@example.com")),
            ip_address: None,
            ..world.new_registration()
        };
        let first = domain::claim::Attempt { email: hinted.login_hint.clone(), ..world.new_attempt(hinted.id, now()) };
        store.registration_create(&hinted, Some(&first)).await.unwrap();
        let registration = store.registration_by_claim_token(&hinted.claim_token).await.unwrap();
        assert_eq!(registration, Some((hinted.clone(), Some(first.clone()))));
        assert_eq!(store.attempt_owner(&first.token).await.unwrap(), Some(hinted.id));
        assert_eq!(store.attempt_owner(&world.secret()).await.unwrap(), None);
        assert_eq!(store.registration_by_claim_token(&world.secret()).await.unwrap(), None);
        assert_eq!(store.registration_by_id(world.new_registration().id).await.unwrap(), None);
    }

    async fn a_new_attempt_takes_the_place_of_the_live_one(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let (first, second) = (world.new_attempt(id, now()), world.new_attempt(id, now()));
        for attempt in [&first, &second] {
            assert_eq!(store.attempt_start(attempt, STARTS_MAX, window(), now()).await.unwrap(), AttemptStart::Started);
            let (_, newest) = store.registration_by_id(id).await.unwrap().unwrap();
            assert_eq!(newest.as_ref(), Some(attempt), "the newest, even within one millisecond");
        }
        let claim = world.claim_of("ada@example.com").await;
        assert!(!store.attempt_complete(&first.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
        assert_eq!(store.attempt_wrong_code(&first.token, WRONG_TRIES_MAX, now()).await.unwrap(), None);
        assert!(store.attempt_complete(&second.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
    }

    async fn starts_are_counted_in_a_window_that_moves(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let start = async |seconds: i64| {
            store.attempt_start(&world.new_attempt(id, at(seconds)), STARTS_MAX, window(), at(seconds)).await.unwrap()
        };
        for seconds in [0, 100, 200] {
            assert_eq!(start(seconds).await, AttemptStart::Started);
        }
        let wait = |seconds| AttemptStart::TooMany { retry_after: TimeDelta::seconds(seconds) };
        assert_eq!(start(300).await, wait(3300));
        let (_, newest) = store.registration_by_id(id).await.unwrap().unwrap();
        assert_eq!(newest.unwrap().state, AttemptState::Live, "a refused start kills nothing");
        assert_eq!(start(3599).await, wait(1));
        assert_eq!(start(3600).await, AttemptStart::Started);
        assert_eq!(start(3601).await, wait(99));
        let none = store.attempt_start(&world.new_attempt(id, at(0)), 0, window(), at(0)).await.unwrap();
        assert_eq!(none, wait(3600));
    }

    async fn starts_at_once_leave_one_live_attempt_and_are_all_counted(world: &World) {
        let second = world.second().await;
        let id = world.registration().await;
        let mut starting = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let attempt = world.new_attempt(id, now());
            starting.spawn(async move {
                (attempt.token, store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap())
            });
        }
        let outcomes = starting.join_all().await;
        let started: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == AttemptStart::Started).collect();
        assert_eq!(started.len(), STARTS_MAX as usize);
        let mut live = 0;
        for (token, _) in started {
            live += u32::from(world.store.attempt_wrong_code(token, 99, now()).await.unwrap().is_some());
        }
        assert_eq!(live, 1);
    }

    async fn nothing_starts_on_a_settled_registration(world: &World) {
        let store = &world.store;
        let (claimed, _) = world.claimed("ada@example.com").await;
        let revoked = world.registration().await;
        store.registration_revoke(revoked, None, now()).await.unwrap();
        for id in [claimed, revoked, world.new_registration().id] {
            let started = store.attempt_start(&world.new_attempt(id, now()), STARTS_MAX, window(), now()).await.unwrap();
            assert_eq!(started, AttemptStart::Settled);
        }
    }

    async fn the_last_wrong_code_burns_the_attempt(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let attempt = world.new_attempt(id, now());
        store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
        for tries in 1..=WRONG_TRIES_MAX {
            let state = store.attempt_wrong_code(&attempt.token, WRONG_TRIES_MAX, now()).await.unwrap();
            let expected = if tries < WRONG_TRIES_MAX { AttemptState::Live } else { AttemptState::Burnt };
            assert_eq!(state, Some(expected));
            let (_, newest) = store.registration_by_id(id).await.unwrap().unwrap();
            let newest = newest.unwrap();
            assert_eq!((newest.wrong_tries, newest.state), (tries, expected));
        }
        assert_eq!(store.attempt_wrong_code(&attempt.token, WRONG_TRIES_MAX, now()).await.unwrap(), None);
        let claim = world.claim_of("ada@example.com").await;
        assert!(!store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
    }

    async fn wrong_codes_at_once_are_all_counted(world: &World) {
        let second = world.second().await;
        let id = world.registration().await;
        let attempt = world.new_attempt(id, now());
        world.store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
        let mut guessing = tokio::task::JoinSet::new();
        for round in 0..12 {
            let (store, token) = (if round % 2 == 0 { &world.store } else { &second }.clone(), attempt.token);
            guessing.spawn(async move { store.attempt_wrong_code(&token, WRONG_TRIES_MAX, now()).await.unwrap() });
        }
        let outcomes = guessing.join_all().await;
        let count = |state| outcomes.iter().filter(|outcome| **outcome == state).count();
        assert_eq!(count(Some(AttemptState::Live)), WRONG_TRIES_MAX as usize - 1);
        assert_eq!(count(Some(AttemptState::Burnt)), 1);
    }

    async fn an_attempt_past_its_time_has_ended(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let attempt = world.new_attempt(id, now());
        store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
        let claim = world.claim_of("ada@example.com").await;
        let late = at(ATTEMPT_SECONDS);
        assert_eq!(store.attempt_wrong_code(&attempt.token, WRONG_TRIES_MAX, late).await.unwrap(), None);
        assert!(!store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, late).await.unwrap());
        assert!(store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, at(ATTEMPT_SECONDS - 1)).await.unwrap());
    }

    async fn a_claim_is_kept_whole_and_ends_the_tokens_from_before(world: &World) {
        let store = &world.store;
        let id = world.registration().await;
        let before = world.secret();
        assert!(store.token_issue(&before, id, TokenScope::Events, now(), at(3600)).await.unwrap());
        let attempt = world.new_attempt(id, now());
        store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
        let claim = world.claim_of("ada@example.com").await;
        assert!(store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, at(1)).await.unwrap());
        assert_eq!(store.token_by_hash(&before, at(1)).await.unwrap(), None);
        let (registration, newest) = store.registration_by_id(id).await.unwrap().unwrap();
        assert_eq!(registration.claim.as_ref(), Some(&claim));
        assert_eq!(newest.unwrap().state, AttemptState::Completed);
        assert_eq!(store.agents_of_account(&claim.account, 10).await.unwrap(), [registration]);
        assert_eq!(store.agents(None, 10).await.unwrap()[0].claimed_via.as_deref(), Some("session"));
    }

    async fn of_many_who_claim_at_once_exactly_one_wins(world: &World) {
        let second = world.second().await;
        for round in 0..5 {
            let id = world.registration().await;
            let attempt = world.new_attempt(id, now());
            world.store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
            let mut claiming = tokio::task::JoinSet::new();
            for person in 0..4 {
                let store = if person % 2 == 0 { &world.store } else { &second }.clone();
                let claim = world.claim_of(&format!("person{person}of{round}@example.com")).await;
                let token = attempt.token;
                claiming.spawn(async move {
                    let won = store.attempt_complete(&token, &claim, ConfirmedVia::Session, None, now()).await.unwrap();
                    won.then_some(claim)
                });
            }
            let winners: Vec<_> = claiming.join_all().await.into_iter().flatten().collect();
            assert_eq!(winners.len(), 1);
            let (registration, _) = world.store.registration_by_id(id).await.unwrap().unwrap();
            assert_eq!(registration.claim.as_ref(), winners.first());
        }
    }

    async fn a_claim_beside_a_new_start_is_whole_or_refused(world: &World) {
        let second = world.second().await;
        let claim = world.claim_of("ada@example.com").await;
        for _ in 0..10 {
            let id = world.registration().await;
            let (first, next) = (world.new_attempt(id, now()), world.new_attempt(id, now()));
            world.store.attempt_start(&first, STARTS_MAX, window(), now()).await.unwrap();
            let (completed, started) = tokio::join!(
                world.store.attempt_complete(&first.token, &claim, ConfirmedVia::Session, None, now()),
                second.attempt_start(&next, STARTS_MAX, window(), now()),
            );
            let (registration, newest) = world.store.registration_by_id(id).await.unwrap().unwrap();
            let newest = newest.unwrap();
            match (completed.unwrap(), started.unwrap()) {
                (true, AttemptStart::Settled) => {
                    assert_eq!((registration.claim.is_some(), newest.state), (true, AttemptState::Completed));
                }
                (false, AttemptStart::Started) => {
                    assert_eq!((registration.claim, newest.token), (None, next.token));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    async fn only_the_owner_revokes_and_permanently(world: &World) {
        let store = &world.store;
        let (id, claim) = world.claimed("ada@example.com").await;
        let stranger = world.account("bob@example.com").await;
        let token = world.secret();
        assert!(store.token_issue(&token, id, TokenScope::Account, now(), at(3600)).await.unwrap());
        assert!(!store.registration_revoke(id, Some(&stranger), at(1)).await.unwrap());
        assert!(store.token_by_hash(&token, at(1)).await.unwrap().is_some());
        assert!(store.registration_revoke(id, Some(&claim.account), at(2)).await.unwrap());
        assert!(!store.registration_revoke(id, Some(&claim.account), at(3)).await.unwrap());
        assert_eq!(store.token_by_hash(&token, at(3)).await.unwrap(), None);
        let listed = store.agents_of_account(&claim.account, 10).await.unwrap();
        assert_eq!(listed[0].revoked_at, Some(at(2)), "it stays listed");
        assert!(store.agents_of_account(&stranger, 10).await.unwrap().is_empty());

        let unclaimed = world.registration().await;
        assert!(!store.registration_revoke(unclaimed, Some(&claim.account), at(2)).await.unwrap());
        assert!(store.registration_revoke(unclaimed, None, at(2)).await.unwrap(), "an operator may");
    }

    async fn revoking_an_agent_revokes_the_agents_it_confirmed(world: &World) {
        let store = &world.store;
        let (first, claim) = world.claimed("ada@example.com").await;
        let confirmed = async |by, at| {
            let id = world.registration().await;
            let attempt = world.new_attempt(id, now());
            store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
            store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Agent(by), None, at).await.unwrap().then_some(id)
        };
        let second = confirmed(first, at(1)).await.unwrap();
        let third = confirmed(second, at(2)).await.unwrap();
        let token = world.secret();
        assert!(store.token_issue(&token, third, TokenScope::Account, now(), at(3600)).await.unwrap());
        let of_first = Confirmed { agents: 2, computers: 0 };
        assert_eq!(store.confirmed_by(first).await.unwrap(), of_first);
        assert_eq!(store.confirmed_by(third).await.unwrap(), Confirmed { agents: 0, computers: 0 });
        let agents = store.agents(None, 10).await.unwrap();
        let of = |id| agents.iter().find(|agent| agent.registration.id == id).unwrap();
        assert_eq!((of(second).claimed_via.as_deref(), of(second).claimed_by), (Some("account"), Some(first)));
        assert_eq!(of(first).claimed_by, None);

        assert!(store.registration_revoke(first, None, at(5)).await.unwrap());
        for agent in store.agents(None, 10).await.unwrap() {
            assert_eq!(agent.registration.revoked_at, Some(at(5)));
        }
        assert_eq!(store.token_by_hash(&token, at(5)).await.unwrap(), None);
        let changed = store.registrations_changed_since(at(5), 10).await.unwrap();
        assert_eq!(changed.len(), 3, "other processes read all of them again");
        // An agent that was revoked during the confirmation cannot confirm.
        assert_eq!(confirmed(second, at(6)).await, None);
        assert!(store.agents(None, 10).await.unwrap().iter().any(|agent| agent.registration.claim.is_none()));
    }

    async fn a_claim_beside_the_end_of_its_confirmer_ends_with_it(world: &World) {
        let second = world.second().await;
        for round in 0..10 {
            let (confirmer, claim) = world.claimed(&format!("ada{round}@example.com")).await;
            let id = world.registration().await;
            let attempt = world.new_attempt(id, now());
            world.store.attempt_start(&attempt, STARTS_MAX, window(), now()).await.unwrap();
            let via = ConfirmedVia::Agent(confirmer);
            let (completed, revoked) = tokio::join!(
                world.store.attempt_complete(&attempt.token, &claim, via, None, now()),
                second.registration_revoke(confirmer, None, at(1)),
            );
            assert!(revoked.unwrap());
            let (registration, _) = world.store.registration_by_id(id).await.unwrap().unwrap();
            assert_eq!(completed.unwrap(), registration.claim.is_some());
            assert_eq!(registration.claim.is_some(), registration.revoked_at.is_some(), "a claim outlived its confirmer");
        }
    }

    async fn every_transition_shows_in_the_changes(world: &World) {
        let store = &world.store;
        let registration = world.new_registration();
        let (id, token) = (registration.id, registration.claim_token);
        store.registration_create(&registration, None).await.unwrap();
        let changed = async |since| {
            let changes = store.registrations_changed_since(since, 10).await.unwrap();
            changes.into_iter().map(|(token, _)| token).collect::<Vec<_>>()
        };
        assert_eq!(changed(now()).await, [token]);
        let attempt = world.new_attempt(id, at(10));
        store.attempt_start(&attempt, STARTS_MAX, window(), at(10)).await.unwrap();
        assert_eq!(changed(at(10)).await, [token]);
        store.attempt_wrong_code(&attempt.token, WRONG_TRIES_MAX, at(20)).await.unwrap();
        assert_eq!(changed(at(20)).await, [token]);
        let claim = world.claim_of("ada@example.com").await;
        store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, at(30)).await.unwrap();
        assert_eq!(changed(at(30)).await, [token]);
        assert_eq!(changed(at(31)).await, []);
        store.registration_revoke(id, Some(&claim.account), at(40)).await.unwrap();
        assert_eq!(changed(at(40)).await, [token]);
        let other = world.new_registration();
        store.registration_create(&other, None).await.unwrap();
        assert_eq!(changed(now()).await, [other.claim_token, token], "the earliest change first");
    }

    async fn an_account_sees_its_living_agents_before_the_revoked_ones(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let person = world.person("ada@example.com").await;
        let mut ids = vec![];
        for seconds in [0, 1, 2] {
            let id = world.rng.uuid_v7(at(seconds)).into();
            let registration = Registration { id, created_at: at(seconds), ..world.new_registration() };
            let attempt = world.new_attempt(id, at(seconds));
            store.registration_create(&registration, Some(&attempt)).await.unwrap();
            let claim = Claim { account: account.clone(), person: person.id, email: person.email.clone(), rights: None, at: at(seconds) };
            assert!(store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, at(seconds)).await.unwrap());
            ids.push(id);
        }
        assert!(store.registration_revoke(ids[2], None, at(3)).await.unwrap());
        let listed = store.agents_of_account(&account, 10).await.unwrap();
        assert_eq!(listed.iter().map(|agent| agent.id).collect::<Vec<_>>(), [ids[1], ids[0], ids[2]]);
        assert_eq!(store.agents_of_account(&account, 2).await.unwrap(), listed[..2]);
    }

    async fn agents_are_listed_newest_first(world: &World) {
        let mut ids = vec![];
        for seconds in [0, 1, 2] {
            let id = world.rng.uuid_v7(at(seconds)).into();
            let registration = Registration { id, created_at: at(seconds), ..world.new_registration() };
            world.store.registration_create(&registration, None).await.unwrap();
            ids.insert(0, id);
        }
        let listed = world.store.agents(None, 2).await.unwrap();
        assert_eq!(listed.iter().map(|agent| agent.registration.id).collect::<Vec<_>>(), ids[..2]);
    }
}
