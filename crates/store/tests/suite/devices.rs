//! Device codes: attachment, limits of polls and of guesses.

use std::time::Duration;

use chrono::TimeDelta;
use domain::agent_right::AgentRight;
use domain::api_key::{ApiKey, ApiKeyScope, KeyConsent};
use domain::claim::{AttemptState, Claim, Registration};
use domain::confirm::ConfirmedVia;
use domain::device::approval::ApprovalRefusal;
use domain::device::{CODE_SECONDS, DeviceCode, DeviceState, GUESS_WINDOW, GUESSES_MAX, WantedAgent, WantedKey};
use domain::ids::{MachineUuid, PersonId, RegistrationId, UserAccountId, UserCuid};
use domain::log_part::LogPart;
use domain::mail::OutgoingMail;
use domain::token::TokenScope;
use domain::tool::Tool;
use domain::{Rng, Timestamp};
use store::Store;
use store::account::{Person, Provision};
use store::api_key::{KeyCreate, KeyGrant};
use store::device::{Agreed, Approval, Approver, AttachedDevice, CodeEntry, DeviceStart, Guesser, NewDeviceCode};
use store::janitor::{PurgeSettings, Purged};
use store::machine::{NewMachine, Register};
use store::mail::QueuedMail;

use crate::world::{World, at, email, now};
use harness::on_each_database;

/// Consent to a key for the memory only.
const MEMORY: KeyConsent = KeyConsent { memory: true, account: false };

const CODES_MAX: u32 = 3;

fn window() -> TimeDelta {
    TimeDelta::hours(1)
}

/// A pending code that is not stored yet, and the HMAC of its user code.
fn new_code(world: &World, machine: MachineUuid, identity: &UserCuid, at: Timestamp) -> (DeviceCode, [u8; 32]) {
    let code = DeviceCode {
        code: world.secret(),
        machine,
        identity: identity.clone(),
        created_at: at,
        expires_at: at + TimeDelta::seconds(CODE_SECONDS),
        state: DeviceState::Pending,
    };
    (code, world.rng.bytes())
}

async fn start(store: &Store, code: &DeviceCode, sealed_user_code: [u8; 32]) -> DeviceStart {
    let new = NewDeviceCode { code, sealed_user_code, ip_address: Some("192.0.2.1"), key: None, agent: None };
    store.device_start(&new, CODES_MAX, window()).await.unwrap()
}

/// A pending code of this computer.
async fn asking(world: &World, machine: MachineUuid, identity: &UserCuid) -> DeviceCode {
    let (code, sealed) = new_code(world, machine, identity, now());
    assert!(matches!(start(&world.store, &code, sealed).await, DeviceStart::Started { .. }));
    code
}

pub(crate) async fn code_of_new_computer(world: &World) -> DeviceCode {
    let (machine, identity, _) = world.machine().await;
    asking(world, machine, &identity).await
}

async fn without_account(world: &World, address: &str) -> Person {
    world.store.person_sign_in(&email(address), false, now(), &world.rng).await.unwrap()
}

/// An account of an identity without an owner.
async fn provisioned(world: &World, identity: &UserCuid) -> UserAccountId {
    match world.store.account_provision(Some(identity), None, None, now(), &world.rng).await.unwrap() {
        Provision::Created(account) => account,
        refused => panic!("{refused:?}"),
    }
}

fn by(person: &Person) -> Approver {
    Approver { person: person.id, via: ConfirmedVia::Session }
}

async fn approve(store: &Store, code: &DeviceCode, person: &Person, at: Timestamp) -> Approval {
    approve_by(store, code, person, &by(person), at).await
}

async fn approve_by(store: &Store, code: &DeviceCode, person: &Person, by: &Approver, at: Timestamp) -> Approval {
    let owner = person.email.clone();
    let notice = move |attached: &AttachedDevice| {
        assert_eq!((attached.machine, &attached.owner), (code.machine, &owner));
        let mail = OutgoingMail { to: owner, subject: "attached".into(), text: attached.account.to_string() };
        QueuedMail { id: Rng::system().uuid_v7(at).into(), mail }
    };
    store.device_approve(code, by, Agreed::default(), notice, at, &Rng::system()).await.unwrap()
}

async fn state(store: &Store, code: &DeviceCode) -> DeviceState {
    store.device_by_code(&code.code).await.unwrap().unwrap().state
}

/// The account that a computer is attached to.
async fn attached_to(store: &Store, machine: MachineUuid) -> Option<UserAccountId> {
    store.machine_facts(machine).await.unwrap().unwrap().facts.account
}

async fn typed(world: &World, store: &Store, sealed: &[u8; 32], person: PersonId, at: Timestamp) -> CodeEntry {
    let guess = world.rng.uuid_v7(at);
    let guesser = Guesser { person, by_agent: false };
    store.device_typed(sealed, guesser, guess, (GUESSES_MAX, GUESS_WINDOW), at).await.unwrap()
}

/// A pending code of a computer with a claim for its agent, and the HMAC of its user code.
async fn with_agent(
    world: &World,
    machine: MachineUuid,
    identity: &UserCuid,
    agent: Option<&Registration>,
    at: Timestamp,
) -> (DeviceCode, [u8; 32]) {
    let (code, sealed_user_code) = new_code(world, machine, identity, at);
    let wanted = agent.map(|agent| WantedAgent {
        registration: agent.id,
        claim_token: agent.claim_token,
        tool: Tool::ClaudeCode,
    });
    let new = NewDeviceCode { code: &code, sealed_user_code, ip_address: None, key: None, agent: wanted.as_ref() };
    let started = world.store.device_start(&new, 10, window()).await.unwrap();
    assert!(matches!(started, DeviceStart::Started { .. }));
    (code, sealed_user_code)
}

