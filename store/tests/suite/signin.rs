//! Codes that sign people in.

use chrono::TimeDelta;
use domain::signin::{CODE_SECONDS, TRIES_MAX, Ticket, TicketState};
use store::signin::TicketStart;

use crate::world::{World, at, laws, now};

const HOUR: TimeDelta = TimeDelta::hours(1);

laws! {
    async fn a_ticket_reads_back_as_it_was_taken_down(world: &World) {
        let store = &world.store;
        let ticket = world.new_ticket("ada@example.com", now());
        assert_eq!(store.signin_start(&ticket, 10, HOUR, now()).await.unwrap(), TicketStart::Started);
        assert_eq!(store.signin_ticket(&ticket.token).await.unwrap(), Some(ticket));
        assert_eq!(store.signin_ticket(&world.secret()).await.unwrap(), None);
    }

    async fn a_newer_code_takes_the_place_of_the_older_one_of_its_address(world: &World) {
        let store = &world.store;
        let [first, second, other] = ["ada@example.com", "ada@example.com", "bob@example.com"].map(|to| world.new_ticket(to, now()));
        for ticket in [&first, &other, &second] {
            store.signin_start(ticket, 10, HOUR, now()).await.unwrap();
        }
        let state = async |ticket: &Ticket| store.signin_ticket(&ticket.token).await.unwrap().unwrap().state;
        assert_eq!((state(&first).await, state(&second).await), (TicketState::Superseded, TicketState::Live));
        assert_eq!(state(&other).await, TicketState::Live);
        assert_eq!(store.signin_try(&first.token, TRIES_MAX, now()).await.unwrap(), None);
        assert!(!store.signin_use(&first.token, now()).await.unwrap());
        assert!(store.signin_use(&second.token, now()).await.unwrap());
    }

    async fn codes_of_an_address_are_counted_in_a_sliding_hour(world: &World) {
        let store = &world.store;
        let start = async |seconds| {
            store.signin_start(&world.new_ticket("ada@example.com", at(seconds)), 3, HOUR, at(seconds)).await.unwrap()
        };
        for seconds in [0, 10, 20] {
            assert_eq!(start(seconds).await, TicketStart::Started);
        }
        assert_eq!(start(100).await, TicketStart::TooMany { retry_after: TimeDelta::seconds(3500) });
        assert_eq!(start(3600).await, TicketStart::Started);
        assert_eq!(start(3601).await, TicketStart::TooMany { retry_after: TimeDelta::seconds(9) });
        let other = world.new_ticket("bob@example.com", at(100));
        assert_eq!(store.signin_start(&other, 3, HOUR, at(100)).await.unwrap(), TicketStart::Started);
        let closed = store.signin_start(&world.new_ticket("eve@example.com", now()), 0, HOUR, now()).await.unwrap();
        assert_eq!(closed, TicketStart::TooMany { retry_after: HOUR });
    }

    async fn codes_asked_for_at_once_leave_one_that_works(world: &World) {
        let second = world.second().await;
        let mut asking = tokio::task::JoinSet::new();
        let mut tickets = Vec::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let ticket = world.new_ticket("ada@example.com", now());
            tickets.push(ticket.token);
            asking.spawn(async move { store.signin_start(&ticket, 5, HOUR, now()).await.unwrap() });
        }
        let outcomes = asking.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == TicketStart::Started).count(), 5);
        let mut live = 0;
        for token in &tickets {
            live += usize::from(world.store.signin_use(token, now()).await.unwrap());
        }
        assert_eq!(live, 1);
    }

    async fn tries_are_spent_before_anything_is_compared(world: &World) {
        let second = world.second().await;
        let ticket = world.new_ticket("ada@example.com", now());
        world.store.signin_start(&ticket, 10, HOUR, now()).await.unwrap();
        let mut trying = tokio::task::JoinSet::new();
        for round in 0..20 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            trying.spawn(async move { store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap() });
        }
        let mut spent: Vec<_> = trying.join_all().await.into_iter().flatten().map(|ticket| ticket.tries).collect();
        spent.sort_unstable();
        assert_eq!(spent, [1, 2, 3, 4, 5]);
        // The last try may have been the right one.
        assert!(world.store.signin_use(&ticket.token, now()).await.unwrap());
    }

    async fn a_code_is_used_once_and_in_time(world: &World) {
        let store = &world.store;
        let ticket = world.new_ticket("ada@example.com", now());
        store.signin_start(&ticket, 10, HOUR, now()).await.unwrap();
        assert!(!store.signin_use(&ticket.token, at(CODE_SECONDS)).await.unwrap());
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, at(CODE_SECONDS)).await.unwrap(), None);
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap().unwrap().tries, 1);
        assert!(store.signin_use(&ticket.token, at(CODE_SECONDS - 1)).await.unwrap());
        assert!(!store.signin_use(&ticket.token, now()).await.unwrap());
        assert_eq!(store.signin_try(&ticket.token, TRIES_MAX, now()).await.unwrap(), None);
    }
}
