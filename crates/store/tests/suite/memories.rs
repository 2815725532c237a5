//! Pages and notes.

use domain::Digest;
use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::memory::{MemoryType, ModelId};
use domain::usage::{ByPlan, Plan};
use store::memory::{ChunkPut, MemoryPut, MemoryQuota, MemoryScope, Put, Unlink};
use store::pool::query;
use store::{Store, StoreError};

use crate::world::{World, at, now};
use harness::on_each_vector_index;

/// A memory with one chunk per text.
pub struct Draft {
    pub id: MemoryId,
    pub account: UserAccountId,
    pub title: &'static str,
    pub texts: Vec<String>,
    pub vectors: Vec<Vec<f32>>,
    pub spaces: Vec<SpaceId>,
    pub key: &'static str,
    /// The spaces that the sender's key covers.
    pub key_spaces: Option<Vec<SpaceId>>,
}

impl Draft {
    pub fn new(world: &World, account: &UserAccountId, key: &'static str, texts: &[&str]) -> Self {
        Self {
            id: world.rng.uuid_v7(now()).into(),
            account: account.clone(),
            title: "A title",
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            vectors: Vec::new(),
            spaces: Vec::new(),
            key,
            key_spaces: None,
        }
    }

    pub async fn put(&self, store: &Store, memories_max: u32) -> Put {
        self.try_put(store, memories_max).await.unwrap()
    }

    pub async fn try_put(&self, store: &Store, memories_max: u32) -> Result<Put, StoreError> {
        let chunks: Vec<ChunkPut<'_>> = self
            .texts
            .iter()
            .enumerate()
            .map(|(at, text)| ChunkPut { content: text, vector: self.vectors.get(at).map(Vec::as_slice) })
            .collect();
        let model = model();
        let content = self.texts.join("\n");
        let put = MemoryPut {
            id: self.id,
            account: &self.account,
            kind: MemoryType::Page,
            title: self.title,
            url: Some("https://example.com/"),
            content: &content,
            dedupe: Digest::of(self.key.as_bytes()),
            chunks: &chunks,
            model: (!self.vectors.is_empty()).then_some(&model),
            spaces: &self.spaces,
            key_spaces: self.key_spaces.as_deref(),
            quota: memory_quota(memories_max),
        };
        store.memory_put(&put, now()).await
    }
}

/// This number of memories, with a total of [`BYTES_MAX`] bytes on the plan FREE.
pub fn memory_quota(memories_max: u32) -> MemoryQuota {
    MemoryQuota { memories_max, bytes_max: ByPlan::new(|plan| if plan == Plan::Free { BYTES_MAX } else { 0 }) }
}

/// More than the memories of any other test have.
const BYTES_MAX: u64 = 100_000;

pub fn model() -> ModelId {
    ModelId { name: "small".into(), dimensions: 4 }
}

/// A space, created with `store::space`.
pub async fn space(world: &World, account: &UserAccountId) -> SpaceId {
    const SQL: &str = "INSERT INTO spaces (id, account_id, name, is_public, is_default, created_at)
        VALUES ($1, $2, 'space', $3, $3, $4)";
    let id = world.rng.uuid_v7(now());
    let add = query(SQL).bind(id).bind(account.as_str()).bind(false).bind(now());
    add.execute(world.store.pool().writer()).await.unwrap();
    id.into()
}

/// Rows that a deleted memory must not leave behind.
async fn rows_left(world: &World) -> i64 {
    const SQL: &str =
        "SELECT (SELECT COUNT(*) FROM chunks) + (SELECT COUNT(*) FROM vectors) + (SELECT COUNT(*) FROM words)
        + (SELECT COUNT(*) FROM memory_spaces) + (SELECT COUNT(*) FROM space_chunks) + (SELECT COUNT(*) FROM memories)";
    store::pool::scalar(SQL).fetch_one(world.memory()).await.unwrap()
}

