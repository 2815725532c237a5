//! A key limited to spaces reads only its own texts and the texts of its spaces, after any sequence of writes
//! (`docs/decisions/0021-memories.md`).

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::memory::MemoryType;
use domain::{Digest, Rng};
use harness::on_each_database;
use store::memory::{ChunkPut, Edit, Memory, MemoryEdit, MemoryPut, MemoryScope, Put, Restored, TextEdit};

use crate::memories::{memory_quota, space};
use crate::world::{World, at, now};

/// An account with three spaces and three keys: for all spaces, for `open`, and for `open` and `team`.
struct Library<'w> {
    world: &'w World,
    account: UserAccountId,
    open: SpaceId,
    team: SpaceId,
    shut: SpaceId,
}

impl<'w> Library<'w> {
    async fn new(world: &'w World, address: &str) -> Self {
        let account = world.account(address).await;
        let (open, team, shut) =
            (space(world, &account).await, space(world, &account).await, space(world, &account).await);
        Self { world, account, open, team, shut }
    }

    fn put<'a>(&'a self, text: &'a str, chunks: &'a [ChunkPut<'a>], spaces: &'a [SpaceId]) -> MemoryPut<'a> {
        MemoryPut {
            id: self.world.rng.uuid_v7(now()).into(),
            account: &self.account,
            kind: MemoryType::Note,
            title: text,
            url: None,
            content: text,
            dedupe: Digest::of(text.as_bytes()),
            chunks,
            model: None,
            spaces,
            key_spaces: None,
            quota: memory_quota(10_000),
        }
    }

    /// Adds a text under a `dedupe` key.
    async fn add(&self, key: Option<&[SpaceId]>, dedupe: &str, text: &str, spaces: &[SpaceId]) -> Put {
        let chunks = [ChunkPut { content: text, vector: None }];
        let put =
            MemoryPut { dedupe: Digest::of(dedupe.as_bytes()), key_spaces: key, ..self.put(text, &chunks, spaces) };
        self.world.store.memory_put(&put, now()).await.unwrap()
    }

    async fn import(&self, key: Option<&[SpaceId]>, id: MemoryId, dedupe: &str, text: &str, spaces: &[SpaceId]) -> Put {
        let chunks = [ChunkPut { content: text, vector: None }];
        let put =
            MemoryPut { id, dedupe: Digest::of(dedupe.as_bytes()), key_spaces: key, ..self.put(text, &chunks, spaces) };
        let other_id = self.world.rng.uuid_v7(now()).into();
        let restored = Restored { created_at: now(), updated_at: now(), tags: &[], other_id };
        self.world.store.memory_import(&put, &restored).await.unwrap()
    }

    /// Changes title, or title and text, of a memory.
    async fn edit(&self, key: Option<&[SpaceId]>, memory: &Memory, title: &str, dedupe: Option<&str>) -> Edit {
        let chunks = [ChunkPut { content: title, vector: None }];
        let content = dedupe.map(|dedupe| (title, Digest::of(dedupe.as_bytes())));
        let text = Some(TextEdit { title, content, chunks: &chunks, model: None });
        let edit = MemoryEdit { text, key_spaces: key, ..unchanged(memory) };
        self.world.store.memory_edit(&edit, at(1)).await.unwrap()
    }

    async fn read(&self, id: MemoryId) -> Option<Memory> {
        self.world.store.memory_by_id(id, &MemoryScope::Account(self.account.clone())).await.unwrap()
    }

    async fn readable(&self, spaces: &[SpaceId]) -> Vec<Memory> {
        let scope = MemoryScope::Spaces(spaces.to_vec());
        self.world.store.memories_of(&scope, None, 1000, 1000).await.unwrap()
    }
}

fn unchanged(memory: &Memory) -> MemoryEdit<'_> {
    let (id, account, seen) = (memory.id, &memory.account, memory.changed);
    MemoryEdit {
        id,
        account,
        seen,
        text: None,
        tags: None,
        spaces: None,
        key_spaces: None,
        quota: memory_quota(10_000),
    }
}

/// One random sequence of writes, with the texts that its writers sent and may read.
struct Sequence<'l> {
    library: &'l Library<'l>,
    rng: Rng,
    /// The limited keys: narrow first.
    keys: [Vec<SpaceId>; 2],
    ids: Vec<MemoryId>,
    dedupe_of: HashMap<MemoryId, String>,
    /// The `dedupe` key of each written text.
    texts: HashMap<String, String>,
    /// For each limited key, the texts that it sent, and texts that another writer put into its spaces.
    permitted: [HashSet<String>; 2],
    /// For each limited key, the `dedupe` keys that a wider key put into its spaces: later texts under them are permitted.
    exposed: [HashSet<String>; 2],
}

