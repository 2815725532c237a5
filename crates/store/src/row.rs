//! Conversion of columns to domain types. Values that the program wrote always convert; any other value is reported as damage, with its column.

use std::borrow::Cow;
use std::error::Error;
use std::str::FromStr;

use domain::Digest;
use domain::secret::SecretHash;

use crate::error::Corrupt;

/// Parses the text of `column` (`table.column`).
pub fn parsed<T>(column: &'static str, text: &str) -> Result<T, Corrupt>
where
    T: FromStr,
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    text.parse().map_err(|error: T::Err| Corrupt::new(column, error))
}

/// The same for a column that may be null.
pub fn parsed_opt<T>(column: &'static str, text: Option<&str>) -> Result<Option<T>, Corrupt>
where
    T: FromStr,
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    text.map(|text| parsed(column, text)).transpose()
}

/// 32 bytes.
pub fn bytes(column: &'static str, bytes: &[u8]) -> Result<[u8; 32], Corrupt> {
    bytes.try_into().map_err(|_| Corrupt::new(column, "expected 32 bytes"))
}

/// A SHA-256 digest.
pub fn digest(column: &'static str, value: &[u8]) -> Result<Digest, Corrupt> {
    bytes(column, value).map(Digest::from)
}

/// The hash of a secret.
pub fn secret_hash(column: &'static str, value: &[u8]) -> Result<SecretHash, Corrupt> {
    digest(column, value).map(SecretHash::from)
}

/// A count that is never negative.
pub fn count(column: &'static str, value: i64) -> Result<u32, Corrupt> {
    u32::try_from(value).map_err(|error| Corrupt::new(column, error))
}

/// Converts a corrupt row inside a transaction to an error of the driver, which rolls it back.
pub fn undecodable(corrupt: Corrupt) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(corrupt))
}

/// Removes U+0000 from a client's text, which PostgreSQL cannot store.
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// A number of rows as `LIMIT` of both databases.
pub fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Slices of 64, 16, 4 and 1 rows, for statements with as many placeholders: any number of rows is written by four prepared statements.
pub fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    const SIZES: [usize; 4] = [64, 16, 4, 1];
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= rows.len())?;
        let (chunk, rest) = rows.split_at(size);
        rows = rest;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_four_sizes_and_lose_nothing() {
        let rows: Vec<u32> = (0..150).collect();
        let sizes: Vec<usize> = chunks(&rows).map(<[u32]>::len).collect();
        assert_eq!(sizes, [64, 64, 16, 4, 1, 1]);
        assert_eq!(chunks(&rows).flatten().copied().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn text_that_postgresql_cannot_keep_is_replaced() {
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
        assert!(matches!(storable("ab"), Cow::Borrowed("ab")));
    }
}
