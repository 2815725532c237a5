//! Pauses of parts of the service.

use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use store::service_pause::PauseBegin;

use crate::world::{World, at, now};
use harness::on_each_database;

fn wanted(world: &World, part: ServicePart, scope: &str, until: i64) -> ServicePause {
    ServicePause {
        id: world.rng.uuid_v7(now()).into(),
        part,
        scope: scope.parse().unwrap(),
        until: at(until),
        set_by: "shell:1000".into(),
        reason: "why".parse().unwrap(),
    }
}

on_each_database! {
    async fn a_pause_ends_and_is_replaced_on_request_only(world: &World) {
        let store = &world.store;
        let first = wanted(world, ServicePart::Intake, "all", 60);
        let of_lane = wanted(world, ServicePart::Intake, "lane:llm", 90);
        assert_eq!(store.service_pause_begin(&first, false, now()).await.unwrap(), PauseBegin::Begun);
        assert_eq!(store.service_pause_begin(&of_lane, false, now()).await.unwrap(), PauseBegin::Begun);
        assert_eq!(of_lane.scope, PausedFor::Lane(domain::lane::Lane::Llm));
        assert_eq!(store.service_pauses(at(59)).await.unwrap(), [first.clone(), of_lane.clone()]);
        assert_eq!(store.service_pauses(at(60)).await.unwrap(), std::slice::from_ref(&of_lane));
        let second = wanted(world, ServicePart::Intake, "all", 200);
        assert_eq!(store.service_pause_begin(&second, false, at(59)).await.unwrap(), PauseBegin::Taken(first.clone()));
        assert_eq!(store.service_pause_begin(&second, true, at(59)).await.unwrap(), PauseBegin::Begun);
        assert!(!store.service_pause_end(first.id, at(59)).await.unwrap(), "it was replaced");
        // An ended pause neither stops another one nor can it be ended.
        assert!(!store.service_pause_end(of_lane.id, at(90)).await.unwrap());
        let again = wanted(world, ServicePart::Intake, "lane:llm", 300);
        assert_eq!(store.service_pause_begin(&again, false, at(90)).await.unwrap(), PauseBegin::Begun);
        assert!(store.service_pause_end(second.id, at(90)).await.unwrap());
        assert_eq!(store.service_pauses(at(90)).await.unwrap(), [again]);
    }

    async fn the_row_of_an_ended_pause_is_removed_by_the_next_one(world: &World) {
        let store = &world.store;
        for (round, account) in ["account:a1", "account:a2", "account:a3"].into_iter().enumerate() {
            let start = 100 * i64::try_from(round).unwrap();
            let pause = wanted(world, ServicePart::Batches, account, start + 50);
            assert_eq!(store.service_pause_begin(&pause, false, at(start)).await.unwrap(), PauseBegin::Begun);
        }
        assert_eq!(store.service_pauses(at(-1)).await.unwrap().len(), 1, "rows that ended are gone");
    }
}
