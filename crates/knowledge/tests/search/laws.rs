//! Guarantees of a search.

use std::sync::atomic::Ordering;

use knowledge::backfill::{self, Step};
use knowledge::index;
use knowledge::index::database::Pgvector;
use knowledge::search::{Search, SearchQuery, Settings};
use store::memory::MemoryScope;

use crate::world::{Letters, World, query, titles};
use harness::on_each_vector_index;

on_each_vector_index! {
    async fn kept_entries_are_found_at_once_and_forgotten_ones_are_not(world: &World) {
        let ada = world.account("ada@example.com").await;
        let scope = MemoryScope::Account(ada.clone());
        let (here, other) = (world.search().await, world.second().await);
        assert!(here.search(&query("heat", &scope)).await.unwrap().found.is_empty());
        for round in 0..5 {
            let title = format!("title {round}");
            let id = world.add(&ada, &title, "the heat of wings", &[]).await;
            for search in [&here, &other] {
                assert_eq!(search.search(&query("heat", &scope)).await.unwrap().found.len(), 1);
            }
            assert!(world.store.memory_delete(id, &ada).await.unwrap());
            for search in [&here, &other] {
                assert!(search.search(&query("heat", &scope)).await.unwrap().found.is_empty());
            }
        }
        world.add(&ada, "page", "old words", &[]).await;
        assert_eq!(here.search(&query("old", &scope)).await.unwrap().found.len(), 1);
        world.add(&ada, "page", "new sentence", &[]).await;
        let answer = here.search(&query("sentence", &scope)).await.unwrap();
        assert_eq!(answer.found[0].chunks[0].content, "new sentence");
        assert!(answer.found.iter().all(|hit| hit.chunks.len() == 1));
    }

    async fn no_account_finds_memories_of_another(world: &World) {
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let (red, blue) = (world.space(&ada).await, world.space(&ada).await);
        world.add(&ada, "of ada", "heat of wings", &[]).await;
        world.add(&ada, "ada in red", "heat of wings", &[red]).await;
        world.add(&bob, "of bob", "heat of wings", &[]).await;
        world.add(&bob, "bob in red", "heat of wings", &[red]).await;
        world.add(&bob, "bob in both", "heat of wings", &[blue, red]).await;
        let search = world.search().await;
        let found = async |text: &str, scope: &MemoryScope| {
            let answer = search.search(&query(text, scope)).await.unwrap();
            let mut titles: Vec<String> = titles(&answer).into_iter().map(str::to_owned).collect();
            titles.sort();
            titles
        };
        // A lexical and semantic match, a semantic match, and no match.
        for text in ["heat of wings", "hot wells", "?!"] {
            for (scope, most) in [
                (MemoryScope::Account(ada.clone()), vec!["ada in red", "of ada"]),
                (MemoryScope::Account(bob.clone()), vec!["bob in both", "bob in red", "of bob"]),
                (MemoryScope::Spaces(vec![red]), vec!["ada in red", "bob in both", "bob in red"]),
                (MemoryScope::Spaces(vec![blue]), vec!["bob in both"]),
                (MemoryScope::Spaces(vec![red, blue]), vec!["ada in red", "bob in both", "bob in red"]),
                (MemoryScope::Spaces(vec![]), vec![]),
            ] {
                let expected = if text == "?!" { Vec::new() } else { most };
                assert_eq!(found(text, &scope).await, expected, "{text} {scope:?}");
            }
        }
    }

    async fn order_number_and_threshold_agree(world: &World) {
        let ada = world.account("ada@example.com").await;
        let scope = MemoryScope::Account(ada.clone());
        let texts = ["heat", "heat wings", "heat wings slabs", "hot winds", "composite slabs conduct", "zebra"];
        for text in texts {
            world.add(&ada, &format!("on {text}"), text, &[]).await;
        }
        let search = world.search().await;
        let answer = search.search(&query("heat wings", &scope)).await.unwrap();
        assert_eq!(answer.by_words_alone, None);
        assert_eq!(titles(&answer)[0], "on heat wings");
        let numbers: Vec<f64> = answer.found.iter().map(|hit| hit.similarity).collect();
        assert!(numbers.is_sorted_by(|a, b| a >= b) && numbers.len() > 2, "{numbers:?}");
        for number in &numbers {
            assert!((0.0..=1.0).contains(number) && (number * 1e4 - (number * 1e4).round()).abs() < 1e-6, "{number}");
        }
        for (limit, threshold) in [(1, 0.0), (3, 0.0), (10, numbers[1]), (10, numbers[1] + 1e-9), (10, 1.0), (0, 0.0)] {
            let search_query = SearchQuery { limit, threshold, ..query("heat wings", &scope) };
            let some = search.search(&search_query).await.unwrap();
            let expected: Vec<f64> =
                numbers.iter().copied().filter(|number| *number >= threshold).take(limit).collect();
            assert_eq!(some.found.iter().map(|hit| hit.similarity).collect::<Vec<_>>(), expected);
        }
    }

    async fn a_document_shows_its_best_chunks(world: &World) {
        let ada = world.account("ada@example.com").await;
        let text = "heat|heat wings|wings|heat heat|a heat here|what heat|zebra|no|heat of slabs";
        world.add(&ada, "", text, &[]).await;
        let long = "heat ".repeat(30_000);
        world.add(&ada, "long", &long, &[]).await;
        let answer = world.search().await.search(&query("heat wings", &MemoryScope::Account(ada))).await.unwrap();
        let hit = answer.found.iter().find(|hit| hit.memory.title.is_empty()).unwrap();
        assert_eq!(hit.chunks.len(), 5);
        assert_eq!(hit.chunks[0].content, "heat wings");
        assert!((hit.chunks[0].similarity - hit.similarity).abs() < f64::EPSILON);
        assert!(hit.chunks.is_sorted_by(|a, b| a.similarity >= b.similarity));
        assert_eq!(hit.memory.content, text);
        let long = answer.found.iter().find(|hit| hit.memory.title == "long").unwrap();
        assert_eq!(long.memory.content.len(), 100_000);
    }

    async fn without_the_model_words_answer_alone_and_say_so(world: &World) {
        let ada = world.account("ada@example.com").await;
        let scope = MemoryScope::Account(ada.clone());
        world.add(&ada, "one", "heat of wings", &[]).await;
        world.add(&ada, "two", "hot", &[]).await;
        let search = world.search().await;
        assert_eq!(search.search(&query("heat", &scope)).await.unwrap().found.len(), 2);
        world.letters.broken.store(true, Ordering::Relaxed);
        let answer = search.search(&query("heat", &scope)).await.unwrap();
        assert_eq!((titles(&answer), answer.by_words_alone.as_deref()), (vec!["one"], Some("out of letters")));
        assert!(answer.found[0].similarity > 0.0);
        world.letters.broken.store(false, Ordering::Relaxed);
        assert_eq!(search.search(&query("heat", &scope)).await.unwrap().by_words_alone, None);
        // Vectors of another model do not count: the search is lexical until the backfill.
        let other = world.search_by(&world.store, &Letters::new("other")).await;
        assert_eq!(titles(&other.search(&query("heat", &scope)).await.unwrap()), ["one"]);
        assert_eq!(search.search(&query("heat", &scope)).await.unwrap().found.len(), 2);
    }

    async fn a_new_model_embeds_everything_again_step_by_step(world: &World) {
        let ada = world.account("ada@example.com").await;
        let scope = MemoryScope::Account(ada.clone());
        for word in ["heat", "hills", "wings"] {
            world.add(&ada, word, word, &[]).await;
        }
        let other = Letters::new("other");
        let search = world.search_by(&world.store, &other).await;
        assert_eq!(titles(&search.search(&query("heat", &scope)).await.unwrap()), ["heat"]);
        other.broken.store(true, Ordering::Relaxed);
        assert!(backfill::step(&world.store, &other, 2).await.is_err());
        other.broken.store(false, Ordering::Relaxed);
        for expected in [Step::Embedded(2), Step::Embedded(1), Step::Done] {
            assert_eq!(backfill::step(&world.store, &other, 2).await.unwrap(), expected);
        }
        assert_eq!(titles(&search.search(&query("heat", &scope)).await.unwrap()), ["heat", "hills"]);
    }

    async fn account_indexes_that_do_not_fit_are_read_again(world: &World) {
        let settings = Settings {
            index: index::Settings {
                pgvector: Pgvector::Off,
                bytes_max: 1,
                page_memories: 1,
                exact_max: 1,
                rows_of_thread: 1,
                threads_max: 3,
                ..index::Settings::default()
            },
            ..Settings::default()
        };
        let search = Search::new(world.store.clone(), world.letters.clone(), settings);
        search.index().prepare().await.unwrap();
        let mut scopes = Vec::new();
        for address in ["ada@example.com", "bob@example.com", "eve@example.com"] {
            let account = world.account(address).await;
            for word in ["heat", "hills", "wings", "zebra"] {
                world.add(&account, word, word, &[]).await;
            }
            scopes.push(MemoryScope::Account(account));
        }
        for _ in 0..3 {
            for scope in &scopes {
                assert_eq!(search.search(&query("hot", scope)).await.unwrap().found.len(), 2);
                assert_eq!(search.index().account_indexes(), 1);
                assert!(search.index().bytes() > 0);
            }
        }
    }
}
