//! How well the results of a search fit the query, and how many of them a person or a model is shown first
//! (`docs/decisions/0022-search.md`).
//!
//! A similarity compares results of one search well and of two searches badly: a question in other words reaches less with its right answer
//! than a keyword with a wrong one. So the best result decides which others are shown, and only words, not numbers, are shown to people.

/// Results that are shown however similar they are: in one of ten searches the right one is second or third, with less than half of the best.
pub const SHOWN_MIN: usize = 3;

/// Share of the best similarity that a further result needs.
const SHARE: f64 = 0.5;

/// Share of the best similarity from which a result fits as well as the best.
const SAME: f64 = 0.75;

/// Similarity from which the best result contains the words or the meaning of the query.
const GOOD: f64 = 0.35;

/// Similarity below which a result has little to do with the query.
const LOOSE: f64 = 0.12;

/// Similarity below which a result shares nothing with the query but chance. A model is not given it.
const NOISE: f64 = 0.03;

/// How well a result fits the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It contains the words or the meaning of the query.
    Good,
    /// It is about something similar.
    Fair,
    /// It has little to do with the query.
    Loose,
}

impl Fit {
    /// In words, for a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::Good => "fits well",
            Self::Fair => "fits partly",
            Self::Loose => "fits loosely",
        }
    }
}

/// The fit of each result of these descending similarities. The best fits well if it is similar, or if it stands out from the second: a
/// question in other words has a small similarity to its answer, and a smaller one to everything else.
pub fn fits(similarities: &[f64]) -> Vec<Fit> {
    let best = similarities.first().copied().unwrap_or_default();
    let stands_out = similarities.get(1).is_some_and(|second| *second < best * SHARE);
    let is_good = best >= GOOD || best >= LOOSE && stands_out;
    let fit = |similarity: &f64| match *similarity {
        same if is_good && same >= best * SAME => Fit::Good,
        fair if fair >= LOOSE && fair >= best * SHARE => Fit::Fair,
        _ => Fit::Loose,
    };
    similarities.iter().map(fit).collect()
}

/// Number of results, of these descending similarities, that are shown at once: those with at least half of the best similarity, and never
/// fewer than [`SHOWN_MIN`] if that many exist. The others are less similar.
pub fn shown(similarities: impl IntoIterator<Item = f64>) -> usize {
    let mut best = None;
    let is_shown = |(nth, similarity): &(usize, f64)| {
        let best = *best.get_or_insert(*similarity);
        *nth < SHOWN_MIN || *similarity >= best * SHARE
    };
    similarities.into_iter().enumerate().take_while(is_shown).count()
}

/// Number of results, of these descending similarities, that a model is given: those [shown](fn@shown) at once, without those that are
/// similar only by chance.
pub fn given(similarities: impl IntoIterator<Item = f64>) -> usize {
    shown(similarities.into_iter().take_while(|similarity| *similarity >= NOISE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_after_the_best_decides_how_many_results_are_shown() {
        assert_eq!(shown([0.54, 0.52, 0.5, 0.3, 0.2, 0.1]), 4);
        assert_eq!(shown([0.23, 0.16, 0.113, 0.1, 0.02]), 3);
        assert_eq!(shown([0.5; 20]), 20);
    }

    #[test]
    fn three_results_are_shown_however_similar_they_are() {
        assert_eq!(shown([0.54, 0.17, 0.02, 0.02]), 3);
        assert_eq!(shown([0.15, 0.08, 0.066, 0.05]), 3);
        assert_eq!((shown([0.9, 0.01]), shown([0.01]), shown([])), (2, 1, 0));
    }

    #[test]
    fn a_model_is_not_given_what_is_similar_by_chance() {
        assert_eq!(given([0.54, 0.17, 0.02, 0.01]), 2);
        assert_eq!(given([0.15, 0.08, 0.066, 0.05]), 3);
        assert_eq!((given([0.02, 0.01]), given([])), (0, 0));
    }

    #[test]
    fn a_result_fits_well_if_it_is_similar_or_stands_out() {
        use Fit::{Fair, Good, Loose};
        assert_eq!(fits(&[0.54, 0.5, 0.3, 0.2]), [Good, Good, Fair, Loose]);
        assert_eq!(fits(&[0.2, 0.06]), [Good, Loose], "a question in other words");
        assert_eq!(fits(&[0.2, 0.16, 0.1]), [Fair, Fair, Loose], "nothing stands out");
        assert_eq!(fits(&[0.1, 0.02]), [Loose, Loose]);
        assert_eq!((fits(&[0.2]), fits(&[0.4]), fits(&[])), (vec![Fair], vec![Good], vec![]));
    }
}
