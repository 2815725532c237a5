//! Generated texts with word frequencies of natural texts.

use domain::Rng;

/// The commonest words of English prose, in their approximate order, and words of texts about programming.
const COMMON: &str = "the of and to a in is that for it as was with be by on not he are at this from or have an they which one you \
    were all her she there would their we him been has when who will no more if out so up said what its about than into them can \
    only other time new some could these two may first then do any like my now over such our man me even most made after also did \
    many off before must well back through years where much your way down should because long each just state those people too mr \
    how little good world make very year still see own work men day get here old life both between being under three never know \
    same last another while us might great since against go came right used take states himself few house use place during high \
    without again home around small however found part school general once upon every war don number does got united left course \
    file server memory network process system option command value default error string list table record message client request \
    answer page index search query vector model text word line user account group folder path name version library function thread \
    lock queue event stream batch note token key cache disk store commit change history branch release build test measure figure \
    water light river stone garden window letter music market engine winter summer village harbour bridge forest mountain island \
    doctor teacher captain farmer painter writer council hospital station railway factory kitchen bread coffee cotton silver copper";

/// Number of distinct words.
const WORDS: usize = 20_000;

/// A generator of texts.
#[derive(Debug)]
pub struct Words {
    words: Vec<String>,
    rng: Rng,
}

impl Words {
    /// The words are constant; texts depend on the seed.
    pub fn new(seed: u64) -> Self {
        let common: Vec<&str> = COMMON.split_whitespace().collect();
        let mut words: Vec<String> = common.iter().map(|word| (*word).to_owned()).collect();
        // Rare words are composed of two longer ones.
        let long: Vec<&str> = common.iter().copied().filter(|word| word.len() > 3).collect();
        let pairs = long.iter().flat_map(|first| long.iter().map(move |second| format!("{first}{second}")));
        words.extend(pairs.take(WORDS.saturating_sub(words.len())));
        Self { words, rng: Rng::seeded(seed) }
    }

    /// A text of at least `chars` characters.
    pub fn text(&self, chars: usize) -> String {
        const WORDS_OF_A_SENTENCE: u64 = 14;
        let mut text = String::with_capacity(chars + 16);
        while text.len() < chars {
            text.push_str(self.word());
            text.push_str(if self.rng.below(WORDS_OF_A_SENTENCE) == 0 { ". " } else { " " });
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// A query of a few words.
    pub fn query(&self) -> String {
        let count = 3 + self.rng.below(4);
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    /// A query of two or three words that most texts contain.
    pub fn common_query(&self) -> String {
        const MOST_COMMON: u64 = 12;
        let count = 2 + self.rng.below(2);
        let word = |_| usize::try_from(self.rng.below(MOST_COMMON)).ok().map_or("", |place| self.words[place].as_str());
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }

    /// Draws by Zipf's law: the n-th word has a probability proportional to 1/n.
    #[expect(clippy::cast_precision_loss, reason = "20,000 is exact")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 20,000")]
    fn word(&self) -> &str {
        let rank = (self.words.len() as f64).powf(self.rng.fraction()) as usize;
        &self.words[rank.clamp(1, self.words.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_long_as_asked_for_and_differ() {
        let words = Words::new(1);
        let (one, other) = (words.text(800), words.text(800));
        assert!((790..830).contains(&one.len()), "{}", one.len());
        assert_ne!(one, other);
        assert_eq!(one, Words::new(1).text(800));
    }
}
