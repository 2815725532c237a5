//! Statements that share a part of their text.

/// Joins constants and literals into one constant text: `joined!(SELECT_ENTRY, " WHERE id = $1")`. Unlike `concat!`, it accepts constants,
/// so a shared part has a name and a doc comment. It is a macro because the length of an array in a function cannot depend on an argument.
#[macro_export]
macro_rules! joined {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&str] = &[$($part),+];
        const BYTES: [u8; $crate::pool::length(PARTS)] = $crate::pool::bytes(PARTS);
        const TEXT: &str = match str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        };
        TEXT
    }};
}

/// The number of bytes of all parts.
#[doc(hidden)]
pub const fn length(parts: &[&str]) -> usize {
    let (mut length, mut at) = (0, 0);
    while at < parts.len() {
        length += parts[at].len();
        at += 1;
    }
    length
}

/// The bytes of all parts.
#[doc(hidden)]
pub const fn bytes<const LENGTH: usize>(parts: &[&str]) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let (mut written, mut at) = (0, 0);
    while at < parts.len() {
        let part = parts[at].as_bytes();
        let mut place = 0;
        while place < part.len() {
            bytes[written] = part[place];
            written += 1;
            place += 1;
        }
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn parts_are_joined_in_their_order() {
        const COLUMNS: &str = "id, naïve";
        const SQL: &str = joined!("SELECT ", COLUMNS, " FROM t");
        assert_eq!(SQL, "SELECT id, naïve FROM t");
    }
}
