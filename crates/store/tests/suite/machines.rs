//! Computers.

use chrono::TimeDelta;
use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::device::approval::ApprovalRefusal;
use domain::envelope::Lane;
use domain::label::Label;
use domain::log_part::LogPart;
use domain::recorder::{Recorder, Recorders};
use store::account::Provision;
use store::machine::{NewMachine, Register};

use crate::held::new_held;
use crate::world::{World, at, now};
use harness::on_each_database;

on_each_database! {
    async fn a_computer_registers_once(world: &World) {
        let store = &world.store;
        let (machine_uuid, user_cuid, secret) = world.machine().await;
        let thief = NewMachine { machine_uuid, user_cuid: &world.cuid(), name: None, secret: world.secret(), part: LogPart::FIRST };
        assert_eq!(store.machine_register(&thief, now()).await.unwrap(), Register::AlreadyRegistered);
        assert_eq!(store.machine_by_secret(&thief.secret).await.unwrap(), None);
        assert_eq!(store.identity(thief.user_cuid).await.unwrap(), None, "a refusal leaves nothing");
        let computer = store.machine_by_secret(&secret).await.unwrap().unwrap();
        assert_eq!((computer.facts.machine_uuid, &computer.facts.user_cuid), (machine_uuid, &user_cuid));
        assert_eq!((computer.facts.account.as_ref(), computer.has_held, computer.last_seen_at), (None, false, now()));
        assert_eq!(store.machine_facts(machine_uuid).await.unwrap(), Some(computer));
        assert_eq!(store.machine_facts(world.rng.uuid_v7(now()).into()).await.unwrap(), None);
    }

    async fn a_name_belongs_to_the_account_that_gave_it(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (machine, ..) = world.attached(&ada).await;
        let label = Label::or_none("Ada's laptop").unwrap();
        let shown = async |account| {
            let computers = store.computers_of_account(account, 10).await.unwrap();
            computers.first().and_then(|computer| computer.shown_name().map(str::to_owned))
        };
        assert_eq!(shown(&ada).await.as_deref(), Some("laptop"));
        assert!(!store.computer_label_set(machine, &bob, label.as_ref()).await.unwrap(), "it is not Bob's");
        assert!(store.computer_label_set(machine, &ada, label.as_ref()).await.unwrap());
        assert_eq!(shown(&ada).await.as_deref(), Some("Ada's laptop"));
        assert_eq!(store.machines(10).await.unwrap()[0].label, label);
        assert_eq!(store.computers_ended(&ada, 10).await.unwrap(), []);
        // A detached computer keeps its name in the list of ended ones.
        assert!(store.machine_detach(machine, &ada, now()).await.unwrap());
        let ended = store.computers_ended(&ada, 10).await.unwrap();
        assert_eq!((ended.len(), &ended[0].label, ended[0].machine_uuid), (1, &label, machine));
        assert_eq!(store.computers_ended(&bob, 10).await.unwrap(), []);
        assert!(store.computer_label_set(machine, &ada, None).await.unwrap());
        assert_eq!(store.computers_ended(&ada, 10).await.unwrap()[0].label, None);
    }

    async fn computers_that_register_at_once_under_one_id_are_one(world: &World) {
        let second = world.second().await;
        let machine_uuid = world.rng.uuid_v7(now()).into();
        let mut registering = tokio::task::JoinSet::new();
        for round in 0..6 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let (user_cuid, secret) = (world.cuid(), world.secret());
            registering.spawn(async move {
                let new = NewMachine { machine_uuid, user_cuid: &user_cuid, name: None, secret, part: LogPart::FIRST };
                store.machine_register(&new, now()).await.unwrap()
            });
        }
        let outcomes = registering.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Register::Registered).count(), 1);
        assert_eq!(world.store.machines(10).await.unwrap().len(), 1);
    }

    async fn a_secret_brings_the_levels_that_concern_the_computer(world: &World) {
        let store = &world.store;
        let (machine, cuid, secret) = world.machine().await;
        let (other, ..) = world.machine().await;
        let rules = [
            ConsentRule { machine: None, lane: Some(Lane::Memory), level: ConsentLevel::Full, set_by: Author::Person },
            ConsentRule { machine: Some(machine), lane: None, level: ConsentLevel::Off, set_by: Author::Person },
        ];
        for rule in &rules {
            store.consent_set(std::slice::from_ref(&cuid), rule, None, now(), &world.rng).await.unwrap();
        }
        let elsewhere = ConsentRule { machine: Some(other), lane: None, level: ConsentLevel::Full, set_by: Author::Person };
        store.consent_set(&[cuid], &elsewhere, None, now(), &world.rng).await.unwrap();
        let mut computer = store.machine_by_secret(&secret).await.unwrap().unwrap();
        computer.facts.consent.sort_by_key(|rule| rule.machine);
        assert_eq!(computer.facts.consent, rules);
    }

    async fn many_secrets_are_looked_up_at_once_and_answered_in_order(world: &World) {
        let store = &world.store;
        let (first, cuid, first_secret) = world.machine().await;
        let (second, _, second_secret) = world.machine().await;
        for rule in [
            ConsentRule { machine: None, lane: None, level: ConsentLevel::Full, set_by: Author::Person },
            ConsentRule { machine: Some(first), lane: Some(Lane::Llm), level: ConsentLevel::Off, set_by: Author::Person },
        ] {
            store.consent_set(std::slice::from_ref(&cuid), &rule, None, now(), &world.rng).await.unwrap();
        }
        let secrets = [second_secret, world.secret(), first_secret, second_secret];
        let computers = store.machines_by_secret(&secrets).await.unwrap();
        let ids: Vec<_> = computers.iter().map(|computer| computer.as_ref().map(|computer| computer.facts.machine_uuid)).collect();
        assert_eq!(ids, [Some(second), None, Some(first), Some(second)]);
        assert_eq!(computers[2].as_ref().unwrap().facts.consent.len(), 2);
        assert_eq!(computers[0], computers[3]);
        assert_eq!(store.machines_by_secret(&[]).await.unwrap(), []);
    }

    async fn a_secret_shows_whether_events_are_held(world: &World) {
        let store = &world.store;
        let (machine, _, secret) = world.machine().await;
        let held = new_held(world, store::held::Sender::Machine(machine), "x", now());
        store.held_insert(std::slice::from_ref(&held), &store::held::HeldQuotas::default()).await.unwrap();
        assert!(store.machine_by_secret(&secret).await.unwrap().unwrap().has_held);
        store.held_discard(held.id, now()).await.unwrap();
        assert!(!store.machine_by_secret(&secret).await.unwrap().unwrap().has_held);
    }

    async fn attaching_links_the_identity_and_may_be_repeated(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let (machine, cuid, secret) = world.machine().await;
        assert_eq!(store.machine_attach(machine, &ada, at(5), &world.rng).await.unwrap(), Ok(()));
        assert_eq!(store.machine_attach(machine, &ada, at(9), &world.rng).await.unwrap(), Ok(()));
        let computer = store.machine_by_secret(&secret).await.unwrap().unwrap();
        assert_eq!(computer.facts.account, Some(ada.clone()));
        assert_eq!(store.identity(&cuid).await.unwrap().unwrap().account, Some(ada.clone()));
        let computers = store.computers_of_account(&ada, 10).await.unwrap();
        assert_eq!(computers.len(), 1);
        assert_eq!((computers[0].machine_uuid, computers[0].attached_at), (machine, Some(at(5))));
        assert_eq!((computers[0].name.as_deref(), computers[0].has_secret), (Some("laptop"), true));
    }

    async fn a_secret_shows_the_owner_of_the_identity(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let (machine, cuid, first_secret) = world.machine().await;
        let register = async || {
            let secret = world.secret();
            let machine_uuid = world.rng.uuid_v7(now()).into();
            let new = NewMachine { machine_uuid, user_cuid: &cuid, name: None, secret, part: LogPart::FIRST };
            assert_eq!(store.machine_register(&new, now()).await.unwrap(), Register::Registered);
            secret
        };
        let second_secret = register().await;
        let facts = async |secret| store.machine_by_secret(&secret).await.unwrap().unwrap().facts;
        for secret in [first_secret, second_secret] {
            assert_eq!((facts(secret).await.identity_account, facts(secret).await.is_outsider()), (None, false));
        }
        store.machine_attach(machine, &ada, now(), &world.rng).await.unwrap().unwrap();
        assert!(!facts(first_secret).await.is_outsider());
        let second = facts(second_secret).await;
        assert_eq!((second.account.as_ref(), second.identity_account.as_ref()), (None, Some(&ada)));
        assert!(second.is_outsider());
        // The computer was detached, and the identity stays.
        store.machine_detach(machine, &ada, now()).await.unwrap();
        assert!(facts(register().await).await.is_outsider());
    }

    async fn attaching_is_refused_in_the_documented_order(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let unknown = world.rng.uuid_v7(now()).into();
        assert_eq!(store.machine_attach(unknown, &ada, now(), &world.rng).await.unwrap(), Err(ApprovalRefusal::MachineNotRegistered));

        let (machine, cuid, _) = world.attached(&bob).await;
        assert_eq!(store.machine_attach(machine, &ada, now(), &world.rng).await.unwrap(), Err(ApprovalRefusal::MachineAlreadyClaimed));

        // The identity of an attached computer, on another one.
        let second = world.machine_of(&cuid, now()).await;
        let refused = store.machine_attach(second, &ada, now(), &world.rng).await.unwrap();
        assert_eq!(refused, Err(ApprovalRefusal::CuidAlreadyClaimed));
        assert_eq!(store.machine_attach(second, &bob, now(), &world.rng).await.unwrap(), Ok(()));

        // An identity with a provisioned account that has no owner.
        let (machine, cuid, secret) = {
            let cuid = world.cuid();
            let new = NewMachine {
                machine_uuid: world.rng.uuid_v7(now()).into(),
                user_cuid: &cuid,
                name: None,
                secret: world.secret(), part: LogPart::FIRST };
            store.machine_register(&new, now()).await.unwrap();
            (new.machine_uuid, cuid.clone(), new.secret)
        };
        let made = store.account_provision(Some(&cuid), None, None, now(), &world.rng).await.unwrap();
        let Provision::Created(provisioned) = made else { panic!("{made:?}") };
        assert_eq!(store.machine_attach(machine, &ada, now(), &world.rng).await.unwrap(), Err(ApprovalRefusal::PersonBoundToOtherAccount));
        assert_eq!(store.machine_by_secret(&secret).await.unwrap().unwrap().facts.account, None);
        assert_eq!(store.machine_attach(machine, &provisioned, now(), &world.rng).await.unwrap(), Ok(()));
    }

    async fn an_account_still_reads_records_of_its_former_computers(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let recorders = async |account| store.recorders_of_account(account).await.unwrap();
        let (machine, cuid, _) = world.machine().await;
        let other = world.machine_of(&cuid, now()).await;
        assert_eq!(recorders(&ada).await, Recorders::default());
        store.machine_attach(machine, &ada, now(), &world.rng).await.unwrap().unwrap();
        let own = Recorders::of_computer(machine, cuid.clone(), LogPart::FIRST);
        assert_eq!(recorders(&ada).await, own, "a computer that only names the identity is not the account's");
        assert_eq!(recorders(&bob).await, Recorders::default());
        store.machine_detach(machine, &ada, now()).await.unwrap();
        assert_eq!(recorders(&ada).await, own);
        store.machine_remove(machine, now()).await.unwrap();
        assert_eq!(recorders(&ada).await, own);

        // The service reports on a separate chain. The level of a computer that was never attached is not shown to the account.
        let rule = |machine| ConsentRule { machine: Some(machine), lane: None, level: ConsentLevel::Off, set_by: Author::Computer };
        for machine in [other, machine] {
            store.consent_set(std::slice::from_ref(&cuid), &rule(machine), None, now(), &world.rng).await.unwrap();
        }
        let control = store.identity(&cuid).await.unwrap().unwrap().control_machine.unwrap();
        let service = vec![Recorder { machine: control, identity: cuid }];
        assert_eq!(recorders(&ada).await, Recorders { service, ..own });
        let records = store.consent_of_account(&ada).await.unwrap();
        assert_eq!(records.iter().map(|record| record.rule.machine).collect::<Vec<_>>(), [Some(machine)]);
    }

    async fn of_two_accounts_that_attach_at_once_exactly_one_wins(world: &World) {
        let second = world.second().await;
        for round in 0..10 {
            let ada = world.account(&format!("ada{round}@example.com")).await;
            let bob = world.account(&format!("bob{round}@example.com")).await;
            let (machine, cuid, secret) = world.machine().await;
            let (one, two) = tokio::join!(
                world.store.machine_attach(machine, &ada, now(), &world.rng),
                second.machine_attach(machine, &bob, now(), &world.rng),
            );
            let winner = match (one.unwrap(), two.unwrap()) {
                (Ok(()), Err(ApprovalRefusal::MachineAlreadyClaimed)) => ada,
                (Err(ApprovalRefusal::MachineAlreadyClaimed), Ok(())) => bob,
                other => panic!("{other:?}"),
            };
            let computer = world.store.machine_by_secret(&secret).await.unwrap().unwrap();
            assert_eq!(computer.facts.account.as_ref(), Some(&winner));
            assert_eq!(world.store.identity(&cuid).await.unwrap().unwrap().account, Some(winner));
        }
    }

    async fn only_the_owner_detaches_and_the_secret_dies_with_it(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (machine, _, secret) = world.attached(&ada).await;
        assert!(!store.machine_detach(machine, &bob, now()).await.unwrap());
        assert!(store.machine_by_secret(&secret).await.unwrap().is_some());
        assert!(store.machine_detach(machine, &ada, now()).await.unwrap());
        assert!(!store.machine_detach(machine, &ada, now()).await.unwrap());
        assert_eq!(store.machine_by_secret(&secret).await.unwrap(), None);
        assert!(store.computers_of_account(&ada, 10).await.unwrap().is_empty());
        assert_eq!(store.machine_attach(machine, &ada, now(), &world.rng).await.unwrap(), Err(ApprovalRefusal::MachineNotRegistered));
    }

    async fn computers_are_listed_newest_first_and_by_owner(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let mut registered = Vec::new();
        for seconds in [0, 10, 5] {
            let machine_uuid = world.rng.uuid_v7(now()).into();
            let new = NewMachine { machine_uuid, user_cuid: &world.cuid(), name: None, secret: world.secret(), part: LogPart::FIRST };
            store.machine_register(&new, at(seconds)).await.unwrap();
            store.machine_attach(machine_uuid, &ada, at(20), &world.rng).await.unwrap().unwrap();
            registered.push(machine_uuid);
        }
        world.attached(&bob).await;
        let listed = store.computers_of_account(&ada, 10).await.unwrap();
        let order: Vec<_> = listed.iter().map(|computer| computer.machine_uuid).collect();
        assert_eq!(order, [registered[1], registered[2], registered[0]]);
        assert_eq!(store.computers_of_account(&ada, 2).await.unwrap(), listed[..2]);
        assert_eq!(store.machines(10).await.unwrap().len(), 4);
    }

    async fn last_seen_moves_forward_only(world: &World) {
        let store = &world.store;
        let mut times = Vec::new();
        for seconds in 0..90 {
            let (machine, _, secret) = world.machine().await;
            times.push((machine, at(seconds), secret));
        }
        let touches: Vec<_> = times.iter().map(|(machine, at, _)| (*machine, *at)).collect();
        store.machines_touch(&touches, TimeDelta::zero()).await.unwrap();
        let back: Vec<_> = times.iter().map(|(machine, ..)| (*machine, at(-60))).collect();
        store.machines_touch(&back, TimeDelta::zero()).await.unwrap();
        store.machines_touch(&[], TimeDelta::zero()).await.unwrap();
        for (_, at, secret) in &times {
            assert_eq!(store.machine_by_secret(secret).await.unwrap().unwrap().last_seen_at, *at);
        }
        let (machine, last, secret) = &times[0];
        let minute = TimeDelta::minutes(1);
        for (later, moves) in [(minute - TimeDelta::milliseconds(1), false), (minute, true)] {
            store.machines_touch(&[(*machine, *last + later)], minute).await.unwrap();
            let last_seen = store.machine_by_secret(secret).await.unwrap().unwrap().last_seen_at;
            assert_eq!(last_seen == *last + later, moves, "{later}");
        }
    }

    async fn a_removed_computer_may_register_again(world: &World) {
        let store = &world.store;
        let (machine_uuid, user_cuid, secret) = world.machine().await;
        assert!(store.machine_remove(machine_uuid, now()).await.unwrap());
        assert!(!store.machine_remove(machine_uuid, now()).await.unwrap());
        assert_eq!(store.machine_by_secret(&secret).await.unwrap(), None);
        let again = NewMachine { machine_uuid, user_cuid: &user_cuid, name: None, secret: world.secret(), part: LogPart::FIRST };
        assert_eq!(store.machine_register(&again, now()).await.unwrap(), Register::Registered);
    }
}

