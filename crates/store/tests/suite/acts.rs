//! Acts of operators: written with their effect, in one chain.

use domain::act::{ActAuthor, ActDoor, ActKind, ActOutcome, OperatorAct};
use domain::chain::Prev;
use domain::envelope::{AgentKinds, Sealed};
use domain::ids::{EventId, InstallationId};
use domain::log_part::LogPart;
use domain::usage::Plan;
use serde_json::json;
use store::Store;
use store::balance::BalanceAdd;
use store::machine::{NewMachine, Register};
use store::outbox::ServiceChain;

use crate::world::{World, at, email, now};
use harness::on_each_database;

const CHAIN: ServiceChain = ServiceChain::Installation;

async fn installed(world: &World) -> InstallationId {
    world.store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap().id
}

/// A handle for the next effect, and the id of its act.
fn acting(world: &World, kind: ActKind, second: i64) -> (EventId, Store) {
    let by = ActAuthor { uid: Some(1000), ..ActAuthor::at(ActDoor::Shell) };
    let id = world.rng.uuid_v7(at(second)).into();
    (id, world.store.acting(id, OperatorAct::new(kind, by, "node-1")))
}

/// The events of all acts that wait, opened, and checked to be one chain.
async fn waiting(store: &Store) -> Vec<Sealed> {
    let mut opened: Vec<Sealed> = Vec::new();
    for event in store.outbox_of(&CHAIN, 100).await.unwrap() {
        let sealed = Sealed::open(&event.body, 65_536, &AgentKinds::new([])).unwrap();
        assert!(sealed.seal_is_right());
        assert_eq!((sealed.envelope.event_id, event.account), (event.id, None));
        match opened.last() {
            Some(before) => {
                assert_eq!(sealed.envelope.seq, before.envelope.seq + 1);
                assert_eq!(sealed.envelope.position().prev, Prev::Event(before.seal));
            }
            None => assert_eq!(sealed.envelope.seq, 0),
        }
        opened.push(sealed);
    }
    opened
}

