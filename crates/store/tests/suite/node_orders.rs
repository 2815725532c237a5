//! Orders of operators to nodes.

use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, OperatorAct};
use domain::actor_key::{ActorKey, KeyedKind};
use domain::node_order::{ExecutedOrder, NodeOrder, OrderAnswer};
use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use serde_json::json;
use store::operator::OperatorChanges;

use crate::world::{World, at, now};
use harness::on_each_database;

fn order(world: &World, dry_run: bool, until: i64) -> NodeOrder {
    let act = OperatorAct::new(ActKind::NodeDrain, ActAuthor::at(ActDoor::Shell), "node-2").on("node", "node-2");
    NodeOrder {
        id: world.rng.uuid_v7(now()).into(),
        node: Some(world.rng.uuid_v7(now()).into()),
        act,
        dry_run,
        until: at(until),
    }
}

async fn store_of_acts(world: &World) {
    world.store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
}

fn executed(order: &NodeOrder, outcome: ActOutcome, status: u16) -> ExecutedOrder {
    ExecutedOrder { act: order.act.clone(), outcome, answer: OrderAnswer { status, body: json!({ "node": "node-2" }) } }
}

on_each_database! {
    async fn an_order_is_answered_once_with_one_act(world: &World) {
        let store = &world.store;
        store_of_acts(world).await;
        let (first, preview) = (order(world, false, 30), order(world, true, 30));
        for order in [&first, &preview] {
            store.node_order_add(order, now()).await.unwrap();
        }
        let mut open = [first.clone(), preview.clone()];
        open.sort_by_key(|order| order.id);
        assert_eq!(store.node_orders_open(now()).await.unwrap(), open);
        assert_eq!(store.node_order_answer(first.id).await.unwrap(), None);
        let applied = executed(&first, ActOutcome::Applied, 200);
        let second = world.second().await;
        assert!(second.node_order_settle(&first, &applied, at(1)).await.unwrap());
        assert!(!store.node_order_settle(&first, &executed(&first, ActOutcome::Failed, 504), at(30)).await.unwrap());
        assert_eq!(store.node_order_answer(first.id).await.unwrap(), Some(applied.answer));
        assert!(store.node_order_settle(&preview, &executed(&preview, ActOutcome::Applied, 200), at(2)).await.unwrap());
        assert_eq!(store.node_orders_open(now()).await.unwrap(), []);
        let acts = store.acts(None, 10).await.unwrap();
        assert_eq!(acts.iter().map(|act| act.id).collect::<Vec<_>>(), [first.id], "a preview is no act");
        // A day after its end an answered order is forgotten.
        let day = 24 * 60 * 60;
        store.node_order_add(&order(world, true, day + 60), at(day + 31)).await.unwrap();
        assert_eq!(store.node_order_answer(first.id).await.unwrap(), None);
    }

    async fn an_order_to_all_is_an_act_ends_a_pause_and_is_over_after_its_time(world: &World) {
        store_of_acts(world).await;
        let pause = ServicePause {
            id: world.rng.uuid_v7(now()).into(),
            part: ServicePart::Actor,
            scope: PausedFor::Key(ActorKey { kind: KeyedKind::Batches, id: world.rng.uuid_v7(now()) }),
            until: at(100),
            set_by: "shell:0".to_owned(),
            reason: "why".parse().unwrap(),
        };
        world.store.service_pause_begin(&pause, false, now()).await.unwrap();
        assert_eq!(world.store.service_pauses(now()).await.unwrap(), std::slice::from_ref(&pause));
        let order = NodeOrder { node: None, ..order(world, false, 30) };
        let store = world.store.acting(order.id, order.act.clone());
        store.node_order_all(&order, Some(pause.id), now()).await.unwrap();
        assert_eq!(store.service_pauses(now()).await.unwrap(), []);
        assert_eq!(store.node_orders_open(at(29)).await.unwrap(), std::slice::from_ref(&order));
        assert_eq!(store.operator_changes(at(29)).await.unwrap().orders, std::slice::from_ref(&order));
        assert_eq!(store.node_orders_open(at(30)).await.unwrap(), []);
        assert_eq!(store.operator_changes(at(30)).await.unwrap(), OperatorChanges::default());
        let acts = store.acts(None, 10).await.unwrap();
        assert_eq!(acts.iter().map(|act| act.id).collect::<Vec<_>>(), [order.id]);
    }
}
