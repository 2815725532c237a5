//! Requests of operators with a key.

use domain::Digest;
use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, OperatorAct};
use domain::node_order::OrderAnswer;
use serde_json::json;
use store::operator_request::{OperatorRequest, RequestBegun};

use crate::world::{World, at, now};
use harness::on_each_database;

fn request(world: &World, key: &[u8], content: &[u8]) -> OperatorRequest {
    OperatorRequest { key: Digest::of(key), content: Digest::of(content), act: world.rng.uuid_v7(now()).into() }
}

on_each_database! {
    async fn a_repeated_request_has_the_first_answer_for_a_day(world: &World) {
        let (store, second) = (&world.store, world.second().await);
        let again = || request(world, b"ada 1", b"drain");
        let first = again();
        assert_eq!(store.operator_request_begin(&first, now()).await.unwrap(), RequestBegun::First);
        assert_eq!(second.operator_request_begin(&again(), now()).await.unwrap(), RequestBegun::Running);
        let answer = OrderAnswer { status: 200, body: json!({ "node": "node-2" }) };
        store.operator_request_end(&first, Some(&answer)).await.unwrap();
        let repeated = second.operator_request_begin(&again(), at(3_600)).await.unwrap();
        assert_eq!(repeated, RequestBegun::Answered(answer));
        let other = request(world, b"ada 1", b"undrain");
        assert_eq!(store.operator_request_begin(&other, at(3_600)).await.unwrap(), RequestBegun::Other);
        let of_bob = request(world, b"bob 1", b"drain");
        assert_eq!(store.operator_request_begin(&of_bob, at(3_600)).await.unwrap(), RequestBegun::First);
        assert_eq!(store.operator_request_begin(&again(), at(24 * 3_600 + 1)).await.unwrap(), RequestBegun::First);
    }

    async fn a_request_without_an_answer_may_be_sent_again(world: &World) {
        let store = &world.store;
        let again = || request(world, b"ada 1", b"drain");
        let first = again();
        assert_eq!(store.operator_request_begin(&first, now()).await.unwrap(), RequestBegun::First);
        store.operator_request_end(&first, None).await.unwrap();
        assert_eq!(store.operator_request_begin(&again(), at(1)).await.unwrap(), RequestBegun::First);
    }

    async fn a_request_that_ended_with_its_process_is_done_once(world: &World) {
        let store = &world.store;
        store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        let again = || request(world, b"ada 1", b"drain");
        assert_eq!(store.operator_request_begin(&again(), now()).await.unwrap(), RequestBegun::First);
        // Its process ended before the act was recorded, so the next one does it.
        let next = again();
        assert_eq!(store.operator_request_begin(&next, at(299)).await.unwrap(), RequestBegun::Running);
        assert_eq!(store.operator_request_begin(&next, at(300)).await.unwrap(), RequestBegun::First);
        let act = OperatorAct::new(ActKind::NodeDrain, ActAuthor::at(ActDoor::Shell), "node-2");
        store.acting(next.act, act).act_settle(ActOutcome::Applied, at(300)).await.unwrap();
        let last = store.operator_request_begin(&again(), at(600)).await.unwrap();
        assert_eq!(last, RequestBegun::Recorded(next.act));
    }
}