on_each_vector_index! {
    async fn a_memory_is_new_known_or_changed_and_keeps_its_id(world: &World) {
        let store = &world.store;
        let ada = world.account("ada@example.com").await;
        let (red, blue) = (space(world, &ada).await, space(world, &ada).await);
        let mut draft = Draft::new(world, &ada, "page", &["first\0", "second"]);
        draft.spaces = vec![red];
        let id = draft.id;
        assert_eq!(draft.put(store, 9).await, Put::Created(id));
        assert_eq!(draft.put(store, 9).await, Put::Existing(id));
        draft.id = world.rng.uuid_v7(at(1)).into();
        draft.spaces = vec![blue, red];
        assert_eq!(draft.put(store, 9).await, Put::Existing(id));
        let scope = MemoryScope::Account(ada.clone());
        let memory = store.memory_by_id(id, &scope).await.unwrap().unwrap();
        assert_eq!((memory.kind, memory.title.as_str()), (MemoryType::Page, "A title"));
        assert_eq!((memory.url.as_deref(), memory.content.as_str()), (Some("https://example.com/"), "first\u{fffd}\nsecond"));
        assert_eq!((memory.spaces, memory.account), (vec![red, blue], ada.clone()));
        draft.texts.push("third".into());
        assert_eq!(draft.put(store, 9).await, Put::Updated(id));
        let memories = store.memories_by_id(&[id], &scope, 5).await.unwrap();
        assert_eq!(memories[0].content, "first", "no more than asked for");
        let account_index = store.account_indexes_in(&scope, 1).await.unwrap()[0];
        // Two words of the title count three times, including "a".
        assert_eq!((account_index.chunks, account_index.words), (3, 3 * (2 * 3 + 1)));
        assert_eq!(store.memories_kept(&ada).await.unwrap(), 1);
    }

    async fn of_many_puts_at_once_one_makes_the_memory(world: &World) {
        let ada = world.account("ada@example.com").await;
        let second = world.second().await;
        let spaces = [space(world, &ada).await, space(world, &ada).await];
        let mut putting = tokio::task::JoinSet::new();
        for round in 0..8 {
            let store = if round % 2 == 0 { &world.store } else { &second }.clone();
            let mut draft = Draft::new(world, &ada, "page", if round < 4 { &["text"] } else { &["other text"] });
            draft.spaces = vec![spaces[round % 2]];
            putting.spawn(async move { draft.put(&store, 9).await });
        }
        let outcomes = putting.join_all().await;
        assert_eq!(outcomes.iter().filter(|put| matches!(put, Put::Created(_))).count(), 1);
        let ids: std::collections::BTreeSet<MemoryId> = outcomes
            .iter()
            .map(|put| match put {
                Put::Created(id) | Put::Existing(id) | Put::Updated(id) => *id,
                Put::QuotaExceeded => unreachable!(),
            })
            .collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(world.store.memories_kept(&ada).await.unwrap(), 1);
        for space in spaces {
            assert_eq!(world.store.memories_in_space(space).await.unwrap(), 1);
        }
    }

    async fn an_account_keeps_memories_up_to_its_limit(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let first = Draft::new(world, &ada, "1", &["one"]);
        assert_eq!(first.put(store, 1).await, Put::Created(first.id));
        assert_eq!(Draft::new(world, &ada, "2", &["two"]).put(store, 1).await, Put::QuotaExceeded);
        // Existing memories may still change.
        let changed = Draft::new(world, &ada, "1", &["one and a half"]);
        assert_eq!(changed.put(store, 1).await, Put::Updated(first.id));
        assert!(store.memory_delete(first.id, &ada).await.unwrap());
        assert!(matches!(Draft::new(world, &ada, "2", &["two"]).put(store, 1).await, Put::Created(_)));
    }

    async fn a_key_for_certain_spaces_changes_only_memories_in_them(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let (red, blue, green, yellow) =
            (space(world, &ada).await, space(world, &ada).await, space(world, &ada).await, space(world, &ada).await);
        let scope = MemoryScope::Account(ada.clone());
        let kept = async |id| store.memory_by_id(id, &scope).await.unwrap().unwrap();
        let mut first = Draft::new(world, &ada, "page", &["as it was"]);
        first.spaces = vec![red];
        assert_eq!(first.put(store, 9).await, Put::Created(first.id));
        let mut other = Draft::new(world, &ada, "page", &["what else", "it says"]);
        (other.title, other.spaces, other.key_spaces) = ("Another", vec![blue], Some(vec![blue]));
        // The key does not cover the space of the memory in red, so its own memory is a different one.
        assert_eq!(other.put(store, 9).await, Put::Created(other.id));
        assert_eq!(kept(first.id).await.spaces, [red]);
        // In a space of the key and in another, it is linked and stays unchanged.
        first.spaces = vec![red, green];
        first.put(store, 9).await;
        let mut third = Draft::new(world, &ada, "page", &["what else"]);
        (third.title, third.spaces, third.key_spaces) = ("Another", vec![yellow], Some(vec![green, yellow]));
        assert_eq!(third.put(store, 9).await, Put::Existing(first.id));
        let memory = kept(first.id).await;
        assert_eq!((memory.title.as_str(), memory.content.as_str()), ("A title", "as it was"));
        assert_eq!(memory.spaces, [red, green, yellow]);
        third.key_spaces = Some(vec![red, green, yellow]);
        assert_eq!(third.put(store, 9).await, Put::Updated(first.id));
        assert_eq!(kept(first.id).await.title, "Another");
        // A memory in no space belongs only to the account.
        let everywhere = Draft::new(world, &ada, "everywhere", &["as it was"]);
        everywhere.put(store, 9).await;
        let mut changed = Draft::new(world, &ada, "everywhere", &["what else"]);
        (changed.spaces, changed.key_spaces) = (vec![blue], Some(vec![blue]));
        assert_eq!(changed.put(store, 9).await, Put::Created(changed.id));
        assert_eq!(kept(everywhere.id).await.content, "as it was");
    }

    async fn a_memory_is_taken_out_of_spaces_and_deleted_with_the_last(world: &World) {
        let (store, ada) = (&world.store, world.account("ada@example.com").await);
        let bob = world.account("bob@example.com").await;
        let (red, blue, green) = (space(world, &ada).await, space(world, &ada).await, space(world, &ada).await);
        let mut draft = Draft::new(world, &ada, "page", &["some words", "more words"]);
        draft.vectors = vec![vec![1.0, 0.0, 0.0, 0.0]; 2];
        draft.spaces = vec![red, blue];
        draft.put(store, 9).await;
        let (id, both) = (draft.id, [red, green]);
        assert_eq!(store.memory_unlink(id, &bob, &both).await.unwrap(), Unlink::NotThere);
        assert_eq!(store.memory_unlink(id, &ada, &[green]).await.unwrap(), Unlink::NotThere);
        let account_index = store.account_indexes_in(&MemoryScope::Account(ada.clone()), 1).await.unwrap()[0];
        let known = store.account_index_changes(account_index.number, 0, &model(), 9).await.unwrap().upto;
        assert_eq!(store.memory_unlink(id, &ada, &both).await.unwrap(), Unlink::Unlinked);
        assert_eq!(store.memory_unlink(id, &ada, &both).await.unwrap(), Unlink::NotThere);
        for (space, count) in [(red, 0), (blue, 1)] {
            assert_eq!(store.memories_in_space(space).await.unwrap(), count);
            assert_eq!(store.memory_by_id(id, &MemoryScope::Spaces(vec![space])).await.unwrap().is_some(), count == 1);
        }
        // In-memory indexes follow.
        let followed = store.account_index_changes(account_index.number, known, &model(), 9).await.unwrap().memories;
        assert_eq!((followed.len(), followed[0].memory, &followed[0].spaces), (1, id, &vec![blue]));
        assert_eq!(followed[0].vectors.len(), 2);
        assert_eq!(store.memory_unlink(id, &ada, &[blue]).await.unwrap(), Unlink::Deleted);
        assert_eq!(rows_left(world).await, 0);
        assert_eq!((store.memories_kept(&ada).await.unwrap(), store.memories_in_space(blue).await.unwrap()), (0, 0));
    }

    async fn a_memory_is_forgotten_by_its_account_alone_and_wholly(world: &World) {
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let space = space(world, &ada).await;
        let mut draft = Draft::new(world, &ada, "page", &["some words", "more words"]);
        draft.spaces = vec![space];
        draft.vectors = vec![vec![1.0, 0.0, 0.0, 0.0]; 2];
        draft.put(store, 9).await;
        let before = rows_left(world).await;
        assert!(!store.memory_delete(draft.id, &bob).await.unwrap());
        let mut of_bob = Draft::new(world, &bob, "page", &["words of his own"]);
        of_bob.put(store, 9).await;
        assert!(!store.memory_delete(draft.id, &bob).await.unwrap());
        assert!(rows_left(world).await > before);
        assert!(store.memory_delete(of_bob.id, &bob).await.unwrap());
        assert!(store.memory_delete(draft.id, &ada).await.unwrap());
        assert!(!store.memory_delete(draft.id, &ada).await.unwrap());
        assert_eq!(rows_left(world).await, 0);
        assert_eq!(store.memories_in_space(space).await.unwrap(), 0);
        assert_eq!(store.memory_by_id(draft.id, &MemoryScope::Account(ada.clone())).await.unwrap(), None);
        let account_index = store.account_indexes_in(&MemoryScope::Account(ada.clone()), 1).await.unwrap()[0];
        assert_eq!((account_index.chunks, account_index.words), (0, 0));
        // It may be stored again.
        of_bob.account = ada;
        assert!(matches!(of_bob.put(store, 9).await, Put::Created(_)));
    }

    async fn memories_are_listed_page_by_page_within_their_scope(world: &World) {
        const KEYS: [&str; 5] = ["1", "2", "3", "4", "5"];
        let store = &world.store;
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (shared, other) = (space(world, &ada).await, space(world, &bob).await);
        let mut of_ada = Vec::new();
        let mut in_shared = Vec::new();
        for (round, key) in KEYS.into_iter().enumerate() {
            for account in [&ada, &bob] {
                let mut draft = Draft::new(world, account, key, &["text"]);
                draft.id = world.rng.uuid_v7(at(i64::try_from(round).unwrap())).into();
                if round % 2 == 0 {
                    draft.spaces = vec![shared, other];
                    in_shared.push(draft.id);
                }
                draft.put(store, 9).await;
                if account == &ada {
                    of_ada.push(draft.id);
                }
            }
        }
        in_shared.sort();
        let walk = async |scope: MemoryScope| {
            let mut ids: Vec<MemoryId> = Vec::new();
            loop {
                let page = store.memories_of(&scope, ids.last().copied(), 2, 9).await.unwrap();
                if page.is_empty() {
                    return ids;
                }
                assert!(page.len() <= 2);
                ids.extend(page.iter().map(|memory| memory.id));
            }
        };
        assert_eq!(walk(MemoryScope::Account(ada.clone())).await, of_ada);
        assert_eq!(walk(MemoryScope::Spaces(vec![shared, other])).await, in_shared);
        assert_eq!(walk(MemoryScope::Spaces(vec![])).await, []);
        assert_eq!(store.memories_in_space(shared).await.unwrap(), 6);
        // Another account's memory cannot be read by its id.
        assert_eq!(store.memory_by_id(of_ada[1], &MemoryScope::Account(bob)).await.unwrap(), None);
        assert_eq!(store.memory_by_id(of_ada[1], &MemoryScope::Spaces(vec![shared])).await.unwrap(), None);
        assert!(store.memory_by_id(of_ada[0], &MemoryScope::Spaces(vec![shared])).await.unwrap().is_some());
    }
}
