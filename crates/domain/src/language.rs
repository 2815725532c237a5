//! Languages of memories; Snowball stems their words (`docs/decisions/0022-search.md`).

use rust_stemmers::Algorithm;
use strum::{Display, EnumIter, EnumString, IntoEnumIterator};
use whatlang::Lang;

/// Bytes of a text that are read to detect its language.
const READ_BYTES: usize = 4096;
/// Minimum number of letters for a detection: in shorter texts it would be a guess.
const LETTERS_MIN: usize = 20;

/// A language with a stemmer. Written as its ISO 639-1 code. The number of a language is its bit in [`LanguageSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Display, EnumIter, EnumString)]
#[repr(u8)]
pub enum Language {
    /// English, and every text with an unknown language or a language without a stemmer.
    #[default]
    #[strum(serialize = "en")]
    English = 0,
    /// German.
    #[strum(serialize = "de")]
    German = 1,
    /// French.
    #[strum(serialize = "fr")]
    French = 2,
    /// Spanish.
    #[strum(serialize = "es")]
    Spanish = 3,
    /// Italian.
    #[strum(serialize = "it")]
    Italian = 4,
    /// Dutch.
    #[strum(serialize = "nl")]
    Dutch = 5,
    /// Portuguese.
    #[strum(serialize = "pt")]
    Portuguese = 6,
    /// Swedish.
    #[strum(serialize = "sv")]
    Swedish = 7,
    /// Norwegian (Bokmål).
    #[strum(serialize = "nb")]
    Norwegian = 8,
    /// Danish.
    #[strum(serialize = "da")]
    Danish = 9,
    /// Finnish.
    #[strum(serialize = "fi")]
    Finnish = 10,
    /// Russian.
    #[strum(serialize = "ru")]
    Russian = 11,
    /// Hungarian.
    #[strum(serialize = "hu")]
    Hungarian = 12,
    /// Romanian.
    #[strum(serialize = "ro")]
    Romanian = 13,
    /// Turkish.
    #[strum(serialize = "tr")]
    Turkish = 14,
    /// Greek.
    #[strum(serialize = "el")]
    Greek = 15,
}

impl Language {
    /// Detects the language of a text from its first parts, such as title and chunks.
    pub fn of<'t>(parts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut text = String::new();
        for part in parts {
            let room = READ_BYTES - text.len();
            text.push_str(&part[..part.floor_char_boundary(room.min(part.len()))]);
            if text.len() + 1 >= READ_BYTES {
                break;
            }
            text.push('\n');
        }
        if text.chars().filter(|character| character.is_alphabetic()).count() < LETTERS_MIN {
            return Self::English;
        }
        whatlang::detect(&text)
            .filter(whatlang::Info::is_reliable)
            .map_or(Self::English, |info| Self::known(info.lang()))
    }

    /// The language of a code, if this version has a stemmer for it.
    pub fn of_code(code: &str) -> Option<Self> {
        code.parse().ok()
    }

    fn known(lang: Lang) -> Self {
        match lang {
            Lang::Deu => Self::German,
            Lang::Fra => Self::French,
            Lang::Spa => Self::Spanish,
            Lang::Ita => Self::Italian,
            Lang::Nld => Self::Dutch,
            Lang::Por => Self::Portuguese,
            Lang::Swe => Self::Swedish,
            Lang::Nob => Self::Norwegian,
            Lang::Dan => Self::Danish,
            Lang::Fin => Self::Finnish,
            Lang::Rus => Self::Russian,
            Lang::Hun => Self::Hungarian,
            Lang::Ron => Self::Romanian,
            Lang::Tur => Self::Turkish,
            Lang::Ell => Self::Greek,
            _ => Self::English,
        }
    }

    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Self::English => Algorithm::English,
            Self::German => Algorithm::German,
            Self::French => Algorithm::French,
            Self::Spanish => Algorithm::Spanish,
            Self::Italian => Algorithm::Italian,
            Self::Dutch => Algorithm::Dutch,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Swedish => Algorithm::Swedish,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Danish => Algorithm::Danish,
            Self::Finnish => Algorithm::Finnish,
            Self::Russian => Algorithm::Russian,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Romanian => Algorithm::Romanian,
            Self::Turkish => Algorithm::Turkish,
            Self::Greek => Algorithm::Greek,
        }
    }

    fn bit(self) -> i64 {
        1 << (self as u8)
    }
}

