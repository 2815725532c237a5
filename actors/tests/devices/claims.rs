//! A claim that an agent polls, under paused time: its ceremony finds changes without a hint.

use std::time::Duration;

use actors::claim::{Ceremonies, ClaimSettings, Claims, Dependencies, ExchangeError, Keyring};
use actors::jitter;
use domain::token::{AssertionKey, KeyState};
use domain::{Clock, Rng};
use store::{DatabaseSettings, Store};
use supervision::{ActorSettings, Root, RootSettings, TreeExit};

use crate::node::beginning;
use crate::pacing::standing_still;

#[tokio::test]
async fn a_change_without_a_notification_is_read_within_half_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&DatabaseSettings::default(), &folder.path().join("attache.db")).await.unwrap();
    store.migrate().await.unwrap();
    let (rng, clock) = (Rng::seeded(1), Clock::from_fn(beginning));
    let key = AssertionKey { state: KeyState::Active, ..AssertionKey::draw(&rng, beginning()) };
    let dependencies = Dependencies {
        store: store.clone(),
        clock,
        rng: rng.clone(),
        codes: store.code_key(&rng).await.unwrap(),
        keyring: Keyring::new("http://attache.test".into(), &[key]).unwrap(),
        settings: ClaimSettings::default(),
        base_url: "http://attache.test".into(),
    };
    let settings = ActorSettings { idle_after: Duration::from_mins(2), ..ActorSettings::default() };
    let claims = Claims::new(dependencies, &settings);
    let ceremonies: &Ceremonies = claims.ceremonies();
    let children = vec![ceremonies.child(claims.prototype())];
    let root = Root::start(RootSettings::default(), jitter(&rng), children).await.unwrap();
    root.up().await.unwrap();
    let registered = claims.register(Some("ada@example.com".parse().unwrap()), None).await.unwrap();
    let poll = async || claims.exchange_claim(&registered.claim_token).await.unwrap().unwrap_err();
    assert_eq!(poll().await, ExchangeError::Pending);
    assert!(store.registration_revoke(registered.id, None, beginning()).await.unwrap());

    tokio::time::pause();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(standing_still(poll()).await, ExchangeError::Pending);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(standing_still(poll()).await, ExchangeError::Invalid);
    tokio::time::resume();
    assert_eq!(root.drain(Duration::from_secs(10)).await, TreeExit::Drained);
}
