//! The changes of operators that each node follows.

use domain::act::{ActAuthor, ActDoor, ActKind, OperatorAct};
use domain::node_order::NodeOrder;
use domain::service_pause::{PausedFor, ServicePart, ServicePause};
use serde_json::json;
use store::operator::OperatorChanges;
use store::setting::SettingOverride;

use crate::world::{World, at, now};
use harness::on_each_database;

on_each_database! {
    async fn a_node_reads_the_overrides_pauses_and_orders_there_are(world: &World) {
        let store = &world.store;
        assert_eq!(store.operator_changes(now()).await.unwrap(), OperatorChanges::default());
        let (id, set_by) = (world.rng.uuid_v7(now()).into(), "shell:0".to_owned());
        let pause = ServicePause {
            id,
            part: ServicePart::Mail,
            scope: PausedFor::All,
            until: at(10),
            set_by: set_by.clone(),
            reason: "why".parse().unwrap(),
        };
        store.service_pause_begin(&pause, false, now()).await.unwrap();
        let setting = SettingOverride { path: "a.b".into(), node: None, value: json!(1), until: Some(at(20)), set_by };
        store.setting_override(&setting, false, now()).await.unwrap();
        let act = OperatorAct::new(ActKind::NodeDrain, ActAuthor::at(ActDoor::Shell), "node-2");
        let order = NodeOrder { id, node: Some(world.rng.uuid_v7(now()).into()), act, dry_run: true, until: at(30) };
        store.node_order_add(&order, now()).await.unwrap();
        let all = OperatorChanges { overrides: vec![setting], pauses: vec![pause], orders: vec![order] };
        assert_eq!(store.operator_changes(at(9)).await.unwrap(), all);
        let without_pause = OperatorChanges { pauses: Vec::new(), ..all };
        assert_eq!(store.operator_changes(at(10)).await.unwrap(), without_pause);
        let only_order = OperatorChanges { overrides: Vec::new(), ..without_pause };
        assert_eq!(store.operator_changes(at(20)).await.unwrap(), only_order);
    }
}
