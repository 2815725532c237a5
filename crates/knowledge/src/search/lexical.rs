//! The lexical search: weights of the query's stems, and the best chunks by words.

use std::collections::{HashMap, HashSet};

use domain::ids::MemoryId;
use domain::words::counts_of;
use store::chunk::common::{ChunkText, CommonWordsLimits};
use store::chunk::words::{B, K1, QueryStem};
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::{Store, StoreError};

use super::counts::StemCountCache;
use super::query::SearchQuery;
use super::settings::{Settings, candidates};
use super::stems::{QueryStems, StemForm};
use crate::blocking;

/// Minimum number of candidates per account.
const EACH_MIN: usize = 20;

/// The lexical part of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LexicalSearch {
    /// Chunks with some of the stems.
    pub chunks: Vec<ChunkId>,
    /// Inverse document frequency of each word, in the order of the query.
    pub weights: Vec<f64>,
    /// Average length of a chunk, in words.
    pub length_average: f64,
    full: Vec<FullList>,
}

/// A query of an account that may have more matching chunks than it returned.
#[derive(Debug, Clone, PartialEq)]
struct FullList {
    account_index: AccountStatistics,
    stems: ChosenStems,
    most: usize,
    /// Candidates with common stems.
    rated: RankedChunks,
}

#[derive(Debug, Clone, PartialEq)]
enum ChosenStems {
    /// Rare enough that the database ranks all their entries.
    Rare(Vec<QueryStem>),
    /// All stems are common, rarest first: a bounded number of chunks is ranked by text.
    Common(Vec<QueryStem>),
}

/// Candidates ranked by their texts, best first.
#[derive(Debug, Clone, Default, PartialEq)]
struct RankedChunks {
    chunks: Vec<(ChunkId, MemoryId)>,
    /// Whether there may be more matching chunks.
    is_cut: bool,
}

impl LexicalSearch {
    /// Looks up the words of a query in all accounts. A word's weight depends on all accounts together, and on all forms
    /// that it has in their languages.
    #[boxed]
    pub async fn look_up(
        store: &Store,
        known: &StemCountCache,
        account_indexes: &[AccountStatistics],
        query: &SearchQuery,
        stems: &QueryStems,
        settings: &Settings,
    ) -> Result<Self, StoreError> {
        if stems.words() == 0 {
            return Ok(Self::default());
        }
        let mut counts = Vec::with_capacity(account_indexes.len());
        let mut having = vec![0_i64; stems.words()];
        for account_index in account_indexes {
            let forms = stems.forms(account_index.languages());
            let names: Vec<String> = forms.iter().map(|form| form.stem.clone()).collect();
            let counted = known.of(store, account_index, &names).await?;
            for (form, count) in forms.iter().zip(&counted) {
                having[form.word] += i64::from(*count);
            }
            counts.push((forms, counted));
        }
        let all = account_indexes
            .iter()
            .fold((0, 0), |all, account_index| (all.0 + account_index.chunks, all.1 + account_index.words));
        let all = AccountStatistics { number: 0, chunks: all.0, words: all.1, changes: 0, languages: 0 };
        let weights: Vec<f64> = having.into_iter().map(|having| weight(all.chunks, having)).collect();
        let mut lexical = Self { weights, length_average: all.length_average(), ..Self::default() };
        // With several accounts, each proposes a share of the candidates.
        let most = (candidates(query.limit) / account_indexes.len().max(1)).max(EACH_MIN);
        for (account_index, (forms, counts)) in account_indexes.iter().zip(&counts) {
            let chosen = chosen(forms, &lexical.weights, counts, settings.postings_max);
            let entries = counts.iter().map(|count| u64::from(*count)).sum();
            let (ids, rated) = match &chosen {
                ChosenStems::Rare(asked) => {
                    let ids =
                        store.chunks_with_words(account_index, asked, query.spaces(), ChunkLimits::any(most)).await?;
                    (ids, RankedChunks::default())
                }
                ChosenStems::Common(asked) => {
                    let reach = reach(settings, account_indexes.len(), most, entries);
                    let chunks = store.chunks_with_common_words(account_index, asked, query.spaces(), reach).await?;
                    let is_cut = chunks.len() >= reach.chunks_max;
                    let texts = store.chunk_texts(&chunks).await?;
                    let rated = RankedChunks { chunks: lexical.ranked(stems, texts).await, is_cut };
                    (rated.best(ChunkLimits::any(most)), rated)
                }
            };
            if ids.len() >= most {
                lexical.full.push(FullList { account_index: *account_index, stems: chosen, most, rated });
            }
            lexical.chunks.extend(ids);
        }
        Ok(lexical)
    }

