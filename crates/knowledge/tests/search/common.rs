//! Common words: a bounded number of chunks is ranked by text.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use knowledge::search::{SearchQuery, SearchResults, Settings};
use store::memory::MemoryScope;

use crate::world::{World, query, titles};
use harness::on_each_vector_index;

/// Settings under which every word is common, with few candidates and few entries.
fn bounded() -> Settings {
    Settings { postings_max: 1, common_candidates_max: 50, common_postings_max: 50, ..Settings::default() }
}

fn ranking(answer: &SearchResults) -> Vec<(&str, f64)> {
    answer.found.iter().map(|hit| (hit.memory.title.as_str(), hit.similarity)).collect()
}

on_each_vector_index! {
    async fn an_old_space_is_ranked_completely_behind_newer_memories_with_the_same_words(world: &World) {
        let ada = world.account("ada@example.com").await;
        let (red, blue) = (world.space(&ada).await, world.space(&ada).await);
        for nth in 0..40 {
            let text = format!("{} {}", "heat ".repeat(1 + nth % 7), "wing ".repeat(nth % 5));
            world.add(&ada, &format!("old {nth}"), &text, &[red]).await;
        }
        for nth in 0..150 {
            world.add(&ada, &format!("new {nth}"), "heat wing heat wing heat wing", &[blue]).await;
        }
        world.letters.broken.store(true, Ordering::Relaxed);
        let all = world.search().await;
        let some = world.search_with(&world.store, &world.letters, bounded()).await;
        for text in ["heat", "wing heat", "heat wing zebra"] {
            let search_query = SearchQuery { limit: 8, ..query(text, &MemoryScope::Spaces(vec![red])) };
            let (all, some) = (all.search(&search_query).await.unwrap(), some.search(&search_query).await.unwrap());
            assert_eq!(all.found.len(), 8);
            // FTS5 uses other parameters, so the last candidates with similar scores may differ.
            assert_eq!(ranking(&all)[..4].iter().map(|(_, similarity)| *similarity).collect::<Vec<_>>(),
                ranking(&some)[..4].iter().map(|(_, similarity)| *similarity).collect::<Vec<_>>(), "{text}");
            assert!(titles(&some).iter().all(|title| title.starts_with("old")));
        }
    }

    async fn a_chunk_with_every_common_word_is_found_among_newer_ones_with_one_of_them(world: &World) {
        let ada = world.account("ada@example.com").await;
        world.add(&ada, "both", "heat of a wing", &[]).await;
        for nth in 0..40 {
            world.add(&ada, &format!("heat {nth}"), "heat alone", &[]).await;
        }
        for nth in 0..40 {
            world.add(&ada, &format!("wing {nth}"), "wing alone", &[]).await;
        }
        let search = world.search_with(&world.store, &world.letters, bounded()).await;
        for by_words_alone in [false, true] {
            world.letters.broken.store(by_words_alone, Ordering::Relaxed);
            let answer = search.search(&query("heat wing", &MemoryScope::Account(ada.clone()))).await.unwrap();
            assert_eq!(titles(&answer)[0], "both", "{answer:?}");
            let distinct: BTreeSet<&str> = titles(&answer).into_iter().collect();
            assert_eq!(distinct.len(), 10);
        }
    }

    /// One memory has more chunks than there are candidates.
    async fn a_long_memory_keeps_no_other_out_however_common_its_words_are(world: &World) {
        let ada = world.account("ada@example.com").await;
        let red = world.space(&ada).await;
        for nth in 0..9 {
            world.add(&ada, &format!("short {nth}"), "heat of a wing", &[red]).await;
        }
        world.add(&ada, "long", &vec!["heat wing"; 120].join("|"), &[red]).await;
        let settings = Settings { common_postings_max: 1_000, ..bounded() };
        let search = world.search_with(&world.store, &world.letters, settings).await;
        for by_words_alone in [false, true] {
            world.letters.broken.store(by_words_alone, Ordering::Relaxed);
            for scope in [MemoryScope::Account(ada.clone()), MemoryScope::Spaces(vec![red])] {
                let answer = search.search(&query("heat wing", &scope)).await.unwrap();
                let distinct: BTreeSet<&str> = titles(&answer).into_iter().collect();
                assert_eq!(distinct.len(), 10, "{by_words_alone} {scope:?}");
            }
        }
    }
}