/// A set of languages, one bit each. It always contains English: texts in unknown languages have English stems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanguageSet(i64);

impl LanguageSet {
    /// The set with English and `language`.
    pub fn with(language: Language) -> Self {
        Self(language.bit())
    }

    /// The set with these bits; bits of languages without a stemmer here come from later versions and are ignored.
    pub fn from_bits(bits: i64) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> i64 {
        self.0
    }

    /// The languages of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its languages, English first.
    pub fn iter(self) -> impl Iterator<Item = Language> {
        Language::iter().filter(move |language| *language == Language::English || self.0 & language.bit() != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_text_is_detected() {
        for (language, text) in [
            (
                "en",
                "The ferry to the island leaves the old harbour at seven in the morning, at noon and at six in the evening.",
            ),
            (
                "de",
                "Die Fähre zur Insel verlässt den alten Hafen um sieben Uhr morgens, am Mittag und um sechs Uhr abends.",
            ),
            ("fr", "Le bac pour l'île quitte le vieux port à sept heures du matin, à midi et à six heures du soir."),
            (
                "es",
                "El transbordador a la isla sale del puerto viejo a las siete de la mañana, al mediodía y a las seis de la tarde.",
            ),
            (
                "it",
                "Il traghetto per l'isola parte dal vecchio porto alle sette del mattino, a mezzogiorno e alle sei di sera.",
            ),
            (
                "nl",
                "De veerboot naar het eiland vertrekt om zeven uur 's ochtends, om twaalf uur en om zes uur uit de oude haven.",
            ),
            (
                "pt",
                "A balsa para a ilha sai do porto velho às sete da manhã, ao meio-dia e às seis da tarde, mas não no inverno.",
            ),
            (
                "sv",
                "Färjan till ön lämnar den gamla hamnen klockan sju på morgonen, klockan tolv och klockan sex på kvällen.",
            ),
            (
                "fi",
                "Lautta saarelle lähtee vanhasta satamasta kello seitsemän aamulla, kello kaksitoista ja kello kuusi illalla.",
            ),
            (
                "ru",
                "Паромы на остров отправляются из старой гавани в семь часов утра, а рыбаки возвращаются в полдень с полными сетями рыбы.",
            ),
            (
                "el",
                "Το φέρι για το νησί φεύγει από το παλιό λιμάνι στις επτά το πρωί, το μεσημέρι και στις έξι το βράδυ.",
            ),
        ] {
            assert_eq!(Language::of([text]).to_string(), language, "{text}");
        }
    }

    #[test]
    fn an_unknown_or_short_text_counts_as_english() {
        for text in ["", "Hallo", "東京都の港", "0123456789 0123456789 0123456789"] {
            assert_eq!(Language::of([text]), Language::English, "{text}");
        }
        let long = "ä".repeat(READ_BYTES);
        Language::of([&long[..], &long[..]]);
    }

    #[test]
    fn a_set_has_english_and_no_language_of_a_later_version() {
        let set = LanguageSet::with(Language::German).union(LanguageSet::from_bits(1 << 62));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Language::English, Language::German]);
        assert_eq!(LanguageSet::from_bits(set.bits()), set);
        assert_eq!(LanguageSet::default().iter().collect::<Vec<_>>(), [Language::English]);
    }

    #[test]
    fn every_language_has_a_code_and_a_bit_of_its_own() {
        let bits: i64 = Language::iter().map(Language::bit).sum();
        assert_eq!(bits.count_ones() as usize, Language::iter().count());
        for language in Language::iter() {
            assert_eq!(Language::of_code(&language.to_string()), Some(language));
        }
    }
}