/// An approval with or without the agent, and the agent that the notice names.
async fn agree(
    world: &World,
    code: &DeviceCode,
    person: &Person,
    agent: bool,
    at: Timestamp,
) -> (Approval, Option<(RegistrationId, Tool)>) {
    let named = std::sync::Mutex::new(None);
    let notice = |attached: &AttachedDevice| {
        *named.lock().unwrap() = attached.agent;
        let mail = OutgoingMail { to: person.email.clone(), subject: "attached".into(), text: String::new() };
        QueuedMail { id: Rng::system().uuid_v7(at).into(), mail }
    };
    let rights = [AgentRight::Read, AgentRight::ConfirmAgents].into_iter().collect();
    let agreed = Agreed { agent: agent.then_some(rights), ..Agreed::default() };
    let result = world.store.device_approve(code, &by(person), agreed, notice, at, &world.rng).await.unwrap();
    (result, named.into_inner().unwrap())
}

/// The account that an agent acts for.
async fn claim_of(store: &Store, agent: RegistrationId) -> Option<UserAccountId> {
    store.registration_by_id(agent).await.unwrap().unwrap().0.claim.map(|claim| claim.account)
}

on_each_database! {
    async fn a_code_is_kept_whole_and_found_by_the_typed_user_code(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let (machine, identity, _) = world.machine().await;
        let (code, sealed) = new_code(world, machine, &identity, at(5));
        assert_eq!(start(store, &code, sealed).await, DeviceStart::Started { superseded: None });
        assert_eq!(store.device_by_code(&code.code).await.unwrap().as_ref(), Some(&code));
        assert_eq!(store.device_newest(code.machine).await.unwrap().as_ref(), Some(&code));
        assert_eq!(store.device_by_code(&world.secret()).await.unwrap(), None);

        let CodeEntry::Found(asking) = typed(world, store, &sealed, ada.id, at(6)).await else { panic!("not found") };
        assert_eq!((&asking.code, asking.name.as_deref()), (&code, Some("laptop")));
        assert_eq!((asking.first_seen_at, asking.ip_address.as_deref()), (Some(now()), Some("192.0.2.1")));

        // The result is found even after the computer is deleted.
        assert!(approve(store, &code, &ada, at(7)).await.is_ok());
        assert!(store.machine_remove(machine, now()).await.unwrap());
        let CodeEntry::Found(asking) = typed(world, store, &sealed, ada.id, at(8)).await else { panic!("not found") };
        assert_eq!(asking.code.state, DeviceState::Claimed { account: ada.account.unwrap(), at: at(7) });
        assert_eq!((asking.name, asking.first_seen_at), (None, None));
    }

    async fn a_second_code_takes_the_place_of_the_first(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let first = code_of_new_computer(world).await;
        let other = code_of_new_computer(world).await;
        let (second, sealed) = new_code(world, first.machine, &first.identity, at(1));
        assert_eq!(start(store, &second, sealed).await, DeviceStart::Started { superseded: Some(first.code) });
        assert_eq!(state(store, &first).await, DeviceState::Superseded);
        assert_eq!(state(store, &other).await, DeviceState::Pending, "codes of other computers stay");
        assert_eq!(approve(store, &first, &ada, at(2)).await, Err(ApprovalRefusal::CodeConsumed));
        assert!(!store.device_deny(&first.code, &by(&ada), at(2)).await.unwrap());
        assert!(approve(store, &second, &ada, at(2)).await.is_ok());
        // A settled code is not superseded.
        let (third, sealed) = new_code(world, first.machine, &first.identity, at(3));
        assert_eq!(start(store, &third, sealed).await, DeviceStart::Started { superseded: None });
        assert!(matches!(state(store, &second).await, DeviceState::Claimed { .. }));
    }

    async fn a_user_code_that_another_computer_shows_is_not_given_again(world: &World) {
        let store = &world.store;
        let (one, two) = (world.machine().await, world.machine().await);
        let (code, sealed) = new_code(world, one.0, &one.1, now());
        start(store, &code, sealed).await;
        let before = asking(world, two.0, &two.1).await;
        let (again, _) = new_code(world, two.0, &two.1, now());
        assert_eq!(start(store, &again, sealed).await, DeviceStart::UserCodeTaken);
        assert_eq!(store.device_by_code(&again.code).await.unwrap(), None);
        assert_eq!(state(store, &before).await, DeviceState::Pending, "a refusal supersedes nothing");
    }

    async fn only_a_computer_with_a_secret_asks(world: &World) {
        let store = &world.store;
        let account = world.account("ada@example.com").await;
        let (machine, identity, _) = world.attached(&account).await;
        let (code, sealed) = new_code(world, machine, &identity, now());
        assert!(store.machine_detach(machine, &account, now()).await.unwrap());
        assert_eq!(start(store, &code, sealed).await, DeviceStart::MachineGone);
        let (code, sealed) = new_code(world, world.rng.uuid_v7(now()).into(), &identity, now());
        assert_eq!(start(store, &code, sealed).await, DeviceStart::MachineGone);
        assert_eq!(store.device_by_code(&code.code).await.unwrap(), None);
    }

    async fn codes_are_counted_in_a_window_that_moves(world: &World) {
        let store = &world.store;
        let (machine, identity, _) = world.machine().await;
        let ask = async |seconds: i64| {
            let (code, sealed) = new_code(world, machine, &identity, at(seconds));
            start(store, &code, sealed).await
        };
        for seconds in [0, 100, 200] {
            assert!(matches!(ask(seconds).await, DeviceStart::Started { .. }));
        }
        let wait = |seconds| DeviceStart::TooMany { retry_after: TimeDelta::seconds(seconds) };
        assert_eq!(ask(300).await, wait(3300));
        assert_eq!(ask(3599).await, wait(1));
        assert!(matches!(ask(3600).await, DeviceStart::Started { .. }));
        assert_eq!(ask(3601).await, wait(99));
        code_of_new_computer(world).await;
    }

    async fn codes_that_are_asked_for_at_once_leave_one_that_waits_and_are_all_counted(world: &World) {
        let second = world.second().await;
        let (machine, identity, _) = world.machine().await;
        let mut asking = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let (code, sealed) = new_code(world, machine, &identity, now());
            asking.spawn(async move { (start(&store, &code, sealed).await, code) });
        }
        let outcomes = asking.join_all().await;
        let started: Vec<_> =
            outcomes.iter().filter(|(outcome, _)| matches!(outcome, DeviceStart::Started { .. })).collect();
        assert_eq!(started.len(), CODES_MAX as usize);
        let mut pending = 0;
        for (_, code) in started {
            pending += u32::from(state(&world.store, code).await == DeviceState::Pending);
        }
        assert_eq!(pending, 1);
    }

    async fn an_approval_attaches_the_computer_once(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let account = ada.account.clone().unwrap();
        let code = code_of_new_computer(world).await;
        assert_eq!(approve(store, &code, &ada, at(9)).await, Ok(account.clone()));
        assert_eq!(state(store, &code).await, DeviceState::Claimed { account: account.clone(), at: at(9) });
        assert_eq!(attached_to(store, code.machine).await, Some(account.clone()));
        assert_eq!(store.identity(&code.identity).await.unwrap().unwrap().account, Some(account.clone()));
        assert_eq!(store.computers_of_account(&account, 10).await.unwrap()[0].attached_at, Some(at(9)));
        for person in [&ada, &bob] {
            assert_eq!(approve(store, &code, person, at(10)).await, Err(ApprovalRefusal::CodeConsumed));
            assert!(!store.device_deny(&code.code, &by(person), at(10)).await.unwrap());
        }
        assert_eq!(attached_to(store, code.machine).await, Some(account.clone()));
        // An attached computer may be attached to the same account again.
        let again = asking(world, code.machine, &code.identity).await;
        assert_eq!(approve(store, &again, &ada, at(11)).await, Ok(account));
    }

    async fn an_attachment_that_an_agent_approved_ends_with_the_agent(world: &World) {
        let store = &world.store;
        let (agent, claim) = world.claimed("ada@example.com").await;
        let owner = store.account_by_id(&claim.account).await.unwrap().unwrap().owner.unwrap();
        let ada = store.person_sign_in(&owner.1, false, now(), &world.rng).await.unwrap();
        let by_agent = Approver { person: ada.id, via: ConfirmedVia::Agent(agent) };
        let code = code_of_new_computer(world).await;
        assert_eq!(approve_by(store, &code, &ada, &by_agent, now()).await, Ok(claim.account.clone()));
        assert_eq!(store.confirmed_by(agent).await.unwrap().computers, 1);
        let own = code_of_new_computer(world).await;
        approve(store, &own, &ada, now()).await.unwrap();

        assert!(store.registration_revoke(agent, None, at(1)).await.unwrap());
        assert_eq!(attached_to(store, code.machine).await, None);
        assert_eq!(attached_to(store, own.machine).await, Some(claim.account.clone()));
        assert_eq!(store.confirmed_by(agent).await.unwrap().computers, 0);
        let computer = store.machines(10).await.unwrap().into_iter().find(|one| one.machine_uuid == code.machine).unwrap();
        assert!(computer.has_secret && computer.attached_at.is_none(), "it is registered still");
        // An agent that was revoked before the approval cannot approve; its person can.
        let again = asking(world, code.machine, &code.identity).await;
        assert_eq!(approve_by(store, &again, &ada, &by_agent, at(2)).await, Err(ApprovalRefusal::CodeConsumed));
        assert_eq!(approve(store, &again, &ada, at(2)).await, Ok(claim.account));
    }

    async fn a_denial_is_final(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let code = code_of_new_computer(world).await;
        assert!(store.device_deny(&code.code, &by(&ada), at(1)).await.unwrap());
        assert!(!store.device_deny(&code.code, &by(&ada), at(2)).await.unwrap());
        assert_eq!(approve(store, &code, &ada, at(3)).await, Err(ApprovalRefusal::CodeConsumed));
        assert_eq!(state(store, &code).await, DeviceState::Denied);
        assert_eq!(attached_to(store, code.machine).await, None);
        assert!(!store.device_deny(&world.secret(), &by(&ada), at(1)).await.unwrap());
    }

    async fn a_code_can_be_answered_until_its_last_moment(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let (late, just) = (code_of_new_computer(world).await, code_of_new_computer(world).await);
        assert_eq!(approve(store, &late, &ada, at(CODE_SECONDS)).await, Err(ApprovalRefusal::CodeConsumed));
        assert!(!store.device_deny(&late.code, &by(&ada), at(CODE_SECONDS)).await.unwrap());
        assert_eq!(state(store, &late).await, DeviceState::Pending);
        assert!(approve(store, &just, &ada, at(CODE_SECONDS - 1)).await.is_ok());
    }

    async fn a_computer_that_learned_of_the_end_is_not_attached_any_more(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let code = code_of_new_computer(world).await;
        assert!(!store.device_expire(&code.code, at(CODE_SECONDS - 1)).await.unwrap(), "not before its time");
        assert_eq!(state(store, &code).await, DeviceState::Pending);
        assert!(store.device_expire(&code.code, at(CODE_SECONDS)).await.unwrap());
        assert!(!store.device_expire(&code.code, at(CODE_SECONDS)).await.unwrap());
        assert_eq!(state(store, &code).await, DeviceState::Expired);
        // By the clock of another node there is time left.
        assert_eq!(approve(store, &code, &ada, at(CODE_SECONDS - 2)).await, Err(ApprovalRefusal::CodeConsumed));
        assert!(!store.device_deny(&code.code, &by(&ada), at(CODE_SECONDS - 2)).await.unwrap());
        assert_eq!(attached_to(store, code.machine).await, None);
        let approved = code_of_new_computer(world).await;
        assert!(approve(store, &approved, &ada, at(1)).await.is_ok());
        assert!(!store.device_expire(&approved.code, at(CODE_SECONDS)).await.unwrap());
        assert!(!store.device_expire(&world.secret(), at(CODE_SECONDS)).await.unwrap());
    }

    /// The order is fixed (`docs/decisions/0004-device-codes.md`): each case would be refused for every later reason as well.
    async fn approvals_are_refused_in_the_documented_order(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let unowned = without_account(world, "nobody@example.com").await;
        let bob = world.account("bob@example.com").await;
        let refused = async |code: &DeviceCode, person: &Person, why: Approval| {
            assert_eq!(approve(store, code, person, at(1)).await, why);
            assert_eq!(state(store, code).await, DeviceState::Pending, "a refusal settles nothing");
        };

        // The code is settled, and its computer is deleted.
        let code = code_of_new_computer(world).await;
        assert!(store.device_deny(&code.code, &by(&ada), now()).await.unwrap());
        assert!(store.machine_remove(code.machine, now()).await.unwrap());
        for person in [&ada, &unowned] {
            assert_eq!(approve(store, &code, person, at(1)).await, Err(ApprovalRefusal::CodeConsumed));
        }

        // The computer is deleted, or was detached permanently; its identity is Bob's.
        let (machine, identity, _) = world.attached(&bob).await;
        let code = asking(world, machine, &identity).await;
        assert!(store.machine_detach(machine, &bob, now()).await.unwrap());
        refused(&code, &ada, Err(ApprovalRefusal::MachineNotRegistered)).await;
        refused(&code, &unowned, Err(ApprovalRefusal::MachineNotRegistered)).await;
        assert!(store.machine_remove(machine, now()).await.unwrap());
        refused(&code, &ada, Err(ApprovalRefusal::MachineNotRegistered)).await;
        refused(&code, &unowned, Err(ApprovalRefusal::MachineNotRegistered)).await;

        // Registered again by another person: the pending code is of another computer.
        let (user_cuid, secret) = (world.cuid(), world.secret());
        let new = NewMachine { machine_uuid: machine, user_cuid: &user_cuid, name: None, secret, part: LogPart::FIRST };
        assert_eq!(store.machine_register(&new, now()).await.unwrap(), Register::Registered);
        refused(&code, &ada, Err(ApprovalRefusal::MachineNotRegistered)).await;

        // The computer is Bob's, and so is its identity.
        let (machine, identity, _) = world.attached(&bob).await;
        let code = asking(world, machine, &identity).await;
        refused(&code, &ada, Err(ApprovalRefusal::MachineAlreadyClaimed)).await;
        refused(&code, &unowned, Err(ApprovalRefusal::MachineAlreadyClaimed)).await;

        // Only the identity is Bob's.
        let other = world.machine_of(&identity, now()).await;
        let code = asking(world, other, &identity).await;
        refused(&code, &ada, Err(ApprovalRefusal::CuidAlreadyClaimed)).await;
        refused(&code, &unowned, Err(ApprovalRefusal::CuidAlreadyClaimed)).await;

        // The identity has a separate account without an owner.
        let code = code_of_new_computer(world).await;
        let account = provisioned(world, &code.identity).await;
        refused(&code, &ada, Err(ApprovalRefusal::PersonBoundToOtherAccount)).await;
        assert_eq!(store.account_by_id(&account).await.unwrap().unwrap().owner, None);

        // There is no account at all.
        let code = code_of_new_computer(world).await;
        refused(&code, &unowned, Err(ApprovalRefusal::AccountRequired)).await;
        assert_eq!(attached_to(store, code.machine).await, None);
        assert_eq!(store.identity(&code.identity).await.unwrap().unwrap().account, None);
    }

    async fn an_unowned_identity_is_linked_through_its_first_computer(world: &World) {
        let store = &world.store;
        let (ada, mallory) = (world.person("ada@example.com").await, world.person("mallory@example.com").await);
        let (first, identity, _) = world.machine().await;
        let third = world.machine_of(&identity, at(2)).await;
        let second = world.machine_of(&identity, at(1)).await;
        let code = asking(world, second, &identity).await;
        let refused = Err(ApprovalRefusal::NotTheFirst);
        assert_eq!(approve(store, &code, &mallory, at(3)).await, refused);
        assert_eq!(store.identity(&identity).await.unwrap().unwrap().account, None);
        assert_eq!(state(store, &code).await, DeviceState::Pending);

        // The reader sees the number of other computers, except computers of their own account.
        let others = async |person| {
            let sealed = world.rng.bytes();
            let (code, _) = new_code(world, third, &identity, now());
            start(store, &code, sealed).await;
            let CodeEntry::Found(asking) = typed(world, store, &sealed, person, at(4)).await else { panic!("not found") };
            asking.others
        };
        assert_eq!(others(ada.id).await, 2);
        let own = asking(world, first, &identity).await;
        assert!(approve(store, &own, &ada, at(5)).await.is_ok());
        assert_eq!((others(ada.id).await, others(mallory.id).await), (1, 2));
        assert_eq!(approve(store, &code, &mallory, at(6)).await, Err(ApprovalRefusal::CuidAlreadyClaimed));
        assert!(approve(store, &code, &ada, at(7)).await.is_ok());

        // After the first one is deleted, the next one is the first.
        let (gone, identity, _) = world.machine().await;
        let next = world.machine_of(&identity, at(1)).await;
        let code = asking(world, next, &identity).await;
        assert_eq!(approve(store, &code, &ada, at(2)).await, refused);
        assert!(store.machine_remove(gone, now()).await.unwrap());
        assert!(approve(store, &code, &ada, at(3)).await.is_ok());
    }

    async fn a_person_without_an_account_takes_over_the_provisioned_one(world: &World) {
        let store = &world.store;
        let unowned = without_account(world, "nobody@example.com").await;
        let code = code_of_new_computer(world).await;
        let account = provisioned(world, &code.identity).await;
        // An operator may have attached it already.
        assert_eq!(store.machine_attach(code.machine, &account, now(), &world.rng).await.unwrap(), Ok(()));
        assert_eq!(approve(store, &code, &unowned, at(1)).await, Ok(account.clone()));
        let owner = store.account_by_id(&account).await.unwrap().unwrap().owner.unwrap();
        assert_eq!(owner.0, unowned.id);
        assert_eq!(attached_to(store, code.machine).await, Some(account.clone()));
        // From now on it belongs to the person's account like any other.
        let code = code_of_new_computer(world).await;
        assert_eq!(approve(store, &code, &unowned, at(2)).await, Ok(account));
    }

    async fn of_people_who_take_over_an_account_at_once_exactly_one_owns_it(world: &World) {
        let second = world.second().await;
        for round in 0..5 {
            // Two computers of one identity, so that the two people compete only for the identity.
            let code = code_of_new_computer(world).await;
            let account = provisioned(world, &code.identity).await;
            let second_machine = world.machine_of(&code.identity, at(1)).await;
            let other = asking(world, second_machine, &code.identity).await;
            let one = without_account(world, &format!("one{round}@example.com")).await;
            let two = without_account(world, &format!("two{round}@example.com")).await;
            let (first, last) = tokio::join!(
                approve(&world.store, &code, &one, at(1)),
                approve(&second, &other, &two, at(1)),
            );
            // The computer that registered first takes the account, independent of the order of approvals.
            assert_eq!(first, Ok(account.clone()));
            let refused = [ApprovalRefusal::CuidAlreadyClaimed, ApprovalRefusal::NotTheFirst].map(Err);
            assert!(refused.contains(&last), "{last:?}");
            let owner = world.store.account_by_id(&account).await.unwrap().unwrap().owner.unwrap().0;
            assert_eq!(owner, one.id);
        }
    }

    async fn of_answers_at_once_exactly_one_is_taken(world: &World) {
        let second = world.second().await;
        let mut people = Vec::new();
        for name in ["ada", "bob", "cyd", "dan"] {
            people.push(world.person(&format!("{name}@example.com")).await);
        }
        for _ in 0..10 {
            let code = code_of_new_computer(world).await;
            let mut answering = tokio::task::JoinSet::new();
            for (number, person) in people.iter().cycle().take(8).cloned().enumerate() {
                let store = if number % 2 == 0 { &world.store } else { &second }.clone();
                let code = code.clone();
                answering.spawn(async move {
                    if number < 5 {
                        match approve(&store, &code, &person, at(1)).await {
                            Ok(account) => Some(Some(account)),
                            Err(ApprovalRefusal::CodeConsumed) => None,
                            other => panic!("{other:?}"),
                        }
                    } else {
                        store.device_deny(&code.code, &by(&person), at(1)).await.unwrap().then_some(None)
                    }
                });
            }
            let taken: Vec<_> = answering.join_all().await.into_iter().flatten().collect();
            assert_eq!(taken.len(), 1, "{taken:?}");
            assert_eq!(attached_to(&world.store, code.machine).await, taken[0]);
            let expected = match &taken[0] {
                Some(account) => DeviceState::Claimed { account: account.clone(), at: at(1) },
                None => DeviceState::Denied,
            };
            assert_eq!(state(&world.store, &code).await, expected);
        }
    }

    async fn wrong_codes_are_counted_for_each_person_in_a_window_that_moves(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, identity, _) = world.machine().await;
        let (code, sealed) = new_code(world, machine, &identity, now());
        start(store, &code, sealed).await;
        for seconds in 0..i64::from(GUESSES_MAX) {
            // The right code does not use a guess.
            assert!(matches!(typed(world, store, &sealed, ada.id, at(seconds)).await, CodeEntry::Found(_)));
            assert_eq!(typed(world, store, &world.rng.bytes(), ada.id, at(seconds)).await, CodeEntry::Wrong);
        }
        let half_an_hour = GUESS_WINDOW.num_seconds();
        for seconds in [10, half_an_hour - 1] {
            assert_eq!(typed(world, store, &sealed, ada.id, at(seconds)).await, CodeEntry::Blocked);
            assert_eq!(typed(world, store, &world.rng.bytes(), ada.id, at(seconds)).await, CodeEntry::Blocked);
        }
        assert!(matches!(typed(world, store, &sealed, bob.id, at(10)).await, CodeEntry::Found(_)));
        // The first guess is no longer counted, so one more is permitted.
        assert!(matches!(typed(world, store, &sealed, ada.id, at(half_an_hour)).await, CodeEntry::Found(_)));
        assert_eq!(typed(world, store, &world.rng.bytes(), ada.id, at(half_an_hour)).await, CodeEntry::Wrong);
        assert_eq!(typed(world, store, &sealed, ada.id, at(half_an_hour)).await, CodeEntry::Blocked);
    }

    async fn guesses_of_agents_and_of_their_person_are_counted_apart(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let (machine, identity, _) = world.machine().await;
        let (code, sealed) = new_code(world, machine, &identity, now());
        start(store, &code, sealed).await;
        let guess = async |sealed: &[u8; 32], by_agent: bool| {
            let guesser = Guesser { person: ada.id, by_agent };
            let id = world.rng.uuid_v7(now());
            store.device_typed(sealed, guesser, id, (GUESSES_MAX, GUESS_WINDOW), now()).await.unwrap()
        };
        for by_agent in [true, false] {
            for _ in 0..GUESSES_MAX {
                assert!(matches!(guess(&sealed, by_agent).await, CodeEntry::Found(_)));
                assert_eq!(guess(&world.rng.bytes(), by_agent).await, CodeEntry::Wrong);
            }
            assert_eq!(guess(&sealed, by_agent).await, CodeEntry::Blocked);
        }
    }

    async fn guesses_at_once_are_counted_exactly(world: &World) {
        let second = world.second().await;
        let ada = world.person("ada@example.com").await;
        let (machine, identity, _) = world.machine().await;
        let (code, sealed) = new_code(world, machine, &identity, now());
        start(&world.store, &code, sealed).await;
        let mut guessing = tokio::task::JoinSet::new();
        for number in 0..21 {
            let store = if number % 2 == 0 { &world.store } else { &second }.clone();
            let typed = if number == 10 { sealed } else { world.rng.bytes() };
            let guess = world.rng.uuid_v7(now());
            guessing.spawn(async move {
                let limit = (GUESSES_MAX, GUESS_WINDOW);
                let guesser = Guesser { person: ada.id, by_agent: false };
                (typed == sealed, store.device_typed(&typed, guesser, guess, limit, now()).await.unwrap())
            });
        }
        let outcomes = guessing.join_all().await;
        let count = |wanted: &CodeEntry| outcomes.iter().filter(|(right, found)| !right && found == wanted).count();
        assert_eq!((count(&CodeEntry::Wrong), count(&CodeEntry::Blocked)), (GUESSES_MAX as usize, 20 - GUESSES_MAX as usize));
        let (_, right) = outcomes.iter().find(|(right, _)| *right).unwrap();
        assert!(matches!(right, CodeEntry::Found(_) | CodeEntry::Blocked), "{right:?}");
        assert_eq!(typed(world, &second, &sealed, ada.id, now()).await, CodeEntry::Blocked);
    }

    async fn settled_codes_are_listed_for_caches(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let [approved, denied, waiting] =
            [code_of_new_computer(world).await, code_of_new_computer(world).await, code_of_new_computer(world).await];
        assert_eq!(store.devices_changed_since(now(), 10).await.unwrap(), [], "nobody remembers what only waits");
        assert!(approve(store, &approved, &ada, at(20)).await.is_ok());
        assert!(store.device_deny(&denied.code, &by(&ada), at(10)).await.unwrap());
        let (newer, sealed) = new_code(world, waiting.machine, &waiting.identity, at(30));
        start(store, &newer, sealed).await;
        let all = [(denied.code, at(10)), (approved.code, at(20)), (waiting.code, at(30))];
        assert_eq!(store.devices_changed_since(now(), 10).await.unwrap(), all);
        assert_eq!(store.devices_changed_since(at(20), 10).await.unwrap(), all[1..]);
        assert_eq!(store.devices_changed_since(at(11), 1).await.unwrap(), all[1..2]);
        assert_eq!(store.devices_changed_since(at(31), 10).await.unwrap(), []);
    }

    async fn codes_and_guesses_are_deleted_after_the_last_request(world: &World) {
        const HOUR: i64 = 60 * 60;
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let (code, waiting) = (code_of_new_computer(world).await, code_of_new_computer(world).await);
        assert!(approve(store, &code, &ada, at(CODE_SECONDS - 1)).await.is_ok());
        assert_eq!(typed(world, store, &world.rng.bytes(), ada.id, now()).await, CodeEntry::Wrong);
        let settings = PurgeSettings { device_codes_kept: Duration::from_hours(24), ..PurgeSettings::default() };
        assert_eq!(store.purge(at(HOUR), &settings).await.unwrap(), Purged::default());
        let purged = store.purge(at(HOUR + 1), &settings).await.unwrap();
        assert_eq!(purged, Purged { device_guesses: 1, ..Purged::default() });
        // Kept while the computer may poll, even though the code no longer counts for the hour.
        assert_eq!(store.purge(at(24 * HOUR + CODE_SECONDS - 1), &settings).await.unwrap().device_codes, 0);
        assert!(matches!(state(store, &code).await, DeviceState::Claimed { .. }));
        assert_eq!(store.purge(at(24 * HOUR + CODE_SECONDS + 1), &settings).await.unwrap().device_codes, 2);
        for code in [&code, &waiting] {
            assert_eq!(store.device_by_code(&code.code).await.unwrap(), None);
        }
        assert!(attached_to(store, code.machine).await.is_some(), "the computer stays attached");
    }

    async fn one_approval_attaches_the_computer_and_claims_its_agent(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let account = ada.account.clone().unwrap();
        let (machine, identity, _) = world.machine().await;
        let agent = world.registered().await;
        let attempt = world.new_attempt(agent.id, now());
        store.attempt_start(&attempt, 10, window(), now()).await.unwrap();
        let (token, account_token) = (world.secret(), world.secret());
        assert!(store.token_issue(&token, agent.id, TokenScope::Events, now(), at(3600)).await.unwrap());
        let (code, sealed) = with_agent(world, machine, &identity, Some(&agent), at(1)).await;

        let CodeEntry::Found(asking) = typed(world, store, &sealed, ada.id, at(2)).await else { panic!("not found") };
        let shown = asking.agent.unwrap();
        assert_eq!((shown.registration, shown.tool, shown.account), (agent.id, Tool::ClaudeCode, None));
        assert_eq!((shown.claim_token, asking.is_attached), (Some(agent.claim_token), false));

        let claimed = Some((agent.id, Tool::ClaudeCode));
        assert_eq!(agree(world, &code, &ada, true, at(3)).await, (Ok(account.clone()), claimed));
        let (registration, newest) = store.registration_by_id(agent.id).await.unwrap().unwrap();
        let claim = registration.claim.unwrap();
        assert_eq!((&claim.account, claim.person, &claim.email, claim.at), (&account, ada.id, &ada.email, at(3)));
        let rights = [AgentRight::Read, AgentRight::ConfirmAgents].into_iter().collect();
        assert_eq!(claim.rights, Some(rights));
        assert!(store.token_issue(&account_token, agent.id, TokenScope::Account, at(4), at(3600)).await.unwrap());
        assert_eq!(store.token_by_hash(&account_token, at(5)).await.unwrap().unwrap().rights, Some(rights));
        assert_eq!(registration.label.unwrap().as_str(), "claude-code on laptop");
        assert_eq!(newest.unwrap().state, AttemptState::Superseded, "the link of the agent ends");
        assert!(store.token_by_hash(&token, at(4)).await.unwrap().is_none(), "tokens from before the claim end");
        assert_eq!(attached_to(store, machine).await.as_ref(), Some(&account));
        assert_eq!(store.registrations_changed_since(at(3), 10).await.unwrap(), [(agent.claim_token, at(3))]);
        // An agent that it confirms has its rights, whatever rights the claim requests; so has the next one.
        let mut confirmer = agent.id;
        for seconds in [4, 5] {
            let confirmed = world.registered().await;
            let attempt = world.new_attempt(confirmed.id, at(seconds));
            store.attempt_start(&attempt, 10, window(), at(seconds)).await.unwrap();
            let claim = Claim { rights: None, ..claim.clone() };
            let via = ConfirmedVia::Agent(confirmer);
            assert!(store.attempt_complete(&attempt.token, &claim, via, None, at(seconds)).await.unwrap());
            let (known, _) = store.registration_by_id(confirmed.id).await.unwrap().unwrap();
            assert_eq!(known.claim.unwrap().rights, Some(rights));
            confirmer = confirmed.id;
        }

        // An attached computer requests another agent with a new code, and keeps its attachment.
        let second = world.registered().await;
        let (code, sealed) = with_agent(world, machine, &identity, Some(&second), at(5)).await;
        let CodeEntry::Found(asking) = typed(world, store, &sealed, ada.id, at(5)).await else { panic!("not found") };
        assert!(asking.is_attached);
        assert_eq!(agree(world, &code, &ada, true, at(6)).await.0, Ok(account.clone()));
        assert!(claim_of(store, second.id).await.is_some());
        assert!(store.registration_revoke(second.id, Some(&account), at(7)).await.unwrap());
        assert_eq!(attached_to(store, machine).await.as_ref(), Some(&account), "the computer outlives its agent");
    }

    async fn an_agent_is_claimed_only_where_the_person_agreed(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let account = ada.account.clone().unwrap();
        let (machine, identity, _) = world.machine().await;
        // The person cleared the checkbox.
        let agent = world.registered().await;
        let (code, _) = with_agent(world, machine, &identity, Some(&agent), at(1)).await;
        assert_eq!(agree(world, &code, &ada, false, at(2)).await, (Ok(account.clone()), None));
        assert_eq!(claim_of(store, agent.id).await, None);
        // Denied, expired, or answered by a person who may not attach the computer.
        let (denied, _) = with_agent(world, machine, &identity, Some(&agent), at(3)).await;
        assert!(store.device_deny(&denied.code, &by(&ada), at(4)).await.unwrap());
        assert_eq!(agree(world, &denied, &ada, true, at(4)).await.0, Err(ApprovalRefusal::CodeConsumed));
        let (late, _) = with_agent(world, machine, &identity, Some(&agent), at(5)).await;
        let end = at(5 + CODE_SECONDS);
        assert_eq!(agree(world, &late, &ada, true, end).await.0, Err(ApprovalRefusal::CodeConsumed));
        let (foreign, _) = with_agent(world, machine, &identity, Some(&agent), end).await;
        let refused = Err(ApprovalRefusal::MachineAlreadyClaimed);
        assert_eq!(agree(world, &foreign, &bob, true, end).await.0, refused);
        assert_eq!(claim_of(store, agent.id).await, None);
        // A code without an agent claims none.
        let (none, _) = with_agent(world, machine, &identity, None, end).await;
        assert_eq!(agree(world, &none, &ada, true, end).await, (Ok(account), None));
    }

    async fn an_agent_that_is_gone_attaches_nothing(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let account = ada.account.clone().unwrap();
        let claimed = world.registered().await;
        let attempt = world.new_attempt(claimed.id, now());
        store.attempt_start(&attempt, 10, window(), now()).await.unwrap();
        let revoked = world.registered().await;
        let deleted = world.new_registration();
        for (agent, seconds) in [(&claimed, 10), (&revoked, 20), (&deleted, 30)] {
            let (machine, identity, _) = world.machine().await;
            let (code, _) = with_agent(world, machine, &identity, Some(agent), at(seconds)).await;
            if agent.id == claimed.id {
                let claim = world.claim_of("eve@example.com").await;
                let request = store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, at(seconds));
                assert!(request.await.unwrap());
            } else if agent.id == revoked.id {
                assert!(store.registration_revoke(agent.id, None, at(seconds)).await.unwrap());
            }
            assert_eq!(agree(world, &code, &ada, true, at(seconds + 1)).await, (Err(ApprovalRefusal::AgentGone), None));
            assert_eq!(attached_to(store, machine).await, None);
            assert_eq!(state(store, &code).await, DeviceState::Pending);
            // Without the agent it is approved.
            assert_eq!(agree(world, &code, &ada, false, at(seconds + 2)).await, (Ok(account.clone()), None));
        }
        let (registration, _) = store.registration_by_id(claimed.id).await.unwrap().unwrap();
        assert_eq!(registration.claim.unwrap().email, email("eve@example.com"), "its first claim stays");
    }

    async fn two_approvals_of_one_agent_claim_it_once(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        for round in 0..8 {
            let agent = world.registered().await;
            let ((one, mine, _), (other, theirs, _)) = (world.machine().await, world.machine().await);
            let (first, _) = with_agent(world, one, &mine, Some(&agent), at(round)).await;
            let (second, _) = with_agent(world, other, &theirs, Some(&agent), at(round)).await;
            let (first, second) = tokio::join!(
                agree(world, &first, &ada, true, at(round)),
                agree(world, &second, &bob, true, at(round))
            );
            let winners: Vec<_> = [(&first, &ada), (&second, &bob)].into_iter().filter(|(done, _)| done.0.is_ok()).collect();
            let [(_, winner)] = winners.as_slice() else { panic!("{first:?} {second:?}") };
            let lost = [&first, &second].into_iter().any(|done| done.0 == Err(ApprovalRefusal::AgentGone));
            assert!(lost, "{first:?} {second:?}");
            assert_eq!(claim_of(store, agent.id).await, winner.account);
        }
    }

    async fn the_key_of_a_computer_is_valid_from_the_approval_to_the_detachment(world: &World) {
        let store = &world.store;
        let ada = world.person("ada@example.com").await;
        let account = ada.account.clone().unwrap();
        let (machine, identity, _) = world.machine().await;
        let wanted = |scopes: &[ApiKeyScope]| WantedKey { hash: world.secret(), scopes: scopes.to_vec() };
        let ask = async |key: &WantedKey, at: Timestamp| {
            let (code, sealed_user_code) = new_code(world, machine, &identity, at);
            let new = NewDeviceCode { code: &code, sealed_user_code, ip_address: None, key: Some(key), agent: None };
            let started = store.device_start(&new, 10, window()).await.unwrap();
            assert!(matches!(started, DeviceStart::Started { .. }));
            let CodeEntry::Found(asking) = typed(world, store, &sealed_user_code, ada.id, at).await else { panic!("not found") };
            assert_eq!(asking.key_scopes.as_ref(), Some(&key.scopes));
            code
        };
        let agree = async |code: &DeviceCode, consent: KeyConsent, keys_max: Option<u32>, at: Timestamp| {
            let grant = keys_max.map(|keys_max| KeyGrant { id: world.rng.uuid_v7(at).into(), keys_max, consent });
            let has_key = std::sync::Mutex::new(None);
            let notice = |attached: &AttachedDevice| {
                *has_key.lock().unwrap() = Some(attached.has_key);
                let mail = OutgoingMail { to: ada.email.clone(), subject: "attached".into(), text: String::new() };
                QueuedMail { id: Rng::system().uuid_v7(at).into(), mail }
            };
            let result = store.device_approve(code, &by(&ada), Agreed { key: grant, ..Agreed::default() }, notice, at, &world.rng).await.unwrap();
            (result, has_key.into_inner().unwrap())
        };

        // Declined by the person: attached without a key.
        let first = wanted(&[ApiKeyScope::Search]);
        let code = ask(&first, at(1)).await;
        assert_eq!(agree(&code, MEMORY, None, at(2)).await, (Ok(account.clone()), Some(false)));
        assert_eq!(store.api_key_by_hash(&first.hash, at(3)).await.unwrap(), None);

        let second = wanted(&[ApiKeyScope::Search, ApiKeyScope::Write]);
        let code = ask(&second, at(4)).await;
        assert_eq!(store.api_key_by_hash(&second.hash, at(4)).await.unwrap(), None, "nobody agreed yet");
        assert_eq!(agree(&code, MEMORY, Some(0), at(5)).await, (Err(ApprovalRefusal::TooManyKeys), None));
        assert_eq!(agree(&code, MEMORY, Some(1), at(5)).await, (Ok(account.clone()), Some(true)));
        let made = store.api_key_by_hash(&second.hash, at(6)).await.unwrap().unwrap();
        assert_eq!((&made.account, made.name.as_str(), &made.scopes), (&account, "laptop", &second.scopes));
        assert_eq!((made.created_at, made.expires_at, made.spaces), (at(5), None, None));

        // The next key replaces it, even if only one key is permitted.
        let third = wanted(&[ApiKeyScope::Search]);
        let code = ask(&third, at(7)).await;
        assert_eq!(agree(&code, MEMORY, Some(1), at(8)).await.1, Some(true));
        assert_eq!(store.api_key_by_hash(&second.hash, at(9)).await.unwrap(), None);
        assert!(store.api_key_by_hash(&third.hash, at(9)).await.unwrap().is_some());
        // A revoked key is not created again with the same hash.
        let code = ask(&second, at(10)).await;
        assert_eq!(agree(&code, MEMORY, Some(5), at(11)).await.1, Some(false));
        assert_eq!(store.api_key_by_hash(&second.hash, at(12)).await.unwrap(), None);

        // Consent to a part of the request is a key with that part.
        let fifth = wanted(&[ApiKeyScope::Search, ApiKeyScope::Account]);
        let code = ask(&fifth, at(12)).await;
        assert_eq!(agree(&code, MEMORY, Some(5), at(12)).await.1, Some(true));
        assert_eq!(store.api_key_by_hash(&fifth.hash, at(12)).await.unwrap().unwrap().scopes, [ApiKeyScope::Search]);
        let sixth = wanted(&[ApiKeyScope::Search]);
        let code = ask(&sixth, at(12)).await;
        let only_account = KeyConsent { memory: false, account: true };
        assert_eq!(agree(&code, only_account, Some(5), at(12)).await.1, Some(false));
        assert_eq!(store.api_key_by_hash(&sixth.hash, at(12)).await.unwrap(), None);

        let fourth = wanted(&[ApiKeyScope::Settings]);
        let code = ask(&fourth, at(13)).await;
        assert_eq!(agree(&code, MEMORY, Some(5), at(14)).await.1, Some(true));
        let own = world.secret();
        let key = ApiKey { id: world.rng.uuid_v7(at(14)).into(), ..store.api_key_by_hash(&fourth.hash, at(14)).await.unwrap().unwrap() };
        assert_eq!(store.api_key_create(&key, &own, 10).await.unwrap(), KeyCreate::Created);
        assert!(store.machine_detach(machine, &account, at(15)).await.unwrap());
        assert_eq!(store.api_key_by_hash(&fourth.hash, at(16)).await.unwrap(), None);
        let ended = store.api_keys_of_account(&account, 10).await.unwrap();
        assert!(ended.iter().any(|key| key.revoked_at == Some(at(15))), "{ended:?}");
        assert!(store.api_key_by_hash(&own, at(16)).await.unwrap().is_some(), "a key that the person made stays");
    }
}