impl Sequence<'_> {
    fn pick<T: Clone>(&self, of: &[T]) -> T {
        of[usize::try_from(self.rng.below(of.len() as u64)).unwrap()].clone()
    }

    /// Some of the spaces that a writer covers; the account mostly writes to the closed one.
    fn spaces(&self, key: Option<&[SpaceId]>) -> Vec<SpaceId> {
        let Library { open, team, shut, .. } = *self.library;
        match key {
            None if self.rng.below(4) > 0 => vec![shut],
            None => vec![self.pick(&[open, team]), shut],
            Some(covered) => vec![self.pick(covered)],
        }
    }

    fn index(&self, key: Option<&[SpaceId]>) -> Option<usize> {
        key.and_then(|key| self.keys.iter().position(|known| known == key))
    }

    /// Records a text that a writer sent to these spaces, and the resulting memory.
    async fn sent(
        &mut self,
        writer: Option<&[SpaceId]>,
        dedupe: &str,
        text: &str,
        spaces: &[SpaceId],
        memory: Option<MemoryId>,
    ) {
        self.texts.insert(text.to_owned(), dedupe.to_owned());
        let stored = match memory {
            Some(id) => self.library.read(id).await,
            None => None,
        };
        let writer = self.index(writer);
        for (nth, key) in self.keys.iter().enumerate() {
            let is_reached = spaces.iter().any(|space| key.contains(space));
            if writer == Some(nth) || is_reached {
                self.permitted[nth].insert(text.to_owned());
            }
            let is_wider = writer.is_none_or(|writer| writer > nth);
            if is_reached && is_wider {
                self.exposed[nth].insert(dedupe.to_owned());
                if let Some(memory) = &stored {
                    self.permitted[nth].extend([memory.title.clone(), memory.content.clone()]);
                    self.exposed[nth].insert(self.dedupe_of[&memory.id].clone());
                }
            }
        }
    }

    async fn step(&mut self, nth: usize) -> String {
        let (dedupe, text) = (format!("page {}", self.rng.below(8)), format!("text {nth}"));
        let keys = self.keys.clone();
        let key: Option<&[SpaceId]> = self.pick(&[None, Some(&keys[0][..]), Some(&keys[1][..])]);
        let writer = self.index(key).map_or("the account".to_owned(), |nth| format!("key {nth}"));
        let spaces = self.spaces(key);
        let existing = if self.ids.is_empty() { None } else { self.library.read(self.pick(&self.ids)).await };
        let before: HashSet<MemoryId> = match key {
            Some(key) => self.library.readable(key).await.iter().map(|memory| memory.id).collect(),
            None => HashSet::new(),
        };
        match (self.rng.below(10), existing) {
            (0..4, _) | (_, None) => {
                let put = self.library.add(key, &dedupe, &text, &spaces).await;
                self.stored(put, key, &before, &dedupe, &text, &spaces).await;
                format!("{writer} adds {dedupe} {text:?} to {spaces:?}: {put:?}")
            }
            (4..7, Some(existing)) => {
                let put = self.library.import(key, existing.id, &dedupe, &text, &spaces).await;
                self.stored(put, key, &before, &dedupe, &text, &spaces).await;
                format!("{writer} imports {} as {dedupe} {text:?} to {spaces:?}: {put:?}", existing.id)
            }
            (7, Some(existing)) => {
                let may = key.is_none_or(|key| {
                    existing.spaces.iter().all(|space| key.contains(space)) && !existing.spaces.is_empty()
                });
                if !may {
                    return format!("{writer} may not change {}", existing.id);
                }
                let content = (self.rng.below(2) == 0).then_some(dedupe.as_str());
                let edit = self.library.edit(key, &existing, &text, content).await;
                match edit {
                    Edit::Done => {
                        if let Some(dedupe) = content {
                            self.dedupe_of.insert(existing.id, dedupe.to_owned());
                        }
                        let dedupe = self.dedupe_of[&existing.id].clone();
                        self.sent(key, &dedupe, &text, &existing.spaces, Some(existing.id)).await;
                    }
                    Edit::Duplicate(other) => {
                        assert!(key.is_none() || before.contains(&other), "{writer} learns of {other}");
                    }
                    other => panic!("{other:?}"),
                }
                format!("{writer} changes {} to {text:?} as {content:?}: {edit:?}", existing.id)
            }
            (8, Some(existing)) => {
                let spaces = self.spaces(None);
                let edit = MemoryEdit { spaces: Some(&spaces), ..unchanged(&existing) };
                assert_eq!(self.library.world.store.memory_edit(&edit, at(1)).await.unwrap(), Edit::Done);
                let (dedupe, title) = (self.dedupe_of[&existing.id].clone(), existing.title.clone());
                self.sent(None, &dedupe, &title, &spaces, Some(existing.id)).await;
                format!("the account moves {} to {spaces:?}", existing.id)
            }
            (_, Some(existing)) => {
                let (store, account) = (&self.library.world.store, &self.library.account);
                match key {
                    Some(key) => drop(store.memory_unlink(existing.id, account, key).await.unwrap()),
                    None => drop(store.memory_delete(existing.id, account).await.unwrap()),
                }
                format!("{writer} deletes {}", existing.id)
            }
        }
    }

    async fn stored(
        &mut self,
        put: Put,
        key: Option<&[SpaceId]>,
        before: &HashSet<MemoryId>,
        dedupe: &str,
        text: &str,
        spaces: &[SpaceId],
    ) {
        let id = match put {
            Put::Created(id) => {
                self.ids.push(id);
                self.dedupe_of.insert(id, dedupe.to_owned());
                id
            }
            Put::Existing(id) | Put::Updated(id) => {
                assert!(key.is_none() || before.contains(&id), "the key learns of {id}, which it does not read");
                id
            }
            Put::QuotaExceeded => panic!("the account is full"),
        };
        self.sent(key, dedupe, text, spaces, Some(id)).await;
    }

    /// Texts that a limited key can read but must not.
    async fn leaked(&self) -> BTreeSet<String> {
        let mut leaked = BTreeSet::new();
        for (nth, key) in self.keys.iter().enumerate() {
            for memory in self.library.readable(key).await {
                for text in [memory.title, memory.content] {
                    let is_exposed = self.exposed[nth].contains(&self.texts[&text]);
                    if !self.permitted[nth].contains(&text) && !is_exposed {
                        leaked.insert(format!("key {nth} reads {text:?} of {}", memory.id));
                    }
                }
            }
        }
        leaked
    }
}