    /// Whether an account may have more candidates.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Queries those accounts again, with a limit of chunks per memory.
    #[boxed]
    pub async fn spread(
        &self,
        store: &Store,
        query: &SearchQuery,
        settings: &Settings,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let mut chunks = Vec::new();
        for FullList { account_index, stems, most, rated } in &self.full {
            let wanted = ChunkLimits::spread(*most, query.limit);
            match stems {
                ChosenStems::Rare(asked) => {
                    chunks.extend(store.chunks_with_words(account_index, asked, query.spaces(), wanted).await?);
                }
                ChosenStems::Common(asked) => {
                    chunks.extend(rated.best(wanted));
                    if rated.is_cut && rated.memories() < query.limit {
                        let walked_max = settings.common_postings_max;
                        let newest = store.chunks_of_newest_memories(
                            account_index,
                            asked,
                            query.spaces(),
                            query.limit,
                            walked_max,
                        );
                        chunks.extend(newest.await?);
                    }
                }
            }
        }
        Ok(chunks)
    }

    /// Ranks the chunks with any of the stems, best first; equal similarities newest first.
    async fn ranked(&self, stems: &QueryStems, texts: Vec<ChunkText>) -> Vec<(ChunkId, MemoryId)> {
        let (stems, lexical) = (stems.clone(), self.clone());
        let ranking = blocking::compute(move || {
            let mut ranked: Vec<(f64, ChunkId, MemoryId)> = texts
                .into_iter()
                .map(|text| {
                    let stems = stems.in_language(text.language);
                    let counts = counts_of(stems, &text.title, &text.content, text.language);
                    (lexical.similarity(&counts, text.words), text.chunk, text.memory)
                })
                .filter(|(similarity, ..)| *similarity > 0.0)
                .collect();
            ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            ranked.into_iter().map(|(_, chunk, memory)| (chunk, memory)).collect()
        });
        ranking.await
    }