/// PostgreSQL caches plans. A plan from the time when a table was empty must not scan it when it is full.
#[tokio::test]
async fn a_plan_made_for_empty_tables_probes_full_ones() {
    let Some(world) = World::on_postgres().await else { return };
    // One connection, so that its cached plans are measured.
    let settings = store::DatabaseSettings { connections_max: 1, ..world.settings.clone() };
    let store = store::Store::open(&settings, &world.path()).await.unwrap();
    let store::Pool::Postgres(pool) = store.pool() else { unreachable!() };
    let secrets: Vec<_> = (0..2).map(|_| world.secret()).collect();
    let hold = async |round: i64| {
        let sender = store::held::Sender::Machine(world.rng.uuid_v7(now()).into());
        let named = |i: i64| {
            let mut held = new_held(&world, sender.clone(), &format!("{round} {i}"), at(round));
            held.outline.event_id = (i % 2 == 0).then(|| world.event());
            held
        };
        let new: Vec<_> = (0..32).map(named).collect();
        store.held_insert(&new, &store::held::HeldQuotas::default()).await.unwrap();
    };
    for round in 0..20 {
        store.machines_by_secret(&secrets).await.unwrap();
        hold(round).await;
    }
    let scans = async || {
        store::pool::query("SELECT pg_stat_force_next_flush()").execute(pool).await.unwrap();
        let sql = "SELECT CAST(SUM(seq_scan) AS BIGINT) FROM pg_stat_user_tables
            WHERE relname IN ('machines', 'identities', 'consent_levels', 'held_events')";
        store::pool::scalar(sql).fetch_one::<i64>(pool).await.unwrap()
    };
    let before = scans().await;
    for _ in 0..100 {
        world.machine().await;
    }
    for round in 20..40 {
        store.machines_by_secret(&secrets).await.unwrap();
        hold(round).await;
    }
    assert_eq!(scans().await, before);
    // The planner would plan again for the length of a visible array.
    let sql =
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'SELECT asked.secret%'";
    let (generic, custom): (i64, i64) = store::pool::query(sql).fetch_one(pool).await.unwrap();
    assert_eq!((generic, custom), (35, 5));
}
