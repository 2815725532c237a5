//! The leg of words: how much each word of a query tells, and the chunks that have the most of it.

use domain::words::asked;
use store::passage::words::{Asked, B, Having, K1};
use store::passage::{ChunkId, Shelf, Wanted};
use store::{Store, StoreError};

use super::{Query, Settings};

/// Candidates of a shelf, however many shelves there are.
const EACH_MIN: usize = 20;

/// What the words of a query say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lexical {
    /// Chunks that have some of them.
    pub chunks: Vec<ChunkId>,
    /// What each stem tells, in the order of the query.
    pub weights: Vec<f64>,
    /// The length of a chunk on average.
    pub length_average: f64,
    full: Vec<Full>,
}

/// What a shelf was asked that may have more chunks than it could propose.
#[derive(Debug, Clone, PartialEq)]
struct Full {
    shelf: Shelf,
    asked: Vec<Asked>,
    having: Having,
    most: usize,
}

impl Lexical {
    /// Looks the words of a query up on all shelves: how rare a word is, is a matter of all of them together.
    pub async fn look_up(
        store: &Store,
        shelves: &[Shelf],
        query: &Query,
        settings: &Settings,
    ) -> Result<Self, StoreError> {
        let stems = asked(&query.text, settings.words_max);
        if stems.is_empty() {
            return Ok(Self::default());
        }
        let mut counts = Vec::with_capacity(shelves.len());
        for shelf in shelves {
            counts.push(store.stems_counted(shelf.number, &stems).await?);
        }
        let all = shelves.iter().fold((0, 0), |all, shelf| (all.0 + shelf.chunks, all.1 + shelf.words));
        let all = Shelf { number: 0, chunks: all.0, words: all.1, changes: 0 };
        let weights: Vec<f64> = (0..stems.len())
            .map(|at| weight(all.chunks, counts.iter().map(|counts| i64::from(counts[at])).sum()))
            .collect();
        // Of many shelves, each proposes a few: which are best is seen when they are read.
        let most = (settings.candidates(query.limit) / shelves.len().max(1)).max(EACH_MIN);
        let (mut chunks, mut full) = (Vec::new(), Vec::new());
        for (shelf, counts) in shelves.iter().zip(&counts) {
            let (asked, having) = chosen(&stems, &weights, counts, settings.postings_max);
            // What is not ranked by its words yet is ranked when it is read.
            let most = if having == Having::EveryNewest { settings.candidates_max.max(most) } else { most };
            let found = store.chunks_with_words(shelf, &asked, having, query.spaces(), Wanted::any(most)).await?;
            if found.len() >= most {
                full.push(Full { shelf: *shelf, asked, having, most });
            }
            chunks.extend(found);
        }
        Ok(Self { chunks, weights, length_average: all.length_average(), full })
    }

    /// Whether some shelf may have more.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// What those shelves propose when none of their memories takes the places of the others.
    pub async fn spread(&self, store: &Store, query: &Query) -> Result<Vec<ChunkId>, StoreError> {
        let mut chunks = Vec::new();
        for Full { shelf, asked, having, most } in &self.full {
            let wanted = Wanted::spread(*most, query.limit);
            chunks.extend(store.chunks_with_words(shelf, asked, *having, query.spaces(), wanted).await?);
        }
        Ok(chunks)
    }

    /// BM25 of a chunk, as a part of what no chunk can exceed: 0 to 1. `counts` and `words` are the chunk's.
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

/// Inverse document frequency, as BM25 has it; never negative.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn weight(chunks: i64, having: i64) -> f64 {
    let (all, having) = (chunks.max(having) as f64, having as f64);
    ((all - having + 0.5) / (having + 0.5)).ln_1p()
}

/// Ranking chunks that have every stem walks through all entries of all of them, which is quick: so many times more than are looked up
/// for chunks that have some.
const RANKED_TIMES: u64 = 30;

/// The rarest stems, as many as walk through at most `postings_max` entries. If the rarest alone is in more chunks than that, all
/// of them, and only chunks that have every one; of stems that nearly every chunk has, no best ones.
fn chosen(stems: &[String], weights: &[f64], counts: &[u32], postings_max: u64) -> (Vec<Asked>, Having) {
    let mut there: Vec<(u32, usize)> = counts.iter().copied().zip(0..).filter(|(count, _)| *count > 0).collect();
    there.sort_unstable();
    let asked = |at: usize| Asked { stem: stems[at].clone(), weight: weights[at] };
    if there.first().is_some_and(|(count, _)| u64::from(*count) > postings_max) {
        let entries: u64 = there.iter().map(|(count, _)| u64::from(*count)).sum();
        let few = entries <= postings_max.saturating_mul(RANKED_TIMES);
        let having = if few { Having::Every } else { Having::EveryNewest };
        return (there.iter().map(|(_, at)| asked(*at)).collect(), having);
    }
    let mut walked = 0;
    let affordable = there.iter().take_while(|(count, _)| {
        walked += u64::from(*count);
        walked <= postings_max
    });
    (affordable.map(|(_, at)| asked(*at)).collect(), Having::Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stems: &[Asked]) -> Vec<&str> {
        stems.iter().map(|asked| asked.stem.as_str()).collect()
    }

    #[test]
    fn rare_words_propose_candidates_and_common_ones_only_if_there_is_room() {
        let stems: Vec<String> = ["common", "absent", "rare", "some"].map(String::from).to_vec();
        let weights = [0.1, 9.0, 5.0, 2.0];
        let choose = |most| chosen(&stems, &weights, &[9_000, 0, 10, 900], most);
        let every = || vec!["rare", "some", "common"];
        assert_eq!((names(&choose(10_000).0), choose(10_000).1), (every(), Having::Some));
        assert_eq!((names(&choose(1_000).0), choose(1_000).1), (vec!["rare", "some"], Having::Some));
        assert_eq!((names(&choose(5).0), choose(5).1), (every(), Having::EveryNewest));
        let equal = |most| chosen(&stems[2..], &weights[2..], &[400, 900], most);
        assert_eq!((names(&equal(50).0), equal(50).1), (vec!["rare", "some"], Having::Every));
        assert!(chosen(&stems, &weights, &[0; 4], 5).0.is_empty());
    }

    #[test]
    fn similarity_grows_with_words_and_stays_below_one() {
        let weights = vec![weight(1_000, 3), weight(1_000, 700)];
        let lexical = Lexical { weights, length_average: 100.0, ..Lexical::default() };
        let of = |counts: &[u32], words| lexical.similarity(counts, words);
        assert!(of(&[0, 0], 100) == 0.0);
        assert!(of(&[1, 0], 100) > of(&[0, 1], 100), "a rare word tells more");
        assert!(of(&[2, 0], 100) > of(&[1, 0], 100));
        assert!(of(&[1, 0], 100) > of(&[1, 0], 400), "a long text says less");
        assert!(of(&[u32::MAX, u32::MAX], 1) <= 1.0);
        assert!(weight(5, 5) > 0.0 && weight(0, 0) > 0.0);
        assert!(Lexical::default().similarity(&[], 5) == 0.0);
    }
}
