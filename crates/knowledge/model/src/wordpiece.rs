//! Tokenises text like BERT's uncased models: removes case and accents, splits at white space and punctuation, and
//! splits each word greedily into the longest pieces of the vocabulary.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory as Category, GeneralCategoryGroup as Group, UnicodeGeneralCategory};

use crate::weights::InvalidModel;

/// Longer words become the piece for unknown words.
const WORD_CHARS_MAX: usize = 100;

/// The vocabulary by piece. Pieces that continue a word have their own map, without `##`.
#[derive(Debug)]
pub struct WordPiece {
    first: HashMap<&'static str, u16>,
    further: HashMap<&'static str, u16>,
    unknown: u16,
    start: u16,
    end: u16,
}

impl WordPiece {
    /// Reads a vocabulary with one piece per line; the number of a piece is the number of its line, from 0.
    pub fn new(vocabulary: &'static str) -> Result<Self, InvalidModel> {
        let (mut first, mut further) = (HashMap::new(), HashMap::new());
        for (piece, number) in vocabulary.lines().zip(0..=u16::MAX) {
            match piece.strip_prefix("##") {
                Some(rest) => further.insert(rest, number),
                None => first.insert(piece, number),
            };
        }
        let mark =
            |name: &str| first.get(name).copied().ok_or_else(|| InvalidModel::Tensor(format!("vocabulary: no {name}")));
        let (unknown, start, end) = (mark("[UNK]")?, mark("[CLS]")?, mark("[SEP]")?);
        Ok(Self { first, further, unknown, start, end })
    }

    /// The pieces of a text between the start and end marks, at most `pieces_max` in total.
    pub fn cut(&self, text: &str, pieces_max: usize) -> Vec<u16> {
        let mut pieces = vec![self.start];
        let mut word = String::new();
        let visible = text.chars().filter(|char| !is_hidden(*char));
        let plain = visible.flat_map(apart).nfd().filter(|char| char.general_category() != Category::NonspacingMark);
        for char in plain.flat_map(char::to_lowercase) {
            let alone = is_punctuation(char);
            if alone || char.is_whitespace() {
                self.cut_word(&word, &mut pieces);
                word.clear();
            }
            if alone {
                self.cut_word(char.encode_utf8(&mut [0; 4]), &mut pieces);
            } else if !char.is_whitespace() {
                word.push(char);
            }
            if pieces.len() >= pieces_max {
                break;
            }
        }
        self.cut_word(&word, &mut pieces);
        pieces.truncate(pieces_max - 1);
        pieces.push(self.end);
        pieces
    }

    /// Appends the pieces of a word, or the piece for unknown words if the vocabulary does not cover it.
    fn cut_word(&self, word: &str, pieces: &mut Vec<u16>) {
        let len_before = pieces.len();
        let mut rest = word;
        if word.chars().count() > WORD_CHARS_MAX {
            pieces.push(self.unknown);
            return;
        }
        while !rest.is_empty() {
            let vocabulary = if pieces.len() == len_before { &self.first } else { &self.further };
            let ends = rest.char_indices().rev().map(|(at, char)| at + char.len_utf8());
            let Some((end, piece)) = ends.into_iter().find_map(|end| Some((end, *vocabulary.get(&rest[..end])?)))
            else {
                pieces.truncate(len_before);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(piece);
            rest = &rest[end..];
        }
    }
}

/// Separates Chinese characters, each of which is a word.
fn apart(char: char) -> impl Iterator<Item = char> {
    let blank = is_chinese(char).then_some(' ');
    blank.into_iter().chain([char]).chain(blank)
}

fn is_hidden(char: char) -> bool {
    let control = || matches!(char.general_category(), Category::Control | Category::Format | Category::PrivateUse);
    match char {
        '\t' | '\n' | '\r' => false,
        '\0' | char::REPLACEMENT_CHARACTER => true,
        _ => !char.is_ascii_graphic() && control(),
    }
}

fn is_punctuation(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_punctuation();
    }
    char.general_category_group() == Group::Punctuation
}

fn is_chinese(char: char) -> bool {
    matches!(u32::from(char),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x2_0000..=0x2_A6DF | 0x2_A700..=0x2_B73F | 0x2_B740..=0x2_B81F | 0x2_B920..=0x2_CEAF
        | 0xF900..=0xFAFF | 0x2_F800..=0x2_FA1F)
}
