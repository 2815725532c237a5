//! The stems of a query in the languages of the memories that it searches.

use domain::language::{Language, LanguageSet};
use domain::words::asked;

/// The stem of each word of a query, in each of several languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryStems(Vec<(Language, Vec<String>)>);

/// A stem that a word of a query has in some language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StemForm {
    /// Number of the word.
    pub word: usize,
    /// The stem.
    pub stem: String,
}

impl QueryStems {
    /// The stems of at most `words_max` words of a query.
    pub fn of(query: &str, words_max: usize, languages: LanguageSet) -> Self {
        let words = asked(query, words_max);
        Self(languages.iter().map(|language| (language, words.stems(language))).collect())
    }

    /// Number of words.
    pub fn words(&self) -> usize {
        self.0.first().map_or(0, |(_, stems)| stems.len())
    }

    /// The stems in a language, in the order of the words; the English stems if the language was not requested.
    pub fn in_language(&self, language: Language) -> &[String] {
        let entry = self.0.iter().find(|(entry, _)| *entry == language).or(self.0.first());
        entry.map_or(&[], |(_, stems)| stems)
    }

    /// The distinct stems in `languages`, in the order of the words. A stem of two words belongs to the first one.
    pub fn forms(&self, languages: LanguageSet) -> Vec<StemForm> {
        let mut forms: Vec<StemForm> = Vec::new();
        for word in 0..self.words() {
            for language in languages.iter() {
                let Some(stem) = self.in_language(language).get(word) else { continue };
                if !forms.iter().any(|form| form.stem == *stem) {
                    forms.push(StemForm { word, stem: stem.clone() });
                }
            }
        }
        forms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_a_form_for_each_language_that_stems_it_differently() {
        let german = LanguageSet::with(Language::German);
        let stems = QueryStems::of("Häuser boats", 9, german);
        let forms = |languages| {
            let forms = stems.forms(languages).into_iter();
            forms.map(|form| (form.word, form.stem)).collect::<Vec<_>>()
        };
        assert_eq!(forms(LanguageSet::default()), [(0, "hauser".to_owned()), (1, "boat".to_owned())]);
        // Both languages have the same stem for the second word.
        let both = [(0, "hauser"), (0, "haus"), (1, "boat")].map(|(word, stem)| (word, stem.to_owned()));
        assert_eq!(forms(german), both);
        assert_eq!((stems.words(), stems.in_language(Language::French)), (2, stems.in_language(Language::English)));
    }
}
