//! Long documents do not crowd out others.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use domain::ids::{SpaceId, UserAccountId};
use knowledge::search::{SearchQuery, SearchResults, Settings};
use store::memory::MemoryScope;

use crate::world::{World, query, titles};
use harness::on_each_vector_index;

fn repeated(chunk: &str, chunks: usize) -> String {
    vec![chunk; chunks].join("|")
}

/// Adds a memory with many chunks, all of which match better than a chunk that also has other words.
async fn long(world: &World, account: &UserAccountId, chunk: &str, spaces: &[SpaceId]) {
    for (title, chunks) in [("long", 100), ("longer", 120), ("longest", 300)] {
        world.add(account, title, &repeated(chunk, chunks), spaces).await;
    }
}

/// The titles of all results, in any order.
fn named(answer: &SearchResults) -> BTreeSet<&str> {
    titles(answer).into_iter().collect()
}

on_each_vector_index! {
    async fn a_document_with_the_very_word_is_found_beside_long_ones_that_repeat_it(world: &World) {
        let ada = world.account("ada@example.com").await;
        let red = world.space(&ada).await;
        world.add(&ada, "before", "someone drank zubrowka in a bar of an old town", &[red]).await;
        long(world, &ada, "zubrowka", &[red]).await;
        world.add(&ada, "after", "a bison eats grass and zubrowka has a blade of it", &[red]).await;
        let expected = BTreeSet::from(["before", "after", "long", "longer", "longest"]);
        // Rare words; words so common that a chunk must contain them all; words so common that nothing is ranked.
        for postings_max in [3_000, 100, 1] {
            let settings = Settings { postings_max, ..Settings::default() };
            let search = world.search_with(&world.store, &world.letters, settings).await;
            for by_words_alone in [false, true] {
                world.letters.broken.store(by_words_alone, Ordering::Relaxed);
                for scope in [MemoryScope::Account(ada.clone()), MemoryScope::Spaces(vec![red])] {
                    let answer = search.search(&query("zubrowka", &scope)).await.unwrap();
                    assert_eq!(answer.by_words_alone.is_some(), by_words_alone);
                    assert_eq!(named(&answer), expected, "{postings_max} {by_words_alone} {scope:?}");
                    assert!(answer.found.is_sorted_by(|a, b| a.similarity >= b.similarity));
                }
            }
        }
    }

    async fn semantic_neighbours_leave_room_for_the_exact_word(world: &World) {
        let ada = world.account("ada@example.com").await;
        long(world, &ada, "zubrowka bar", &[]).await;
        for nth in 0..60 {
            world.add(&ada, &format!("zebra {nth}"), "zebra", &[]).await;
        }
        world.add(&ada, "word", "zubrowka bar and zebra", &[]).await;
        let answer = world.search().await.search(&query("zubrowka", &MemoryScope::Account(ada))).await.unwrap();
        assert!(named(&answer).is_superset(&BTreeSet::from(["word", "long", "longer", "longest"])), "{answer:?}");
    }

    async fn what_has_no_word_of_it_is_found_by_meaning_beside_long_documents(world: &World) {
        let ada = world.account("ada@example.com").await;
        let red = world.space(&ada).await;
        long(world, &ada, "zubrowka", &[red]).await;
        world.add(&ada, "meant", "zebra and bear", &[red]).await;
        let search = world.search().await;
        for scope in [MemoryScope::Account(ada.clone()), MemoryScope::Spaces(vec![red])] {
            let answer = search.search(&query("zest", &scope)).await.unwrap();
            assert_eq!(named(&answer), BTreeSet::from(["long", "longer", "longest", "meant"]), "{scope:?}");
        }
    }

    async fn long_documents_of_one_account_keep_nothing_out_of_a_shared_space(world: &World) {
        let (ada, bob) = (world.account("ada@example.com").await, world.account("bob@example.com").await);
        let red = world.space(&ada).await;
        for account in [&ada, &bob] {
            long(world, account, "zubrowka", &[red]).await;
            world.add(account, "short", "zubrowka to a bear in a cold bar", &[red]).await;
        }
        let search = world.search().await;
        for by_words_alone in [false, true] {
            world.letters.broken.store(by_words_alone, Ordering::Relaxed);
            let answer = search.search(&query("zubrowka", &MemoryScope::Spaces(vec![red]))).await.unwrap();
            assert_eq!(titles(&answer).into_iter().filter(|title| *title == "short").count(), 2, "{by_words_alone}");
            assert_eq!(answer.found.len(), 8);
        }
    }

    /// The limit counts documents, not chunks.
    async fn as_many_documents_are_found_as_are_wanted(world: &World) {
        let ada = world.account("ada@example.com").await;
        for nth in 0..60 {
            world.add(&ada, &format!("{nth}"), &repeated("zubrowka", 1 + nth % 7 * 8), &[]).await;
        }
        world.add(&ada, "book", &repeated("zubrowka", 400), &[]).await;
        let search = world.search().await;
        let scope = MemoryScope::Account(ada);
        for by_words_alone in [false, true] {
            world.letters.broken.store(by_words_alone, Ordering::Relaxed);
            for limit in [1, 2, 10, 50] {
                let answer = search.search(&SearchQuery { limit, ..query("zubrowka", &scope) }).await.unwrap();
                assert_eq!(named(&answer).len(), limit, "{by_words_alone}");
            }
        }
    }
}
