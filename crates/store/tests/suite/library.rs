//! Operations on memories: list, edit, tag, move, import, and delete a space.

use domain::Digest;
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::memory::{MemoryType, Tag};
use domain::space::AccessType;
use domain::usage::Plan;
use futures_util::future::join_all;
use store::Store;
use store::memory::{
    ChunkPut, Edit, Memory, MemoryEdit, MemoryFilter, MemoryPut, MemoryScope, MemoryUsage, Moved, Put, Restored,
    TextEdit,
};

use crate::memories::{Draft, memory_quota, model, space};
use crate::world::{World, at, now};
use harness::on_each_vector_index;

fn tags(texts: &[&str]) -> Vec<Tag> {
    domain::memory::sorted_tags(texts.iter().map(|text| text.parse().unwrap()))
}

async fn read(store: &Store, id: MemoryId, account: &UserAccountId) -> Memory {
    store.memory_by_id(id, &MemoryScope::Account(account.clone())).await.unwrap().unwrap()
}

async fn tag(store: &Store, id: MemoryId, account: &UserAccountId, texts: &[&str]) {
    let (seen, tags) = (read(store, id, account).await.changed, tags(texts));
    let edit = MemoryEdit {
        id,
        account,
        seen,
        text: None,
        tags: Some(&tags),
        spaces: None,
        key_spaces: None,
        quota: memory_quota(9),
    };
    assert_eq!(store.memory_edit(&edit, at(9)).await.unwrap(), Edit::Done);
}

