//! The path of a tile in C2SP `tlog-tiles`: `<L>/<N>[.p/<W>]`.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use super::id::{TileId, WIDTH};

/// Largest level that the format permits.
const LEVEL_MAX: u8 = 63;
/// Digits of an element of an encoded index; all elements but the last start with `x`.
const DIGITS: usize = 3;

/// A full tile, or the first hashes of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TilePath {
    /// Position of the tile.
    pub id: TileId,
    /// Number of hashes of a partial tile, 1 to 255; absent for a full tile.
    pub partial: Option<NonZeroU8>,
}

/// The text is not the path of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not <level>/<index>[.p/<width>] of C2SP tlog-tiles")]
pub struct NotATile;

impl TilePath {
    /// Number of hashes of the tile.
    pub fn width(self) -> usize {
        self.partial.map_or(WIDTH, |width| usize::from(width.get()))
    }

    /// Whether a tree of `size` leaves has these hashes.
    pub fn is_in(self, size: u64) -> bool {
        self.id.hashes_in(size) >= self.width()
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.id.index.to_string();
        let padded = format!("{digits:0>width$}", width = digits.len().next_multiple_of(DIGITS));
        write!(f, "{}", self.id.level)?;
        for begin in (0..padded.len()).step_by(DIGITS) {
            let end = begin + DIGITS;
            let mark = if end < padded.len() { "x" } else { "" };
            write!(f, "/{mark}{}", &padded[begin..end])?;
        }
        self.partial.map_or(Ok(()), |width| write!(f, ".p/{width}"))
    }
}

impl FromStr for TilePath {
    type Err = NotATile;

    /// Accepts only the canonical encoding of each path.
    fn from_str(text: &str) -> Result<Self, NotATile> {
        let (level, rest) = text.split_once('/').ok_or(NotATile)?;
        let (index, width) = rest.split_once(".p/").map_or((rest, None), |(index, width)| (index, Some(width)));
        let level = level.parse().ok().filter(|level| *level <= LEVEL_MAX).ok_or(NotATile)?;
        let digits: String = index.chars().filter(|char| !matches!(char, '/' | 'x')).collect();
        let index = digits.parse().map_err(|_| NotATile)?;
        let partial = width.map(str::parse).transpose().map_err(|_| NotATile)?;
        let path = Self { id: TileId { level, index }, partial };
        if path.to_string() == text { Ok(path) } else { Err(NotATile) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_and_read_as_the_format_has_it() {
        let path = |level, index, width| TilePath { id: TileId { level, index }, partial: NonZeroU8::new(width) };
        for (tile, text) in [
            (path(0, 0, 0), "0/000"),
            (path(0, 273, 112), "0/273.p/112"),
            (path(1, 1000, 1), "1/x001/000.p/1"),
            (path(3, 1_234_067, 0), "3/x001/x234/067"),
            (path(63, 1_234_067, 255), "63/x001/x234/067.p/255"),
        ] {
            assert_eq!(tile.to_string(), text);
            assert_eq!(text.parse(), Ok(tile));
        }
    }

    #[test]
    fn another_text_is_no_path() {
        for wrong in [
            "",
            "0",
            "0/",
            "0/0",
            "0/00",
            "00/000",
            "64/000",
            "+1/000",
            "-1/000",
            "entries/000",
            "0/x000/001",
            "0/0x00",
            "0/1000",
            "0/001/000",
            "0/x001000",
            "0/x001/x000",
            "0/000/",
            "0/000.p",
            "0/000.p/",
            "0/000.p/0",
            "0/000.p/256",
            "0/000.p/01",
            "0/000.p/+1",
            "0/000.p/1/2",
            "0/x999/x999/x999/x999/x999/x999/999",
            " 0/000",
            "0/٠٠٠",
        ] {
            assert_eq!(wrong.parse::<TilePath>(), Err(NotATile), "{wrong}");
        }
    }

    #[test]
    fn a_tree_has_the_tiles_that_the_format_lists() {
        let is_in = |text: &str, size| text.parse::<TilePath>().unwrap().is_in(size);
        // The example of the format: 273 full tiles and one of 112, one full and one of 17, one of 1.
        for (text, beyond) in [
            ("0/272", "0/273"),
            ("0/273.p/112", "0/273.p/113"),
            ("1/000", "1/001"),
            ("1/001.p/17", "1/001.p/18"),
            ("2/000.p/1", "2/000.p/2"),
        ] {
            assert!(is_in(text, 70_000) && !is_in(beyond, 70_000), "{text}");
        }
        assert!(is_in("1/000.p/1", 256) && !is_in("1/000.p/1", 255) && !is_in("0/000.p/1", 0));
        assert!(is_in("7/000.p/255", u64::MAX) && !is_in("8/000.p/1", u64::MAX) && !is_in("63/000.p/1", u64::MAX));
        assert!(!is_in("0/x018/x446/x744/x073/x709/x551/615.p/1", u64::MAX));
    }
}
