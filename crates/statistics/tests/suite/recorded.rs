//! Events with their bytes, in the order of the tree.

use std::collections::BTreeSet;

use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::log_part::LogPart;
use domain::recorder::Recorders;
use harness::on_each_database;
use serde_json::Value;
use statistics::log::RecordedEvent;

use crate::world::{Chain, World};

fn ids(events: &[RecordedEvent]) -> Vec<String> {
    events.iter().map(|event| event.event_id.to_string()).collect()
}

fn id(event: &Value) -> String {
    event["event_id"].as_str().unwrap().to_owned()
}

on_each_database! {
    async fn a_reader_gets_every_event_of_its_recorders_once(world: World) {
        let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
        let (ada, bob) = (one.recorder(), two.recorder());
        assert_eq!((world.log.leaves().await.unwrap(), world.log.recorders_from(0, 10).await.unwrap()), (0, (0, vec![])));
        let (mut of_ada, mut all) = (Vec::new(), Vec::new());
        for round in 0..7 {
            let event = if round % 3 == 1 { two.next() } else { one.next() };
            world.take(&event).await;
            if round % 3 != 1 {
                of_ada.push(id(&event));
            }
            all.push(id(&event));
        }
        assert_eq!(world.log.recorders_from(0, 10).await.unwrap().0, 0, "an event without a place is not read");
        world.log.sequence(100).await.unwrap();
        assert_eq!(world.log.leaves().await.unwrap(), 7);
        let (until, recorders) = world.log.recorders_from(0, 5).await.unwrap();
        assert_eq!((until, recorders.iter().cloned().collect()), (5, BTreeSet::from([ada.clone(), bob.clone()])));
        assert_eq!(world.log.recorders_from(7, 5).await.unwrap(), (7, vec![]));
        assert_eq!(world.log.recorders_from(9, 5).await.unwrap(), (9, vec![]));

        let both = BTreeSet::from([ada.clone(), bob]);
        let (mut place, mut read) = (0, Vec::new());
        while place < 7 {
            let events = world.log.events_between(&both, place, 7, 2).await.unwrap();
            assert!(events.len() <= 2);
            place = events.last().unwrap().place + 1;
            read.extend(ids(&events));
        }
        assert_eq!(read, all);
        let events = world.log.events_between(&BTreeSet::from([ada.clone()]), 0, 7, 100).await.unwrap();
        assert_eq!(ids(&events), of_ada);
        let event = &events[0];
        assert_eq!((event.lane, event.consent_level, event.recorder == ada), (Lane::Memory, ConsentLevel::Full, true));
        let canonical: Value = serde_json::from_slice(&event.canonical).unwrap();
        assert_eq!(id(&canonical), of_ada[0]);
        assert!(world.log.events_between(&BTreeSet::new(), 0, 7, 100).await.unwrap().is_empty());
        assert_eq!(world.log.events_between(&both, 2, 4, 100).await.unwrap().len(), 2);
    }

    async fn the_newest_events_are_those_of_each_source(world: World) {
        let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
        for _ in 0..5 {
            world.take(&one.next()).await;
        }
        world.take(&two.next()).await;
        world.log.sequence(100).await.unwrap();
        let shown = Recorders::of_computer(one.recorder().machine, one.recorder().identity, LogPart::FIRST);
        assert_eq!(world.log.newest_events(&shown, 10).await.unwrap().len(), 5);
        let newest = world.log.newest_events(&shown, 2).await.unwrap();
        assert_eq!(newest.len(), 2);
        assert!(newest.iter().all(|event| event.recorder == one.recorder()));
    }
}