on_each_database! {
    async fn an_act_is_written_with_its_effect_and_a_refused_one_by_itself(world: &World) {
        let installation = installed(world).await;
        let account = world.account("ada@example.com").await;
        let (plan, store) = acting(world, ActKind::PlanSet, 1);
        assert!(store.account_plan_set(&account, Plan::Pro, at(1)).await.unwrap());
        store.act_settle(ActOutcome::Refused, at(1)).await.unwrap();
        let (refused, store) = acting(world, ActKind::BalanceAdd, 2);
        let added = store.balance_add(&"nobody".parse().unwrap(), 5, "gift", at(2), &world.rng).await.unwrap();
        assert_eq!(added, BalanceAdd::NoAccount);
        assert_eq!(world.store.act(refused).await.unwrap(), None, "the effect was rolled back, and the act with it");
        store.act_settle(ActOutcome::Refused, at(2)).await.unwrap();
        // Without an act, the same effects are recorded nowhere.
        assert!(world.store.account_plan_set(&account, Plan::Free, at(3)).await.unwrap());
        world.store.act_settle(ActOutcome::Applied, at(3)).await.unwrap();

        let events = waiting(&world.store).await;
        let payloads: Vec<_> = events.iter().map(|event| &event.envelope.payload).collect();
        assert_eq!(payloads.len(), 2);
        assert_eq!((&payloads[0]["outcome"], &payloads[1]["outcome"]), (&json!("applied"), &json!("refused")));
        assert_eq!((&payloads[0]["before"], &payloads[0]["after"]), (&json!({ "plan": "FREE" }), &json!({ "plan": "PRO" })));
        assert!(events.iter().all(|event| event.envelope.scope.machine_id.as_uuid() == installation.as_uuid()));
        let listed: Vec<_> = world.store.acts(None, 10).await.unwrap().iter().map(|act| (act.id, act.done_at)).collect();
        assert_eq!(listed, [(refused, at(2)), (plan, at(1))]);
        assert_eq!(world.store.acts(Some(refused), 10).await.unwrap(), world.store.act(plan).await.unwrap().as_slice());
    }

    async fn every_effect_of_an_operator_is_recorded(world: &World) {
        installed(world).await;
        let rng = &world.rng;
        let (account, cuid) = (world.account("ada@example.com").await, world.cuid());
        let mut done = Vec::new();
        let mut begin = |kind| {
            let (id, store) = acting(world, kind, 0);
            done.push(id);
            store
        };
        let store = begin(ActKind::AccountCreate);
        store.account_provision(None, Some(&email("bob@example.com")), None, now(), rng).await.unwrap();
        let store = begin(ActKind::BalanceAdd);
        store.balance_add(&account, 5, "gift", now(), rng).await.unwrap();
        let machine = rng.uuid_v7(now()).into();
        let new = NewMachine { machine_uuid: machine, user_cuid: &cuid, name: None, secret: world.secret(), part: LogPart::FIRST };
        assert_eq!(begin(ActKind::MachineAdd).machine_register(&new, now()).await.unwrap(), Register::Registered);
        begin(ActKind::MachineAttach).machine_attach(machine, &account, now(), rng).await.unwrap().unwrap();
        assert!(begin(ActKind::MachineRemove).machine_remove(machine, now()).await.unwrap());
        let agent = world.registration().await;
        assert!(begin(ActKind::AgentRevoke).registration_revoke(agent, None, now()).await.unwrap());
        let person = world.person("ada@example.com").await;
        let (session, mail) = (world.new_session(person.id, at(60)), world.new_mail("ada@example.com"));
        begin(ActKind::SessionCreate).session_create_by_operator(&session, Some(&mail), now()).await.unwrap();
        assert!(begin(ActKind::AccountClose).account_close(&account, None, now()).await.unwrap());
        world.store.assertion_keys_ensure(now(), rng).await.unwrap();
        assert!(begin(ActKind::KeysRotate).assertion_keys_rotate(now(), rng).await.unwrap().is_some());
        let log = store::installation::RememberedLog { vkey: "v".into(), checkpoint: "c".into(), size: 1 };
        begin(ActKind::LogEpoch).log_begin_epoch(LogPart::FIRST, &log, now()).await.unwrap();
        let recorded: Vec<_> = waiting(&world.store).await.iter().map(|event| event.envelope.event_id).collect();
        assert_eq!(recorded, done);
    }

    async fn acts_stay_after_they_are_sent_and_are_sent_again_to_another_log(world: &World) {
        installed(world).await;
        assert_eq!(world.store.acts_waiting_since().await.unwrap(), None);
        for second in 0..3 {
            let (_, store) = acting(world, ActKind::Migrate, second);
            store.act_settle(ActOutcome::Applied, at(second)).await.unwrap();
        }
        assert_eq!(world.store.acts_waiting_since().await.unwrap(), Some(now()));
        assert_eq!(world.store.outbox_chains(10).await.unwrap(), [CHAIN]);
        let before = waiting(&world.store).await;
        let first = before[0].envelope.event_id;
        assert!(world.store.outbox_done(&CHAIN, first, at(9)).await.unwrap());
        assert!(!world.store.outbox_done(&CHAIN, first, at(10)).await.unwrap());
        assert_eq!(world.store.act(first).await.unwrap().unwrap().sent_at, Some(at(9)));
        assert_eq!(world.store.acts_waiting_since().await.unwrap(), Some(at(1)));

        // The log has another head: the waiting acts move to a new epoch, the sent one keeps its place.
        assert_eq!(world.store.outbox_rechain(&CHAIN, 0, 4).await.unwrap(), 2);
        let moved = waiting(&world.store).await;
        assert_eq!((moved.len(), moved[0].envelope.chain_epoch), (2, 4));
        let (_, store) = acting(world, ActKind::Migrate, 4);
        store.act_settle(ActOutcome::Applied, at(4)).await.unwrap();
        assert_eq!(waiting(&world.store).await.len(), 3);

        for event in waiting(&world.store).await {
            assert!(world.store.outbox_done(&CHAIN, event.envelope.event_id, at(11)).await.unwrap());
        }
        // In one epoch, which the outbox can move again if the other log has it.
        assert_eq!(world.store.acts_resend().await.unwrap(), 4);
        let again = waiting(&world.store).await;
        assert!(again.iter().all(|event| event.envelope.chain_epoch == 5), "{again:?}");
        let again: Vec<_> = again.iter().map(|event| event.envelope.ts_edge_ms).collect();
        assert_eq!(again, [0, 1, 2, 4].map(|second| at(second).timestamp_millis()));
    }

    async fn acts_at_once_are_one_chain(world: &World) {
        installed(world).await;
        let second = world.second().await;
        let mut writing = tokio::task::JoinSet::new();
        for round in 0..8 {
            let by = ActAuthor { uid: Some(round), ..ActAuthor::at(ActDoor::Shell) };
            let store = if round % 2 == 0 { &world.store } else { &second };
            let store = store.acting(world.event(), OperatorAct::new(ActKind::Migrate, by, "node-1"));
            writing.spawn(async move { store.act_settle(ActOutcome::Applied, at(round.into())).await.unwrap() });
        }
        writing.join_all().await;
        assert_eq!(waiting(&world.store).await.len(), 8);
    }

    async fn no_computer_registers_in_the_place_of_the_installation(world: &World) {
        let installation = installed(world).await;
        let recorder = installation.recorder();
        let (secret, cuid) = (world.secret(), world.cuid());
        let new = NewMachine { machine_uuid: recorder.machine, user_cuid: &cuid, name: None, secret, part: LogPart::FIRST };
        assert_eq!(world.store.machine_register(&new, now()).await.unwrap(), Register::AlreadyRegistered);
    }
}
