//! Spaces and their members.

use domain::ids::{SpaceId, UserAccountId};
use domain::space::{AccessType, SpaceName};
use store::space::{SpaceChange, SpaceCreate};
use tokio::task::JoinSet;

use crate::memories::Draft;
use crate::world::{World, at, now};
use harness::on_each_database;

fn name(text: &str) -> SpaceName {
    text.parse().unwrap()
}

fn new_id(world: &World) -> SpaceId {
    world.rng.uuid_v7(now()).into()
}

async fn space(world: &World, owner: &UserAccountId, title: &str, is_public: bool) -> SpaceId {
    let id = new_id(world);
    let made = world.store.space_create(id, owner, &name(title), is_public, 100, now()).await.unwrap();
    assert_eq!(made, SpaceCreate::Created);
    id
}

on_each_database! {
    async fn a_space_is_seen_by_whom_it_lets_in(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (private, public) = (space(world, &ada, "Trips", false).await, space(world, &ada, "Recipes", true).await);
        let readable = store.spaces_readable(&[private, public], &bob).await.unwrap();
        assert_eq!(readable.iter().map(|space| (space.id, space.access)).collect::<Vec<_>>(), [(public, AccessType::Read)]);
        assert_eq!(store.spaces_of_account(&bob, 10).await.unwrap(), []);

        assert!(!store.space_share(private, &bob, &bob, Some(AccessType::Edit)).await.unwrap());
        assert!(!store.space_share(private, &ada, &ada, None).await.unwrap());
        assert!(!store.space_share(private, &ada, &bob, Some(AccessType::Owner)).await.unwrap());
        assert!(store.space_share(private, &ada, &bob, Some(AccessType::Edit)).await.unwrap());
        let readable = &store.spaces_of_account(&bob, 10).await.unwrap()[0];
        assert_eq!((readable.id, readable.access, &readable.owner), (private, AccessType::Edit, &ada));
        assert!(store.space_share(private, &ada, &bob, Some(AccessType::Read)).await.unwrap());
        assert_eq!(store.spaces_readable(&[private], &bob).await.unwrap()[0].access, AccessType::Read);
        assert!(store.space_share(private, &ada, &bob, None).await.unwrap());
        assert!(!store.space_share(private, &ada, &bob, None).await.unwrap());
        assert_eq!(store.spaces_readable(&[private], &bob).await.unwrap(), []);
        assert_eq!(store.spaces_readable(&[], &bob).await.unwrap(), []);
    }

    async fn a_space_is_changed_by_its_owner_and_marked_by_its_members(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let id = space(world, &ada, "Trips", false).await;
        let renamed = SpaceChange { name: Some(name("Journeys")), is_public: None };
        assert!(!store.space_change(id, &bob, &renamed).await.unwrap());
        assert!(store.space_change(id, &ada, &renamed).await.unwrap());
        let opened = SpaceChange { name: None, is_public: Some(true) };
        assert!(store.space_change(id, &ada, &opened).await.unwrap());
        assert!(!store.space_favor(id, &bob, true).await.unwrap());
        assert!(store.space_favor(id, &ada, true).await.unwrap());
        let space = store.spaces_of_account(&ada, 10).await.unwrap().remove(0);
        assert_eq!((space.name.as_str(), space.is_public, space.is_favorite), ("Journeys", true, true));
        assert!(store.spaces_readable(&[id], &bob).await.unwrap()[0].name.as_str() == "Journeys");
    }

    async fn a_memory_is_seen_where_a_space_is_public(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let (private, public) = (space(world, &ada, "Trips", false).await, space(world, &ada, "Recipes", true).await);
        let mut draft = Draft::new(world, &ada, "page", &["text"]);
        draft.spaces = vec![private];
        let hidden = draft.id;
        draft.put(store, 9).await;
        assert_eq!(store.spaces_public_of(hidden).await.unwrap(), []);
        draft.spaces = vec![public];
        draft.put(store, 9).await;
        assert_eq!(store.spaces_public_of(hidden).await.unwrap(), [public]);
    }

    async fn an_account_has_one_default_space_and_it_comes_first(world: &World) {
        let ada = world.account("ada@example.com").await;
        let second = world.second().await;
        let mut asking = JoinSet::new();
        for round in 0..8 {
            let (store, ada) = (if round % 2 == 0 { &world.store } else { &second }.clone(), ada.clone());
            let id = new_id(world);
            asking.spawn(async move { store.space_default(id, &ada, now()).await.unwrap() });
        }
        let mut ids = asking.join_all().await;
        ids.dedup();
        assert_eq!(ids.len(), 1);
        let newer = new_id(world);
        world.store.space_create(newer, &ada, &name("Newer"), false, 100, at(5)).await.unwrap();
        let spaces = world.store.spaces_of_account(&ada, 10).await.unwrap();
        assert_eq!(spaces.iter().map(|space| (space.id, space.is_default)).collect::<Vec<_>>(), [(ids[0], true), (newer, false)]);
    }

    async fn an_account_has_spaces_up_to_its_limit(world: &World) {
        let ada = world.account("ada@example.com").await;
        // The default space is not counted.
        world.store.space_default(new_id(world), &ada, now()).await.unwrap();
        let mut making = JoinSet::new();
        for _ in 0..8 {
            let (store, ada, id) = (world.store.clone(), ada.clone(), new_id(world));
            making.spawn(async move { store.space_create(id, &ada, &name("One"), false, 3, now()).await.unwrap() });
        }
        let made = making.join_all().await.into_iter().filter(|made| *made == SpaceCreate::Created).count();
        assert_eq!(made, 3);
    }
}
