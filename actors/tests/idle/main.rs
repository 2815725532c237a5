//! Memory cost of an idle actor. A separate binary, because it measures the memory of the process.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the answer")]

use std::time::Duration;

use actors::claim::{Ceremonies, ClaimMessage, ClaimSettings, Claims, ExchangeError, Keyring};
use actors::device::{DeviceCodes, DeviceMessage, DeviceSettings, Poll, Pollers};
use actors::{claim, device, jitter};
use chrono::TimeDelta;
use domain::claim::{Attempt, AttemptState, Registration, RegistrationType};
use domain::device::{DeviceCode, DeviceState};
use domain::secret::SecretHash;
use domain::token::{AssertionKey, KeyState};
use domain::{Clock, Digest, Rng, Timestamp};
use store::{DatabaseSettings, Store, StoreError};
use supervision::{ActorSettings, AskError, Root, RootSettings, TreeExit};

const IDLE: u64 = 25_000;

/// Actors started before the measurement, so that threads, caches and pools of the process exist.
const WARM: u64 = 1_000;

const DEADLINE: Duration = Duration::from_secs(30);

fn beginning() -> Timestamp {
    Timestamp::from_timestamp_millis(1_767_225_600_000).unwrap()
}

fn key(number: u64) -> SecretHash {
    Digest::of(&number.to_le_bytes()).into()
}

/// Resident memory of this process in bytes; `None` where `/proc` is missing.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok().map(|kib: u64| kib * 1024)
}

async fn poll_device(pollers: &Pollers, rng: &Rng, number: u64) {
    let load = async || {
        Ok::<_, AskError<StoreError>>(Some(DeviceCode {
            code: key(number),
            machine: rng.uuid_v7(beginning()).into(),
            identity: rng.cuid2().parse().unwrap(),
            created_at: beginning(),
            expires_at: beginning() + TimeDelta::minutes(30),
            state: DeviceState::Pending,
        }))
    };
    let response = pollers.ask(&key(number), load, |reply| DeviceMessage::Poll { reply }, DEADLINE).await;
    assert_eq!(response.unwrap().unwrap(), Poll::Pending);
}

async fn poll_claim(ceremonies: &Ceremonies, rng: &Rng, number: u64) {
    let load = async || {
        let registration = Registration {
            id: rng.uuid_v7(beginning()).into(),
            registration_type: RegistrationType::ServiceAuth,
            login_hint: Some(format!("person{number}@example.com").parse().unwrap()),
            claim_token: key(number),
            claim_token_expires: beginning() + TimeDelta::hours(24),
            created_at: beginning(),
            ip_address: Some("192.0.2.1".into()),
            last_token_at: None,
            label: None,
            claim: None,
            revoked_at: None,
        };
        let attempt = Attempt {
            token: key(!number),
            registration: registration.id,
            sealed_code: rng.bytes(),
            email: registration.login_hint.clone(),
            expires_at: beginning() + TimeDelta::minutes(30),
            wrong_tries: 0,
            state: AttemptState::Live,
        };
        Ok::<_, AskError<StoreError>>(Some((registration, Some(attempt))))
    };
    let response = ceremonies.ask(&key(number), load, |reply| ClaimMessage::ExchangeClaim { reply }, DEADLINE).await;
    assert_eq!(response.unwrap().unwrap().unwrap_err(), ExchangeError::Pending);
}

/// Bytes that each of the [`IDLE`] actors adds to the process.
async fn bytes_each(poll: impl AsyncFn(u64)) -> Option<u64> {
    for number in 0..WARM {
        poll(number).await;
    }
    let baseline = resident()?;
    for number in WARM..WARM + IDLE {
        poll(number).await;
    }
    Some(resident()?.saturating_sub(baseline) / IDLE)
}

#[tokio::test]
async fn an_idle_actor_costs_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&DatabaseSettings::default(), &folder.path().join("attache.db")).await.unwrap();
    store.migrate().await.unwrap();
    let (rng, clock) = (Rng::seeded(1), Clock::from_fn(beginning));
    let codes = store.code_key(&rng).await.unwrap();
    let signing = AssertionKey { state: KeyState::Active, ..AssertionKey::draw(&rng, beginning()) };
    let base_url = "http://attache.test".to_owned();
    // The actors must not be passivated during the test.
    let settings =
        ActorSettings { live_max: 1_000_000, idle_after: Duration::from_hours(1), ..ActorSettings::default() };
    let devices = DeviceCodes::new(
        device::Dependencies {
            store: store.clone(),
            clock: clock.clone(),
            rng: rng.clone(),
            codes: codes.clone(),
            settings: DeviceSettings::default(),
            keys_per_account_max: 100,
            base_url: base_url.clone(),
        },
        &settings,
    );
    let claims = Claims::new(
        claim::Dependencies {
            store,
            clock,
            rng: rng.clone(),
            codes,
            keyring: Keyring::new(base_url.clone(), &[signing]).unwrap(),
            settings: ClaimSettings::default(),
            base_url,
        },
        &settings,
    );
    let (pollers, ceremonies) = (devices.pollers(), claims.ceremonies());
    let children = vec![pollers.child(devices.prototype()), ceremonies.child(claims.prototype())];
    let root = Root::start(RootSettings::default(), jitter(&rng), children).await.unwrap();
    root.up().await.unwrap();

    let each_code = bytes_each(async |number| poll_device(pollers, &rng, number).await).await;
    let each_claim = bytes_each(async |number| poll_claim(ceremonies, &rng, number).await).await;
    let living = WARM + IDLE;
    let tree = root.tree(DEADLINE).await.unwrap();
    assert_eq!(tree.children.iter().map(|family| family.live).collect::<Vec<_>>(), [living, living]);
    match (each_code, each_claim) {
        (Some(each_code), Some(each_claim)) => {
            println!("{each_code} bytes for each device code, {each_claim} for each claim");
            assert!(each_code <= 1024, "{each_code} bytes for each device code");
            assert!(each_claim <= 1536, "{each_claim} bytes for each claim");
        }
        _ => eprintln!("SKIPPED: without /proc/self/status memory is not measured"),
    }
    assert_eq!(root.drain(DEADLINE).await, TreeExit::Drained);
}
