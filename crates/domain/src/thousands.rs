//! Whole numbers as people read them.

use std::fmt::Display;

/// A whole number with commas between its thousands: `-1,234,567`.
pub fn thousands(number: impl Display) -> String {
    let number = number.to_string();
    let (sign, digits) = number.strip_prefix('-').map_or(("", number.as_str()), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_commas() {
        let texts = [0, 37, 999, 1000, 10_000, 1_234_567].map(thousands);
        assert_eq!(texts, ["0", "37", "999", "1,000", "10,000", "1,234,567"]);
        assert_eq!((thousands(-999), thousands(-1000)), ("-999".to_owned(), "-1,000".to_owned()));
    }
}