on_each_vector_index! {
    async fn the_size_of_an_account_is_that_of_its_memories_and_has_a_limit(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let size = async || store.memory_usage(&ada).await.unwrap();
        let overhead = "A title".len() + "https://example.com/".len();
        let of = |memories: u64, bytes: usize| MemoryUsage { memories, bytes: (bytes + overhead * usize::try_from(memories).unwrap()) as u64 };
        let draft = Draft::new(world, &ada, "one", &["häfen"]);
        draft.put(store, 9).await;
        assert_eq!(size().await, of(1, 6), "bytes of UTF-8");
        let longer = Draft::new(world, &ada, "one", &["harbour", "lighthouse"]);
        assert_eq!(longer.put(store, 9).await, Put::Updated(draft.id));
        assert_eq!(size().await, of(1, 18));
        assert_eq!(longer.put(store, 9).await, Put::Existing(draft.id));
        assert_eq!(size().await, of(1, 18));

        let huge = "x".repeat(99_990);
        let large = Draft::new(world, &ada, "large", &[&huge]);
        assert_eq!(large.put(store, 9).await, Put::QuotaExceeded);
        assert_eq!(size().await, of(1, 18), "nothing is left of it");
        let fits = Draft::new(world, &ada, "large", &[&huge[..99_000]]);
        assert_eq!(fits.put(store, 9).await, Put::Created(fits.id));
        assert_eq!(large.put(store, 9).await, Put::QuotaExceeded, "nor may it grow");
        store.account_plan_set(&ada, Plan::Max, now()).await.unwrap();
        assert_eq!(large.put(store, 9).await, Put::Updated(fits.id));
        assert_eq!(size().await, of(2, 100_008));
        // A smaller plan deletes nothing, and a memory may still get smaller.
        store.account_plan_set(&ada, Plan::Free, now()).await.unwrap();
        assert_eq!(fits.put(store, 9).await, Put::Updated(fits.id));

        let edit = async |title: &str, content: Option<&str>| {
            let seen = read(store, draft.id, &ada).await.changed;
            let content = content.map(|content| (content, Digest::of(b"edited")));
            let text = Some(TextEdit { title, content, chunks: &[], model: None });
            let edit = MemoryEdit { id: draft.id, account: &ada, seen, text, tags: None, spaces: None, key_spaces: None, quota: memory_quota(9) };
            store.memory_edit(&edit, now()).await.unwrap()
        };
        assert_eq!(edit("A title that is longer", None).await, Edit::Done);
        assert_eq!(size().await, of(2, 99_018 + 15));
        assert_eq!(edit("A title", Some(&huge[..2_000])).await, Edit::QuotaExceeded);
        assert_eq!(edit("A title", Some("short")).await, Edit::Done);
        assert_eq!(size().await, of(2, 99_005));
        assert!(store.memory_delete(fits.id, &ada).await.unwrap());
        assert_eq!(size().await, of(1, 5));
    }

    async fn a_list_has_the_newest_first_and_each_filter_narrows_it(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (red, blue) = (space(world, &ada).await, space(world, &ada).await);
        let mut ids = Vec::new();
        for (round, key) in ["0", "1", "2", "3"].into_iter().enumerate() {
            let mut draft = Draft::new(world, &ada, key, &["text"]);
            draft.id = world.rng.uuid_v7(at(i64::try_from(round).unwrap())).into();
            draft.spaces = if round < 2 { vec![red] } else { vec![red, blue] };
            draft.put(store, 9).await;
            ids.push(draft.id);
        }
        Draft::new(world, &bob, "0", &["text"]).put(store, 9).await;
        tag(store, ids[0], &ada, &["boats", "sea"]).await;
        tag(store, ids[3], &ada, &["sea"]).await;
        let listed = async |scope: MemoryScope, filter: MemoryFilter, rows_max| {
            let listed = store.memories_listed(&scope, &filter, rows_max, 2).await.unwrap();
            assert!(listed.iter().all(|memory| memory.content == "te"));
            listed.into_iter().map(|memory| memory.id).collect::<Vec<_>>()
        };
        let account = || MemoryScope::Account(ada.clone());
        let spaces = |spaces: &[SpaceId]| MemoryScope::Spaces(spaces.to_vec());
        let all = MemoryFilter::default;
        assert_eq!(listed(account(), all(), 9).await, [ids[3], ids[2], ids[1], ids[0]]);
        assert_eq!(listed(account(), MemoryFilter { before: Some(ids[2]), ..all() }, 1).await, [ids[1]]);
        assert_eq!(listed(account(), MemoryFilter { from: Some(ids[2]), ..all() }, 9).await, [ids[3], ids[2]]);
        assert_eq!(listed(spaces(&[red, blue]), all(), 3).await, [ids[3], ids[2], ids[1]], "each is listed once");
        assert_eq!(listed(spaces(&[blue]), all(), 9).await, [ids[3], ids[2]]);
        let sea = || MemoryFilter { tag: Some("sea".parse().unwrap()), ..all() };
        assert_eq!(listed(account(), sea(), 9).await, [ids[3], ids[0]]);
        assert_eq!(listed(spaces(&[blue]), sea(), 9).await, [ids[3]]);
        let notes = MemoryFilter { kind: Some(MemoryType::Note), ..all() };
        assert_eq!(listed(account(), notes.clone(), 9).await, []);
        assert_eq!(listed(spaces(&[red]), notes, 9).await, []);
        assert_eq!(listed(spaces(&[red]), MemoryFilter { kind: Some(MemoryType::Page), ..sea() }, 9).await, [ids[3], ids[0]]);
        assert_eq!(store.tags_of_account(&ada, 9).await.unwrap(), [("sea".parse().unwrap(), 2), ("boats".parse().unwrap(), 1)]);
        assert_eq!(store.tags_of_account(&bob, 9).await.unwrap(), []);
        assert!(store.memory_delete(ids[0], &ada).await.unwrap());
        assert_eq!(store.tags_of_account(&ada, 9).await.unwrap(), [("sea".parse().unwrap(), 1)]);
    }

    async fn an_edit_changes_named_members_and_the_search_index(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (red, blue) = (space(world, &ada).await, space(world, &ada).await);
        let mut draft = Draft::new(world, &ada, "page", &["first", "second"]);
        draft.vectors = vec![vec![1.0, 0.0, 0.0, 0.0]; 2];
        draft.spaces = vec![red];
        draft.put(store, 9).await;
        let id = draft.id;
        let before = read(store, id, &ada).await;
        let nothing = MemoryEdit { id, account: &ada, seen: before.changed, text: None, tags: None, spaces: None, key_spaces: None, quota: memory_quota(9) };
        let of_bob = MemoryEdit { account: &bob, ..nothing.clone() };
        assert_eq!(store.memory_edit(&of_bob, at(1)).await.unwrap(), Edit::NotThere);
        Draft::new(world, &bob, "other", &["text"]).put(store, 9).await;
        assert_eq!(store.memory_edit(&of_bob, at(1)).await.unwrap(), Edit::NotThere);

        // The title: its words find the memory, and adding the same page again keeps it.
        let chunks: Vec<ChunkPut<'_>> = draft.texts.iter().map(|text| ChunkPut { content: text, vector: None }).collect();
        let text = TextEdit { title: "Harbour", content: None, chunks: &chunks, model: None };
        let titled = MemoryEdit { text: Some(text), ..nothing.clone() };
        assert_eq!(store.memory_edit(&titled, at(1)).await.unwrap(), Edit::Done);
        assert_eq!(store.memory_edit(&titled, at(2)).await.unwrap(), Edit::Stale);
        let edited = read(store, id, &ada).await;
        assert_eq!((edited.title.as_str(), edited.updated_at, edited.created_at), ("Harbour", at(1), before.created_at));
        assert_eq!((&edited.content, &edited.spaces), (&before.content, &before.spaces));
        let account_index = store.account_indexes_in(&MemoryScope::Account(ada.clone()), 1).await.unwrap()[0];
        assert_eq!((account_index.chunks, account_index.words), (2, 2 * (3 + 1)));
        let waiting = store.chunks_to_embed(&model(), 9).await.unwrap();
        assert!(waiting.iter().filter(|waiting| waiting.title == "Harbour").count() == 2, "chunks without a vector get one later");
        assert_eq!(draft.put(store, 9).await, Put::Existing(id));
        assert_eq!(read(store, id, &ada).await.title, "Harbour");

        // Changing only spaces does not change the time of the last change.
        let (seen, both) = (read(store, id, &ada).await.changed, [blue]);
        let moved = MemoryEdit { seen, spaces: Some(&both), ..nothing.clone() };
        assert_eq!(store.memory_edit(&moved, at(3)).await.unwrap(), Edit::Done);
        let edited = read(store, id, &ada).await;
        assert_eq!((edited.spaces, edited.updated_at), (vec![blue], at(1)));
        assert_eq!((store.memories_in_space(red).await.unwrap(), store.memories_in_space(blue).await.unwrap()), (0, 1));
        assert_eq!(store.memories_linked(blue, 9).await.unwrap(), [(id, ada.clone())]);

        // Tags, twice.
        tag(store, id, &ada, &["b", "a"]).await;
        tag(store, id, &ada, &["c", "a"]).await;
        assert_eq!(read(store, id, &ada).await.tags, tags(&["a", "c"]));

        // The text: the same as that of another memory is refused.
        let other = Draft::new(world, &ada, "other", &["other"]);
        other.put(store, 9).await;
        let seen = read(store, id, &ada).await.changed;
        let chunks = [ChunkPut { content: "new words", vector: None }];
        let with = |dedupe: &str| TextEdit { title: "Harbour", content: Some(("new words", Digest::of(dedupe.as_bytes()))), chunks: &chunks, model: None };
        let edit = |dedupe| MemoryEdit { seen, text: Some(with(dedupe)), ..nothing.clone() };
        assert_eq!(store.memory_edit(&edit("other"), at(5)).await.unwrap(), Edit::Duplicate(other.id));
        assert_eq!(store.memory_edit(&edit("new"), at(5)).await.unwrap(), Edit::Done);
        let edited = read(store, id, &ada).await;
        assert_eq!((edited.content.as_str(), edited.tags), ("new words", tags(&["a", "c"])));
        draft.id = world.rng.uuid_v7(at(6)).into();
        assert!(matches!(draft.put(store, 9).await, Put::Created(_)), "the old text is another memory now");
    }

    async fn an_import_restores_missing_memories_and_leaves_others(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let red = space(world, &ada).await;
        let (id, words) = (world.rng.uuid_v7(at(1)).into(), tags(&["kept"]));
        let import = async |account: &UserAccountId, id: MemoryId, key: &str, title: &str, spaces: &[SpaceId]| {
            let chunks = [ChunkPut { content: "text", vector: None }];
            let put = MemoryPut {
                id, account, kind: MemoryType::Note, title, url: None, content: "text", dedupe: Digest::of(key.as_bytes()),
                chunks: &chunks, model: None, spaces, key_spaces: None, quota: memory_quota(9),
            };
            let restored = Restored { created_at: at(1), updated_at: at(2), tags: &words, other_id: world.rng.uuid_v7(at(1)).into() };
            store.memory_import(&put, &restored).await.unwrap()
        };
        assert_eq!(import(&ada, id, "one", "A", &[]).await, Put::Created(id));
        let first = read(store, id, &ada).await;
        assert_eq!((first.created_at, first.updated_at, &first.tags), (at(1), at(2), &words));
        // Imported again with another text or title: it stays unchanged and is linked to the new space.
        assert_eq!(import(&ada, id, "one", "B", &[red]).await, Put::Existing(id));
        assert_eq!(import(&ada, id, "two", "B", &[red]).await, Put::Existing(id));
        let again = read(store, id, &ada).await;
        assert_eq!(again, Memory { spaces: vec![red], changed: again.changed, ..first });
        // The id of another account's memory is not used twice.
        let Put::Created(other) = import(&bob, id, "one", "A", &[]).await else { panic!("not created") };
        assert_ne!(other, id);
        assert_eq!(read(store, other, &bob).await.tags, words);
    }

    async fn a_space_that_is_deleted_while_memories_are_added_refuses_none(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let home = store.space_default(world.rng.uuid_v7(now()).into(), &ada, now()).await.unwrap();
        for _ in 0..6 {
            let lost = space(world, &ada).await;
            let draft = |key| Draft { spaces: vec![lost], ..Draft::new(world, &ada, key, &["a harbour"]) };
            let drafts = ["one", "two", "three", "four"].map(draft);
            let adding = join_all(drafts.iter().map(|draft| draft.try_put(store, 9)));
            let deleting = async {
                loop {
                    for (memory, account) in store.memories_linked(lost, 9).await.unwrap() {
                        store.memory_move(memory, &account, lost, home).await.unwrap();
                    }
                    if store.space_delete(lost, &ada).await.unwrap() {
                        return;
                    }
                }
            };
            let (added, ()) = tokio::join!(adding, deleting);
            for put in added {
                assert!(!matches!(put.unwrap(), Put::QuotaExceeded));
            }
        }
        assert_eq!(store.memories_kept(&ada).await.unwrap(), 4);
        crate::memory_database::moved_home(world, store).await;
        let listed = store.memories_of(&MemoryScope::Account(ada.clone()), None, 9, 0).await.unwrap();
        assert!(listed.iter().all(|memory| memory.spaces == [home]), "{listed:?}");
        assert_eq!(store.memories_in_space(home).await.unwrap(), 4);
    }

    async fn a_space_is_deleted_when_it_is_empty(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (doomed, other) = (space(world, &ada).await, space(world, &ada).await);
        let home = store.space_default(world.rng.uuid_v7(now()).into(), &ada, now()).await.unwrap();
        let mut only = Draft::new(world, &ada, "only", &["text"]);
        only.spaces = vec![doomed];
        let mut both = Draft::new(world, &ada, "both", &["text"]);
        both.spaces = vec![doomed, other];
        for draft in [&only, &both] {
            draft.put(store, 9).await;
        }
        assert!(!store.space_delete(doomed, &ada).await.unwrap(), "it has memories");
        for (memory, account, moved) in [
            (only.id, &bob, Moved::NotThere),
            (only.id, &ada, Moved::Home),
            (only.id, &ada, Moved::NotThere),
            (both.id, &ada, Moved::Elsewhere),
        ] {
            assert_eq!(store.memory_move(memory, account, doomed, home).await.unwrap(), moved);
        }
        assert_eq!(read(store, only.id, &ada).await.spaces, [home]);
        assert_eq!(read(store, both.id, &ada).await.spaces, [other]);
        let counts = async |space| store.memories_in_space(space).await.unwrap();
        assert_eq!((counts(doomed).await, counts(home).await, counts(other).await), (0, 1, 1));
        assert!(store.memory_by_id(only.id, &MemoryScope::Spaces(vec![home])).await.unwrap().is_some());
        assert!(store.space_share(doomed, &ada, &bob, Some(AccessType::Edit)).await.unwrap());
        assert!(!store.space_delete(doomed, &bob).await.unwrap(), "it is not theirs");
        assert!(!store.space_delete(home, &ada).await.unwrap(), "the default space stays");
        assert!(store.space_delete(doomed, &ada).await.unwrap());
        assert!(!store.space_delete(doomed, &ada).await.unwrap());

        // If the spaces of a batch item are deleted, the item goes to the default space, if the sender's key covers it.
        let mut late = Draft::new(world, &ada, "late", &["text"]);
        late.spaces = vec![doomed];
        assert_eq!(late.put(store, 9).await, Put::Created(late.id));
        assert_eq!(read(store, late.id, &ada).await.spaces, [home]);
        let mut limited = Draft::new(world, &ada, "limited", &["text"]);
        (limited.spaces, limited.key_spaces) = (vec![doomed], Some(vec![doomed]));
        assert_eq!(limited.put(store, 9).await, Put::Created(limited.id));
        assert_eq!(read(store, limited.id, &ada).await.spaces, []);
    }
}