on_each_database! {
    async fn a_limited_key_reads_its_own_texts_and_those_of_its_spaces(world: &World) {
        for seed in 0..30 {
            let library = Library::new(world, &format!("reader{seed}@example.com")).await;
            let mut sequence = Sequence {
                library: &library,
                rng: Rng::seeded(seed),
                keys: [vec![library.open], vec![library.open, library.team]],
                ids: Vec::new(),
                dedupe_of: HashMap::new(),
                texts: HashMap::new(),
                permitted: [HashSet::new(), HashSet::new()],
                exposed: [HashSet::new(), HashSet::new()],
            };
            let mut steps = Vec::new();
            for nth in 0..40 {
                steps.push(sequence.step(nth).await);
                let leaked = sequence.leaked().await;
                assert!(leaked.is_empty(), "seed {seed}, {leaked:?} after\n{}", steps.join("\n"));
            }
        }
    }

    async fn a_page_that_a_limited_key_waits_for_is_not_the_page_of_the_account(world: &World) {
        let library = Library::new(world, "ada@example.com").await;
        let Library { open, shut, .. } = library;
        let key = [open];
        let Put::Created(planted) = library.add(Some(&key), "page", "planted", &[open]).await else { panic!() };
        let Put::Created(own) = library.add(None, "page", "salaries", &[shut]).await else { panic!("folded") };
        assert_ne!(planted, own);
        assert_eq!(library.add(None, "page", "salaries", &[shut]).await, Put::Existing(own));
        let readable: Vec<String> = library.readable(&key).await.into_iter().map(|memory| memory.content).collect();
        assert_eq!(readable, ["planted"]);
        // Adding to exactly its spaces refers to this memory: it belongs to the account from then on.
        assert_eq!(library.add(None, "page", "seen", &[open]).await, Put::Updated(planted));
        let other = library.add(None, "other", "one", &[open]).await;
        let Put::Created(other) = other else { panic!("{other:?}") };
        assert_eq!(library.add(None, "other", "two", &[shut]).await, Put::Updated(other));
        assert_eq!(library.add(Some(&key), "other", "three", &[open]).await, Put::Existing(other));
        assert_eq!(library.read(other).await.unwrap().content, "two");
    }
}
