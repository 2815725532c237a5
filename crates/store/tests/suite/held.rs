//! Events that were acknowledged but not forwarded.

use chrono::TimeDelta;
use domain::confirm::ConfirmedVia;
use domain::envelope::PartialEnvelope;
use domain::held::HoldReason;
use domain::ids::{MachineUuid, RegistrationId};
use domain::{Digest, Timestamp};
use store::held::{
    ENTRY_BYTES_MIN, HeldCount, HeldFilter, HeldOutcome, HeldQuotas, HeldScope, HeldState, NewHeld, SENDER_BYTES_MIN,
    Sender,
};

use crate::world::{World, at, now};
use harness::on_each_database;

/// An event of `sender` with a given body, held as `malformed_envelope`.
pub fn new_held(world: &World, sender: Sender, body: &str, at: Timestamp) -> NewHeld {
    NewHeld {
        id: world.held_id(at),
        sender,
        account: None,
        user_cuid: None,
        outline: PartialEnvelope::default(),
        reason: HoldReason::MalformedEnvelope,
        detail: "/: not an object".into(),
        body: Some(body.into()),
        body_sha256: Digest::of(body.as_bytes()),
        body_bytes: body.len() as u64,
        seal: None,
        received_at: at,
    }
}

fn machine(world: &World) -> Sender {
    Sender::Machine(MachineUuid::from(world.rng.uuid_v7(now())))
}

fn roomy() -> HeldQuotas {
    HeldQuotas::default()
}

/// An unclaimed agent's event.
fn unattributed(world: &World, agent: RegistrationId, body: &str, at: Timestamp) -> NewHeld {
    NewHeld { reason: HoldReason::Unattributed, ..new_held(world, Sender::Registration(agent), body, at) }
}

