//! The operator's metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder};
use supervision::{ActorSettings, Handle};

use crate::crowd::{Bank, Change};
use crate::world::{Do, Probe, TestKind, World, eventually, settings};

/// Keeps the last value of every counter and gauge.
#[derive(Default)]
pub struct Numbers(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Numbers {
    fn register(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.0.lock().unwrap()[name].load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl Recorder for Numbers {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register(key))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register(key))
    }

    fn register_histogram(&self, _key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn the_mailbox_depth_counts_waiting_messages_and_forgets_those_lost_in_a_crash() {
    let (world, numbers) = (World::new(), Numbers::default());
    let handle = with_local_recorder(&numbers, || Handle::new(TestKind("probe"), &settings()));
    let root = world.root(vec![Probe::new(&world).child(&handle)]).await;
    let depth = || numbers.gauge("attache_actor_mailbox_depth{kind=probe}");
    handle.send(|reply| Do::Work(Duration::from_secs(1), reply)).unwrap();
    handle.send(Do::Panic).unwrap();
    handle.send(Do::Count).unwrap();
    assert_eq!(depth().to_bits(), 3.0_f64.to_bits());
    eventually("the crash took the rest along", || depth().to_bits() == 0.0_f64.to_bits()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(numbers.counter("attache_actor_crashes_total{kind=probe}"), 1);
    assert_eq!(numbers.counter("attache_actor_restarts_total{kind=probe}"), 1);
    assert_eq!(numbers.gauge("attache_actor_live{kind=probe}").to_bits(), 1.0_f64.to_bits());
    world.end(root).await;
    assert_eq!(numbers.gauge("attache_actor_live{kind=probe}").to_bits(), 0.0_f64.to_bits());
}

#[tokio::test(start_paused = true)]
async fn a_family_counts_its_living_its_crashes_and_its_quarantined() {
    let (world, numbers) = (World::new(), Numbers::default());
    let limits = ActorSettings { quarantine_after: 2, ..settings() };
    let (bank, child) = with_local_recorder(&numbers, || Bank::new(&world, 0..5, &limits));
    let root = world.root(vec![child]).await;
    for account in 0..5 {
        bank.ask(account, Change::Add).await.unwrap();
    }
    let live = || numbers.gauge("attache_actor_live{kind=teller}").to_bits();
    assert_eq!(live(), 5.0_f64.to_bits());
    for _ in 0..2 {
        bank.ask(0, Change::Panic).await.unwrap_err();
    }
    eventually("the crashed one is gone", || live() == 4.0_f64.to_bits()).await;
    assert_eq!(numbers.counter("attache_actor_crashes_total{kind=teller}"), 2);
    assert_eq!(numbers.counter("attache_actor_quarantined_total{kind=teller}"), 1);
    world.end(root).await;
    assert_eq!(live(), 0.0_f64.to_bits());
}