    /// BM25 of a chunk, divided by the highest BM25 that any chunk could reach: 0 to 1. `counts` and `words` are those
    /// of the chunk.
    pub fn similarity(&self, counts: &[u32], words: u32) -> f64 {
        let most: f64 = self.weights.iter().map(|weight| weight * (K1 + 1.0)).sum();
        let long = K1 * (1.0 - B + B * f64::from(words) / self.length_average.max(1.0));
        let reached: f64 = self
            .weights
            .iter()
            .zip(counts)
            .map(|(weight, count)| weight * f64::from(*count) * (K1 + 1.0) / (f64::from(*count) + long))
            .sum();
        if most > 0.0 { (reached / most).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Inverse document frequency of BM25, never negative.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn weight(chunks: i64, having: i64) -> f64 {
    let (all, having) = (chunks.max(having) as f64, having as f64);
    ((all - having + 0.5) / (having + 0.5)).ln_1p()
}

/// Maximum number of entries that FTS5 ranks for common words, as a multiple of `postings_max`: ranking reads each
/// entry only once more.
const RANKED_TIMES: u64 = 30;

/// Limits for one of several accounts; `entries` is the number of entries of its common stems.
fn reach(settings: &Settings, account_indexes: usize, most: usize, entries: u64) -> CommonWordsLimits {
    let of_each = |all: usize| all / account_indexes.max(1);
    let chunks_max = of_each(settings.common_candidates_max).max(most);
    let walked_max = of_each(settings.common_postings_max).max(chunks_max);
    CommonWordsLimits {
        chunks_max,
        walked_max,
        is_ranked: entries <= settings.postings_max.saturating_mul(RANKED_TIMES),
    }
}

impl RankedChunks {
    fn best(&self, wanted: ChunkLimits) -> Vec<ChunkId> {
        let mut taken: HashMap<MemoryId, usize> = HashMap::new();
        let within_limits = self.chunks.iter().filter(|(_, memory)| {
            let taken = taken.entry(*memory).or_default();
            *taken += 1;
            wanted.each_max.is_none_or(|each_max| *taken <= each_max)
        });
        within_limits.map(|(chunk, _)| *chunk).take(wanted.chunks_max).collect()
    }

    /// Number of memories with a ranked chunk.
    fn memories(&self) -> usize {
        self.chunks.iter().map(|(_, memory)| memory).collect::<HashSet<_>>().len()
    }
}

/// Selects the rarest stems with at most `postings_max` entries in total. If the rarest stem exceeds the limit, selects
/// the commonest stem of each word: a candidate must then contain every selected stem.
fn chosen(forms: &[StemForm], weights: &[f64], counts: &[u32], postings_max: u64) -> ChosenStems {
    let mut by_count: Vec<(u32, usize)> = counts.iter().copied().zip(0..).filter(|(count, _)| *count > 0).collect();
    by_count.sort_unstable();
    let query_stem = |at: usize| QueryStem { stem: forms[at].stem.clone(), weight: weights[forms[at].word] };
    if by_count.first().is_some_and(|(count, _)| u64::from(*count) > postings_max) {
        let is_commonest = |at: usize| {
            !by_count
                .iter()
                .any(|(count, other)| forms[*other].word == forms[at].word && (*count, *other) > (counts[at], at))
        };
        return ChosenStems::Common(
            by_count.iter().filter(|(_, at)| is_commonest(*at)).map(|(_, at)| query_stem(*at)).collect(),
        );
    }
    let mut walked = 0;
    let affordable = by_count.iter().take_while(|(count, _)| {
        walked += u64::from(*count);
        walked <= postings_max
    });
    ChosenStems::Rare(affordable.map(|(_, at)| query_stem(*at)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chosen: &ChosenStems) -> (Vec<&str>, bool) {
        let (ChosenStems::Rare(stems) | ChosenStems::Common(stems)) = chosen;
        (stems.iter().map(|stem| stem.stem.as_str()).collect(), matches!(chosen, ChosenStems::Common(_)))
    }

    #[test]
    fn rare_words_propose_candidates_and_common_ones_only_if_there_is_room() {
        let form = |(word, stem): (usize, &str)| StemForm { word, stem: stem.to_owned() };
        let stems: Vec<StemForm> = ["common", "absent", "rare", "some"].into_iter().enumerate().map(form).collect();
        let weights = [0.1, 9.0, 5.0, 2.0];
        let choose = |most| chosen(&stems, &weights, &[9_000, 0, 10, 900], most);
        let every = vec!["rare", "some", "common"];
        assert_eq!(names(&choose(10_000)), (every.clone(), false));
        assert_eq!(names(&choose(1_000)), (vec!["rare", "some"], false));
        assert_eq!(names(&choose(5)), (every, true));
        assert_eq!(chosen(&stems, &weights, &[0; 4], 5), ChosenStems::Rare(Vec::new()));
        let forms: Vec<StemForm> = [(0, "one"), (0, "eins"), (1, "two"), (1, "zwei")].into_iter().map(form).collect();
        let choose = |most| chosen(&forms, &[1.0, 2.0], &[10, 20, 40, 30], most);
        assert_eq!(names(&choose(60)), (vec!["one", "eins", "zwei"], false));
        assert_eq!(names(&choose(5)), (vec!["eins", "two"], true));
    }

    #[test]
    fn several_account_indexes_share_the_reach_of_a_search() {
        let settings = Settings::default();
        let of = |chunks_max, walked_max, is_ranked| CommonWordsLimits { chunks_max, walked_max, is_ranked };
        assert_eq!(reach(&settings, 1, 50, 90_000), of(1_000, 20_000, true));
        assert_eq!(reach(&settings, 32, 20, 90_001), of(31, 625, false));
        assert_eq!(reach(&settings, 1_000, 20, 0), of(20, 20, true));
    }

    #[test]
    fn the_best_are_taken_of_each_memory_no_more_than_its_share() {
        let memory = |nth| -> MemoryId { format!("01890a5d-ac96-774b-bcce-b302099a805{nth}").parse().unwrap() };
        let (one, other) = (memory(1), memory(2));
        let rated = RankedChunks { chunks: vec![(5, one), (4, one), (3, one), (2, other)], is_cut: true };
        assert_eq!(rated.best(ChunkLimits::any(3)), [5, 4, 3]);
        assert_eq!(rated.best(ChunkLimits { chunks_max: 9, each_max: Some(1) }), [5, 2]);
        assert_eq!(rated.memories(), 2);
    }

    #[test]
    fn similarity_grows_with_words_and_stays_below_one() {
        let weights = vec![weight(1_000, 3), weight(1_000, 700)];
        let lexical = LexicalSearch { weights, length_average: 100.0, ..LexicalSearch::default() };
        let of = |counts: &[u32], words| lexical.similarity(counts, words);
        assert!(of(&[0, 0], 100) == 0.0);
        assert!(of(&[1, 0], 100) > of(&[0, 1], 100), "a rare word weighs more");
        assert!(of(&[2, 0], 100) > of(&[1, 0], 100));
        assert!(of(&[1, 0], 100) > of(&[1, 0], 400), "a long text says less");
        assert!(of(&[u32::MAX, u32::MAX], 1) <= 1.0);
        assert!(weight(5, 5) > 0.0 && weight(0, 0) > 0.0);
        assert!(LexicalSearch::default().similarity(&[], 5) == 0.0);
    }
}
