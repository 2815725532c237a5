//! Usage of senders on a day, counted by several processes.

use domain::usage::Day;
use store::budget::Spent;
use store::held::Sender;

use crate::world::{World, now};
use harness::on_each_database;

fn spent(events: i64, bytes: i64) -> Spent {
    Spent { events, bytes }
}

on_each_database! {
    async fn counts_of_all_processes_are_summed_by_sender_and_day(world: &World) {
        let second = world.second().await;
        let senders: Vec<Sender> = (0..150).map(|_| Sender::Machine(world.rng.uuid_v7(now()).into())).collect();
        let today = Day::of(now());
        let yesterday = Day::from(today.number() - 1);
        let counts: Vec<_> = (1..).zip(&senders).map(|(n, sender)| (sender.clone(), today, spent(n, 10 * n))).collect();
        assert_eq!(world.store.budget_spent(&senders[0], today).await.unwrap(), Spent::default());
        let sums = world.store.budget_add(&counts).await.unwrap();
        assert_eq!(sums, counts.iter().map(|(_, _, spent)| *spent).collect::<Vec<_>>());
        let one = [(senders[7].clone(), today, spent(-3, 20)), (senders[7].clone(), yesterday, spent(1, 1))];
        assert_eq!(second.budget_add(&one).await.unwrap(), [spent(5, 100), spent(1, 1)]);
        assert_eq!(world.store.budget_spent(&senders[7], today).await.unwrap(), spent(5, 100));
        assert_eq!(world.store.budget_spent(&senders[8], yesterday).await.unwrap(), Spent::default());
        assert_eq!(world.store.budget_add(&[]).await.unwrap(), []);
    }
}