on_each_database! {
    async fn an_entry_is_kept_whole(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let new = NewHeld {
            account: Some(account.clone()),
            user_cuid: Some(world.cuid()),
            outline: PartialEnvelope {
                event_id: Some(world.event()),
                event_type: Some("memory.stored".into()),
                agent_id: Some("svc-cli".into()),
                machine_uuid: Some(world.rng.uuid_v7(now()).into()),
            },
            seal: Some(Digest::of(b"seal")),
            ..new_held(world, Sender::Account(account.clone()), "\0\u{1f}any bytes", now())
        };
        assert_eq!(store.held_insert(std::slice::from_ref(&new), &roomy()).await.unwrap(), [HeldOutcome::Held(new.id)]);
        let (entry, body) = store.held_show(new.id).await.unwrap().unwrap();
        assert_eq!(body, new.body);
        assert_eq!((entry.id, &entry.sender, &entry.account, &entry.user_cuid), (new.id, &new.sender, &new.account, &new.user_cuid));
        assert_eq!((&entry.outline, entry.reason, &entry.detail), (&new.outline, new.reason, &new.detail));
        assert_eq!((entry.body_sha256, entry.body_bytes, entry.seal), (new.body_sha256, new.body_bytes, new.seal));
        assert_eq!((entry.received_at, entry.state, entry.state_at), (now(), HeldState::Held, None));
        assert_eq!(store.held_list(&HeldFilter::default(), 10).await.unwrap(), [entry]);
        assert_eq!(store.held_show(world.held_id(now())).await.unwrap(), None);
    }

    async fn texts_that_a_stranger_chose_are_kept_as_far_as_they_can_be(world: &World) {
        let mut new = new_held(world, machine(world), "{}", now());
        new.outline.event_type = Some("a\0b".into());
        new.outline.agent_id = Some("\0".into());
        new.detail = "/\0: unexpected".into();
        world.store.held_insert(std::slice::from_ref(&new), &roomy()).await.unwrap();
        let (entry, _) = world.store.held_show(new.id).await.unwrap().unwrap();
        assert_eq!(entry.outline.event_type.as_deref(), Some("a\u{fffd}b"));
        assert_eq!(entry.detail, "/\u{fffd}: unexpected");
    }

    async fn a_body_that_must_not_be_kept_is_not(world: &World) {
        let new = NewHeld {
            body: None,
            reason: HoldReason::ConsentExceeded,
            ..new_held(world, machine(world), "what the person did not allow", now())
        };
        world.store.held_insert(std::slice::from_ref(&new), &roomy()).await.unwrap();
        let (entry, body) = world.store.held_show(new.id).await.unwrap().unwrap();
        assert_eq!((body, entry.body_bytes), (None, 29));
        assert_eq!(world.store.held_bytes().await.unwrap(), ENTRY_BYTES_MIN);
        let repeated = NewHeld { id: world.held_id(at(1)), ..new.clone() };
        let outcomes = world.store.held_insert(&[repeated], &roomy()).await.unwrap();
        assert_eq!(outcomes, [HeldOutcome::AlreadyHeld(new.id)]);
    }

    async fn the_same_bytes_of_one_sender_are_one_entry_while_they_are_held(world: &World) {
        let store = &world.store;
        let sender = machine(world);
        let first = new_held(world, sender.clone(), "x", now());
        let again = |seconds| NewHeld { id: world.held_id(at(seconds)), ..first.clone() };
        let insert = async |new: NewHeld| store.held_insert(&[new], &roomy()).await.unwrap()[0];
        assert_eq!(insert(first.clone()).await, HeldOutcome::Held(first.id));
        assert_eq!(insert(again(1)).await, HeldOutcome::AlreadyHeld(first.id));
        let strange = new_held(world, machine(world), "x", now());
        assert_eq!(insert(strange.clone()).await, HeldOutcome::Held(strange.id), "another sender's are another's");
        let (one, two) = (again(2), again(3));
        let other = NewHeld { body_sha256: Digest::of(b"y"), ..again(4) };
        let batch = [NewHeld { sender: strange.sender.clone(), ..one }, two, other.clone(), NewHeld { id: world.held_id(at(5)), ..other.clone() }];
        assert_eq!(store.held_insert(&batch, &roomy()).await.unwrap(), [
            HeldOutcome::AlreadyHeld(strange.id),
            HeldOutcome::AlreadyHeld(first.id),
            HeldOutcome::Held(other.id),
            HeldOutcome::AlreadyHeld(other.id),
        ]);
        assert_eq!(store.held_list(&HeldFilter::default(), 10).await.unwrap().len(), 3);
        assert_eq!(store.held_bytes().await.unwrap(), 3 * ENTRY_BYTES_MIN);
        assert!(store.held_discard(first.id, at(6)).await.unwrap());
        let anew = again(7);
        assert_eq!(insert(anew.clone()).await, HeldOutcome::Held(anew.id));
    }

    async fn a_repeated_event_with_an_id_is_one_entry(world: &World) {
        let mut first = new_held(world, machine(world), "x", now());
        first.outline.event_id = Some(world.event());
        let again = NewHeld { id: world.held_id(at(1)), ..first.clone() };
        let other = NewHeld { id: world.held_id(at(2)), body_sha256: Digest::of(b"y"), ..first.clone() };
        let held = async |new: &[NewHeld]| world.store.held_insert(new, &roomy()).await.unwrap();
        assert_eq!(held(std::slice::from_ref(&first)).await, [HeldOutcome::Held(first.id)]);
        assert_eq!(held(&[again, other.clone()]).await, [HeldOutcome::AlreadyHeld(first.id), HeldOutcome::Held(other.id)]);
        assert_eq!(world.store.held_bytes().await.unwrap(), 2 * ENTRY_BYTES_MIN);
    }

    async fn an_entry_has_the_reason_of_the_newest_repetition(world: &World) {
        let mut named = new_held(world, machine(world), "x", now());
        named.outline.event_id = Some(world.event());
        let unnamed = new_held(world, machine(world), "y", now());
        let first = [named.clone(), unnamed.clone()];
        world.store.held_insert(&first, &roomy()).await.unwrap();
        let again = [named, unnamed].map(|held| NewHeld {
            id: world.held_id(at(1)),
            reason: HoldReason::IdentityMismatch,
            detail: "/scope/machine_id: not a computer of this account".into(),
            ..held
        });
        world.store.held_insert(&again, &roomy()).await.unwrap();
        for held in first {
            let (entry, body) = world.store.held_show(held.id).await.unwrap().unwrap();
            assert_eq!((entry.reason, entry.detail.as_str()), (again[0].reason, again[0].detail.as_str()));
            assert_eq!(body, held.body);
        }
    }

    async fn held_events_are_counted_by_reason(world: &World) {
        let agent = Sender::Registration(RegistrationId::from(world.rng.uuid_v7(now())));
        let unknown = |body: &str, seconds| NewHeld {
            reason: HoldReason::UnknownEventType,
            ..new_held(world, agent.clone(), body, at(seconds))
        };
        assert_eq!(world.store.held_counts().await.unwrap(), []);
        let new = [unknown("y", 2), unknown("x", 1), new_held(world, machine(world), "z", at(3)), unknown("w", 0)];
        world.store.held_insert(&new, &roomy()).await.unwrap();
        assert!(world.store.held_discard(new[3].id, at(4)).await.unwrap());
        let expected = [
            HeldCount { reason: HoldReason::MalformedEnvelope, number: 1, oldest_at: at(3) },
            HeldCount { reason: HoldReason::UnknownEventType, number: 2, oldest_at: at(1) },
        ];
        assert_eq!(world.store.held_counts().await.unwrap(), expected);
    }

    async fn an_entry_never_takes_the_id_of_another(world: &World) {
        let first = new_held(world, machine(world), "x", now());
        let second = NewHeld { id: first.id, ..new_held(world, machine(world), "y", now()) };
        let whole = [new_held(world, machine(world), "z", now()), second];
        world.store.held_insert(std::slice::from_ref(&first), &roomy()).await.unwrap();
        assert!(world.store.held_insert(&whole, &roomy()).await.unwrap_err().is_unique_violation());
        assert_eq!(world.store.held_bytes().await.unwrap(), ENTRY_BYTES_MIN, "all of a group or nothing");
    }

    async fn many_are_held_at_once_in_order(world: &World) {
        let sender = machine(world);
        let new: Vec<NewHeld> =
            (0..200).map(|i| new_held(world, sender.clone(), &format!("event {i}"), at(i))).collect();
        let outcomes = world.store.held_insert(&new, &roomy()).await.unwrap();
        assert_eq!(outcomes, new.iter().map(|new| HeldOutcome::Held(new.id)).collect::<Vec<_>>());
        assert_eq!(world.store.held_insert(&[], &roomy()).await.unwrap(), []);
        let listed = world.store.held_list(&HeldFilter::default(), 500).await.unwrap();
        assert_eq!(listed.iter().map(|entry| entry.id).collect::<Vec<_>>(), new.iter().rev().map(|new| new.id).collect::<Vec<_>>());
    }

    async fn resends_at_once_are_one_entry(world: &World) {
        let second = world.second().await;
        let first = new_held(world, machine(world), "x", now());
        let mut sending = tokio::task::JoinSet::new();
        for round in 0..10 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let new = NewHeld { id: world.held_id(at(round)), ..first.clone() };
            sending.spawn(async move { store.held_insert(&[new], &roomy()).await.unwrap()[0] });
        }
        let outcomes = sending.join_all().await;
        let held: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, HeldOutcome::Held(_))).collect();
        assert_eq!(held.len(), 1);
        let &&HeldOutcome::Held(id) = held.first().unwrap() else { unreachable!() };
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == HeldOutcome::AlreadyHeld(id)).count(), 9);
        assert_eq!(world.store.held_bytes().await.unwrap(), ENTRY_BYTES_MIN);
    }

    async fn an_unclaimed_agent_has_its_share_of_any_day(world: &World) {
        let store = &world.store;
        let quotas = HeldQuotas { registration_bytes_per_day: 4096, ..roomy() };
        let (agent, other) = (world.registration().await, world.registration().await);
        let body = |i: u32| format!("{i:01024}");
        let new = |agent, i, seconds| unattributed(world, agent, &body(i), at(seconds));
        let batch: Vec<NewHeld> = (0..5).map(|i| new(agent, i, 0)).chain([new(other, 9, 0)]).collect();
        let outcomes = store.held_insert(&batch, &quotas).await.unwrap();
        let held = |outcome: &HeldOutcome| matches!(outcome, HeldOutcome::Held(_));
        assert!(outcomes[..4].iter().all(held));
        let in_a_day = HeldOutcome::QuotaExceeded { retry_after: TimeDelta::days(1) };
        assert_eq!(outcomes[4], in_a_day);
        assert!(held(&outcomes[5]), "another agent's share is its own");
        let again = store.held_insert(&[new(agent, 0, 60)], &quotas).await.unwrap();
        assert_eq!(again, [HeldOutcome::AlreadyHeld(batch[0].id)], "a repeated body costs nothing");
        store.held_discard(batch[0].id, at(60)).await.unwrap();
        let discarded = store.held_insert(&[new(agent, 5, 60)], &quotas).await.unwrap();
        let a_minute_less = HeldOutcome::QuotaExceeded { retry_after: TimeDelta::days(1) - TimeDelta::minutes(1) };
        assert_eq!(discarded, [a_minute_less], "what was given up was taken all the same");
        let day = 24 * 60 * 60;
        assert!(held(&store.held_insert(&[new(agent, 5, day)], &quotas).await.unwrap()[0]));
        // Even the smallest entry counts with a minimum size.
        let tiny: Vec<NewHeld> = (0..20).map(|i| unattributed(world, other, &i.to_string(), at(0))).collect();
        let outcomes = store.held_insert(&tiny, &quotas).await.unwrap();
        assert_eq!(outcomes.iter().filter(|outcome| held(outcome)).count(), 6);
    }

    async fn there_is_room_for_so_much_in_all(world: &World) {
        let store = &world.store;
        let quotas = HeldQuotas { total_bytes: 2048, ..roomy() };
        let sender = machine(world);
        let new = |body: &str, bytes: usize| new_held(world, sender.clone(), &format!("{body:>bytes$}"), now());
        let batch = [new("a", 1000), new("b", 1000), new("c", 600), new("d", 48)];
        let outcomes = store.held_insert(&batch, &quotas).await.unwrap();
        let expected = |i: usize| HeldOutcome::Held(batch[i].id);
        assert_eq!(outcomes[..2], [expected(0), expected(1)]);
        assert!(outcomes[2..].iter().all(|outcome| matches!(outcome, HeldOutcome::QuotaExceeded { .. })));
        assert_eq!(store.held_bytes().await.unwrap(), 2000);
        assert!(store.held_release(batch[0].id, world.receipt(), now()).await.unwrap());
        assert_eq!(store.held_bytes().await.unwrap(), 1000);
        assert_eq!(store.held_insert(&batch[2..3], &quotas).await.unwrap(), [expected(2)]);
        assert_eq!(store.held_bytes().await.unwrap(), 1600);
    }

    async fn one_sender_has_a_part_of_the_whole(world: &World) {
        let store = &world.store;
        let quotas = HeldQuotas { total_bytes: 4 * SENDER_BYTES_MIN, sender_percent: 50, ..roomy() };
        let share = 2 * SENDER_BYTES_MIN;
        assert_eq!((quotas.sender_bytes(), roomy().sender_bytes()), (share, roomy().total_bytes / 100));
        let (flood, other) = (machine(world), machine(world));
        let quarter = usize::try_from(share / 4).unwrap();
        let new = |sender: &Sender, n: usize| new_held(world, sender.clone(), &n.to_string().repeat(quarter / n.to_string().len()), now());
        let held = |outcome: &HeldOutcome| matches!(outcome, HeldOutcome::Held(_));
        let batch: Vec<NewHeld> = (0..6).map(|n| new(&flood, n)).chain([new(&other, 0)]).collect();
        let outcomes = store.held_insert(&batch, &quotas).await.unwrap();
        assert_eq!(outcomes.iter().map(held).collect::<Vec<_>>(), [true, true, true, true, false, false, true]);
        let full = store.held_insert(&[new(&flood, 7)], &quotas).await.unwrap();
        assert!(matches!(full[0], HeldOutcome::QuotaExceeded { .. }));
        // Settling an entry frees the quota of its sender.
        assert!(store.held_discard(batch[0].id, now()).await.unwrap());
        let outcomes = store.held_insert(&[new(&flood, 8), new(&flood, 9)], &quotas).await.unwrap();
        assert_eq!(outcomes.iter().map(held).collect::<Vec<_>>(), [true, false]);
        for entry in &batch[1..4] {
            assert!(store.held_release(entry.id, world.receipt(), now()).await.unwrap());
        }
        let outcomes = store.held_insert(&[new(&flood, 10), new(&flood, 11), new(&flood, 12)], &quotas).await.unwrap();
        assert!(outcomes.iter().all(held));
    }

    async fn shares_are_exact_between_processes(world: &World) {
        let second = world.second().await;
        let agent = world.registration().await;
        let quotas = HeldQuotas { registration_bytes_per_day: 5 * ENTRY_BYTES_MIN, ..roomy() };
        let mut sending = tokio::task::JoinSet::new();
        for round in 0..12 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let new = unattributed(world, agent, &round.to_string(), now());
            sending.spawn(async move { store.held_insert(&[new], &quotas).await.unwrap()[0] });
        }
        let outcomes = sending.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, HeldOutcome::Held(_))).count(), 5);
        assert_eq!(world.store.held_bytes().await.unwrap(), 5 * ENTRY_BYTES_MIN);
    }

    async fn an_event_that_was_forwarded_after_all_is_released_in_its_own_scope(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (attached, ..) = world.attached(&ada).await;
        let event = world.event();
        let named = |sender: Sender, body: &str| {
            let mut new = new_held(world, sender, body, now());
            new.outline.event_id = Some(event);
            new
        };
        let strange = named(machine(world), "a stranger chose the same id");
        let of_machine = named(Sender::Machine(attached), "one");
        let of_account = NewHeld { account: Some(ada.clone()), ..named(Sender::Account(ada.clone()), "two") };
        let all = [strange.clone(), of_machine.clone(), of_account.clone()];
        store.held_insert(&all, &roomy()).await.unwrap();

        let receipt = world.receipt();
        let release = async |scope: HeldScope| store.held_mark_released(event, &scope, receipt, at(1)).await.unwrap();
        assert_eq!(release(HeldScope::Account(bob)).await, 0);
        assert_eq!(release(HeldScope::Machine(attached)).await, 1);
        assert_eq!(release(HeldScope::Machine(attached)).await, 0);
        assert_eq!(release(HeldScope::Account(ada)).await, 1);
        assert_eq!(store.held_mark_released(world.event(), &HeldScope::Machine(attached), receipt, at(1)).await.unwrap(), 0);
        for (new, state) in [(&strange, HeldState::Held), (&of_machine, HeldState::Released), (&of_account, HeldState::Released)] {
            let (entry, body) = store.held_show(new.id).await.unwrap().unwrap();
            assert_eq!(entry.state, state);
            let released = state == HeldState::Released;
            assert_eq!((body.is_none(), entry.receipt, entry.state_at), (released, released.then_some(receipt), released.then_some(at(1))));
        }
        assert_eq!(store.held_bytes().await.unwrap(), ENTRY_BYTES_MIN);
    }

    async fn an_account_releases_what_its_attached_computers_hold(world: &World) {
        let ada = world.account("ada@example.com").await;
        let (attached, ..) = world.attached(&ada).await;
        let mut new = new_held(world, Sender::Machine(attached), "one", now());
        new.outline.event_id = Some(world.event());
        world.store.held_insert(std::slice::from_ref(&new), &roomy()).await.unwrap();
        let (event, scope) = (new.outline.event_id.unwrap(), HeldScope::Account(ada));
        assert_eq!(world.store.held_mark_released(event, &scope, world.receipt(), now()).await.unwrap(), 1);
    }

    async fn an_entry_ends_once(world: &World) {
        let store = &world.store;
        let second = world.second().await;
        let new = new_held(world, machine(world), "x", now());
        store.held_insert(std::slice::from_ref(&new), &roomy()).await.unwrap();
        let (released, discarded) =
            tokio::join!(store.held_release(new.id, world.receipt(), at(1)), second.held_discard(new.id, at(1)));
        assert!(released.unwrap() ^ discarded.unwrap());
        assert!(!store.held_discard(new.id, at(2)).await.unwrap());
        assert!(!store.held_release(new.id, world.receipt(), at(2)).await.unwrap());
        assert_eq!(store.held_bytes().await.unwrap(), 0);
        let (entry, body) = store.held_show(new.id).await.unwrap().unwrap();
        assert_eq!((entry.state_at, body), (Some(at(1)), None));
    }

    async fn a_computer_and_an_account_see_their_own_held_events(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (attached, ..) = world.attached(&ada).await;
        let (foreign, ..) = world.attached(&bob).await;
        let (agent, claim) = world.claimed("ada@example.com").await;
        assert_eq!(claim.account, ada);
        let of_account = |sender: Sender, seconds: i64| NewHeld {
            account: Some(ada.clone()),
            outline: PartialEnvelope { machine_uuid: Some(attached), event_id: Some(world.event()), ..PartialEnvelope::default() },
            ..new_held(world, sender, &seconds.to_string(), at(seconds))
        };
        let all = [
            new_held(world, Sender::Machine(attached), "1", at(1)),
            of_account(Sender::Account(ada.clone()), 2),
            of_account(Sender::Registration(agent), 3),
            new_held(world, Sender::Machine(foreign), "4", at(4)),
            new_held(world, Sender::Machine(attached), "5", at(5)),
        ];
        store.held_insert(&all, &roomy()).await.unwrap();
        let seen = async |scope: HeldScope, rows_max| {
            let (entries, truncated) = store.held_unclassified(&scope, rows_max).await.unwrap();
            let seen: Vec<i64> = entries.iter().map(|entry| (entry.received_at - now()).num_seconds()).collect();
            (seen, truncated)
        };
        assert_eq!(seen(HeldScope::Machine(attached), 10).await, (vec![5, 1], false));
        assert_eq!(seen(HeldScope::Account(ada.clone()), 10).await, (vec![5, 3, 2, 1], false));
        assert_eq!(seen(HeldScope::Account(ada.clone()), 4).await, (vec![5, 3, 2, 1], false));
        assert_eq!(seen(HeldScope::Account(ada.clone()), 3).await, (vec![5, 3, 2], true));
        assert_eq!(seen(HeldScope::Account(bob), 10).await, (vec![4], false));
        let (entries, _) = store.held_unclassified(&HeldScope::Account(ada.clone()), 10).await.unwrap();
        assert!(entries.iter().all(|entry| entry.machine_uuid == Some(attached)));
        assert_eq!(entries[1].event_id, all[2].outline.event_id);
        assert_eq!(entries[1].reason, HoldReason::MalformedEnvelope);
        store.machine_detach(attached, &ada, now()).await.unwrap();
        assert_eq!(seen(HeldScope::Account(ada), 10).await, (vec![3, 2], false));
    }

    async fn what_an_agent_sent_before_the_claim_joins_the_accounts_list(world: &World) {
        let store = &world.store;
        let agent = world.registration().await;
        let mut before = unattributed(world, agent, "before", now());
        before.outline.machine_uuid = Some(world.rng.uuid_v7(now()).into());
        store.held_insert(std::slice::from_ref(&before), &roomy()).await.unwrap();
        let attempt = world.new_attempt(agent, now());
        store.attempt_start(&attempt, 10, chrono::TimeDelta::hours(1), now()).await.unwrap();
        let claim = world.claim_of("ada@example.com").await;
        let scope = HeldScope::Account(claim.account.clone());
        assert_eq!(store.held_unclassified(&scope, 10).await.unwrap(), (vec![], false));
        assert!(store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
        // Judged before the claim, stored after it.
        let after = unattributed(world, agent, "after", at(1));
        store.held_insert(std::slice::from_ref(&after), &HeldQuotas { registration_bytes_per_day: 0, ..roomy() }).await.unwrap();
        let (entries, _) = store.held_unclassified(&scope, 10).await.unwrap();
        assert_eq!(entries.len(), 2);
        assert!(entries.iter().all(|entry| entry.machine_uuid.is_none() && entry.reason == HoldReason::Unattributed));
    }

    async fn nothing_is_lost_between_a_claim_and_events_that_come_with_it(world: &World) {
        let second = world.second().await;
        for round in 0..5 {
            let agent = world.registration().await;
            let attempt = world.new_attempt(agent, now());
            world.store.attempt_start(&attempt, 10, chrono::TimeDelta::hours(1), now()).await.unwrap();
            let claim = world.claim_of(&format!("person{round}@example.com")).await;
            let mut sending = tokio::task::JoinSet::new();
            for event in 0..6 {
                let (store, new) = (second.clone(), unattributed(world, agent, &event.to_string(), now()));
                sending.spawn(async move { store.held_insert(&[new], &roomy()).await.unwrap()[0] });
            }
            assert!(world.store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
            assert!(sending.join_all().await.iter().all(|outcome| matches!(outcome, HeldOutcome::Held(_))));
            let scope = HeldScope::Account(claim.account.clone());
            assert_eq!(world.store.held_unclassified(&scope, 10).await.unwrap().0.len(), 6);
        }
    }

    async fn operators_choose_what_they_see(world: &World) {
        let store = &world.store;
        let (one, two) = (machine(world), machine(world));
        let all = [
            new_held(world, one.clone(), "1", at(1)),
            NewHeld { reason: HoldReason::HashMismatch, ..new_held(world, one.clone(), "2", at(2)) },
            new_held(world, two, "3", at(3)),
        ];
        store.held_insert(&all, &roomy()).await.unwrap();
        let body = all[0].body.clone().unwrap();
        let bytes = u32::try_from(all[0].body_bytes).unwrap();
        assert_eq!(store.held_body(all[0].id, bytes).await.unwrap(), Some(body));
        assert_eq!(store.held_body(all[0].id, bytes - 1).await.unwrap(), None);
        store.held_discard(all[0].id, at(4)).await.unwrap();
        assert_eq!(store.held_body(all[0].id, bytes).await.unwrap(), None);
        let ids = async |filter: HeldFilter| {
            store.held_list(&filter, 10).await.unwrap().into_iter().map(|entry| entry.id).collect::<Vec<_>>()
        };
        let any = HeldFilter::default;
        assert_eq!(ids(any()).await, [all[2].id, all[1].id, all[0].id]);
        assert_eq!(ids(HeldFilter { state: Some(HeldState::Held), ..any() }).await, [all[2].id, all[1].id]);
        assert_eq!(ids(HeldFilter { reason: Some(HoldReason::HashMismatch), ..any() }).await, [all[1].id]);
        assert_eq!(ids(HeldFilter { sender: Some(one), ..any() }).await, [all[1].id, all[0].id]);
        assert_eq!(ids(HeldFilter { before: Some(all[1].id), ..any() }).await, [all[0].id]);
        assert_eq!(store.held_list(&any(), 1).await.unwrap().len(), 1);
        let held = HeldFilter { state: Some(HeldState::Held), ..any() };
        assert_eq!(store.held_ids(&held, None, 10).await.unwrap(), [all[1].id, all[2].id], "oldest first");
        assert_eq!(store.held_ids(&held, Some(all[1].id), 10).await.unwrap(), [all[2].id]);
        assert_eq!(store.held_ids(&HeldFilter { before: Some(all[2].id), ..held }, None, 10).await.unwrap(), [all[1].id]);
        assert_eq!(store.held_ids(&any(), None, 1).await.unwrap(), [all[0].id]);
        let of_hash = HeldFilter { reason: Some(HoldReason::HashMismatch), ..any() };
        assert_eq!(store.held_ids(&of_hash, None, 10).await.unwrap(), [all[1].id]);
    }
}

#[test]
fn a_sender_is_read_back_from_its_key() {
    let uuid = "019b76da-a800-7a67-8a14-94a3f41b0634";
    for text in [format!("machine:{uuid}"), format!("registration:{uuid}"), "account:abc".to_owned()] {
        assert_eq!(text.parse::<Sender>().unwrap().to_string(), text);
    }
    for wrong in ["", "machine", "machine:x", "account:", "person:abc"] {
        assert!(wrong.parse::<Sender>().is_err(), "{wrong}");
    }
}
