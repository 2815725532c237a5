//! Sign-in codes.

use chrono::TimeDelta;
use domain::Timestamp;
use domain::secret::SecretHash;
use domain::signin::{CODE_SECONDS, TRIES_MAX, Ticket, TicketState};
use store::janitor::PurgeSettings;
use store::session::NewSession;
use store::signin::{CodeLimits, TicketRequest, TicketStart};
use store::{Store, StoreError};

use crate::world::{World, at, now};
use harness::on_each_database;

const HOUR: TimeDelta = TimeDelta::hours(1);

on_each_database! {
    async fn a_ticket_reads_back_as_it_was_taken_down(world: &World) {
        let store = &world.store;
        let ticket = world.new_ticket("ada@example.com", now());
        assert_eq!(start(store, &ticket, None).await.unwrap(), TicketStart::Started);
        assert_eq!(store.signin_ticket(&ticket.token).await.unwrap(), Some(ticket));
        assert_eq!(store.signin_ticket(&world.secret()).await.unwrap(), None);
    }

    async fn a_newer_code_takes_the_place_of_the_older_one_of_its_browser(world: &World) {
        let store = &world.store;
        let [first, elsewhere, second, other] =
            ["ada@example.com", "ada@example.com", "ada@example.com", "bob@example.com"].map(|to| world.new_ticket(to, now()));
        for (ticket, before) in [(&first, None), (&elsewhere, None), (&other, None), (&second, Some(&first.token))] {
            start(store, ticket, before).await.unwrap();
        }
        let state = async |ticket: &Ticket| store.signin_ticket(&ticket.token).await.unwrap().unwrap().state;
        assert_eq!((state(&first).await, state(&second).await), (TicketState::Superseded, TicketState::Live));
        assert_eq!((state(&elsewhere).await, state(&other).await), (TicketState::Live, TicketState::Live));
        assert_eq!(store.signin_try(&first.token, TRIES_MAX, now()).await.unwrap(), None);
        assert!(!enters(world, store, &first, now()).await);
        assert!(enters(world, store, &second, now()).await);
        assert!(enters(world, store, &elsewhere, now()).await);
    }

    async fn codes_of_an_address_are_counted_by_network_in_a_sliding_hour(world: &World) {
        let store = &world.store;
        let limits = CodeLimits { per_network: 3, total: 5, window: HOUR };
        let start = async |network, seconds| {
            let (ticket, asking) = (world.new_ticket("ada@example.com", at(seconds)), TicketRequest { network, instead_of: None });
            store.signin_start(&ticket, &asking, &limits, at(seconds)).await.unwrap()
        };
        let wait = |seconds| TicketStart::TooMany { retry_after: TimeDelta::seconds(seconds) };
        for seconds in [0, 10, 20] {
            assert_eq!(start("here", seconds).await, TicketStart::Started);
        }
        assert_eq!(start("here", 100).await, wait(3500));
        // Requests that used up the quota of their network do not block another network, up to a total.
        assert_eq!(start("there", 200).await, TicketStart::Started);
        assert_eq!(start("there", 300).await, TicketStart::Started);
        assert_eq!(start("there", 400).await, wait(3200));
        assert_eq!(start("here", 3600).await, TicketStart::Started);
        assert_eq!(start("here", 3601).await, wait(9));
        let asking = TicketRequest { network: "here", instead_of: None };
        let other = world.new_ticket("bob@example.com", at(100));
        assert_eq!(store.signin_start(&other, &asking, &limits, at(100)).await.unwrap(), TicketStart::Started);
        for closed in [CodeLimits { per_network: 0, ..limits }, CodeLimits { total: 0, ..limits }] {
            let eve = world.new_ticket("eve@example.com", now());
            let refused = store.signin_start(&eve, &asking, &closed, now()).await.unwrap();
            assert_eq!(refused, TicketStart::TooMany { retry_after: HOUR });
        }
    }

    async fn an_errand_is_completed_once(world: &World) {
        let second = world.second().await;
        let errand = world.secret();
        let mut returning = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            returning.spawn(async move { store.signin_errand_use(&errand, at(3600)).await.unwrap() });
        }
        assert_eq!(returning.join_all().await.into_iter().filter(|first| *first).count(), 1);
        assert!(world.store.signin_errand_use(&world.secret(), at(3600)).await.unwrap(), "another errand");
        // It is stored for as long as it could be used.
        let settings = PurgeSettings::default();
        world.store.purge(at(3600), &settings).await.unwrap();
        assert!(!world.store.signin_errand_use(&errand, at(3600)).await.unwrap());
        world.store.purge(at(3601), &settings).await.unwrap();
        assert!(world.store.signin_errand_use(&errand, at(3600)).await.unwrap());
    }

    async fn codes_asked_for_at_once_are_all_counted(world: &World) {
        let second = world.second().await;
        let mut asking = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let ticket = world.new_ticket("ada@example.com", now());
            asking.spawn(async move {
                let limits = CodeLimits { per_network: 5, total: 60, window: HOUR };
                let asking = TicketRequest { network: "here", instead_of: None };
                store.signin_start(&ticket, &asking, &limits, now()).await.unwrap()
            });
        }
        let outcomes = asking.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == TicketStart::Started).count(), 5);
    }

    async fn tries_are_spent_before_anything_is_compared(world: &World) {
        let second = world.second().await;
        let ticket = world.new_ticket("ada@example.com", now());
        start(&world.store, &ticket, None).await.unwrap();
        let mut trying = tokio::task::JoinSet::new();
        for round in 0..20 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            trying.spawn(async move { store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap() });
        }
        let mut spent: Vec<_> = trying.join_all().await.into_iter().flatten().map(|ticket| ticket.tries).collect();
        spent.sort_unstable();
        assert_eq!(spent, [1, 2, 3, 4, 5]);
        // The last try may be the right one.
        assert!(enters(world, &world.store, &ticket, now()).await);
    }

    async fn a_code_is_used_once_and_in_time(world: &World) {
        let store = &world.store;
        let ticket = world.new_ticket("ada@example.com", now());
        start(store, &ticket, None).await.unwrap();
        assert!(!enters(world, store, &ticket, at(CODE_SECONDS)).await);
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, at(CODE_SECONDS)).await.unwrap(), None);
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap().unwrap().tries, 1);
        assert!(enters(world, store, &ticket, at(CODE_SECONDS - 1)).await);
        assert!(!enters(world, store, &ticket, now()).await);
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap(), None);
    }

    async fn a_code_and_its_session_are_of_one_piece(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let before = world.session(ada.id, now(), at(100)).await;
        let ticket = world.new_ticket("ada@example.com", now());
        start(store, &ticket, None).await.unwrap();
        // A session with this secret exists: the code stays valid and can be typed again.
        let impossible = NewSession { token: before, ..world.new_session(ada.id, at(100)) };
        assert!(store.signin_use(&ticket.token, &impossible, None, now()).await.is_err());
        assert_eq!(store.signin_ticket(&ticket.token).await.unwrap().unwrap().state, TicketState::Live);
        let new = world.new_session(ada.id, at(100));
        assert!(store.signin_use(&ticket.token, &new, Some(&before), now()).await.unwrap());
        assert!(store.session_by_hash(&new.token, at(1)).await.unwrap().is_some());
        assert_eq!(store.session_by_hash(&before, at(1)).await.unwrap(), None);
        // A used code creates no session and ends none.
        let again = world.new_session(ada.id, at(100));
        assert!(!store.signin_use(&ticket.token, &again, Some(&new.token), now()).await.unwrap());
        assert!(store.session_by_hash(&new.token, at(1)).await.unwrap().is_some());
        assert_eq!(store.session_by_hash(&again.token, at(1)).await.unwrap(), None);
    }
}

/// Requests a code without limits.
async fn start(store: &Store, ticket: &Ticket, before: Option<&SecretHash>) -> Result<TicketStart, StoreError> {
    let limits = CodeLimits { per_network: 10, total: 10, window: HOUR };
    store.signin_start(ticket, &TicketRequest { network: "here", instead_of: before }, &limits, now()).await
}

/// Uses a ticket for a new session.
async fn enters(world: &World, store: &Store, ticket: &Ticket, at: Timestamp) -> bool {
    let person = store.person_sign_in(&ticket.email, true, at, &world.rng).await.unwrap();
    let new = world.new_session(person.id, at + HOUR);
    let entered = store.signin_use(&ticket.token, &new, None, at).await.unwrap();
    assert_eq!(store.session_by_hash(&new.token, at).await.unwrap().is_some(), entered);
    entered
}
