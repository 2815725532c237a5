//! The parse error of enums with one-word variants.

use std::fmt;

use strum::VariantNames;

/// A text that is not the name of a variant. `Display` lists the valid names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownName {
    known: &'static [&'static str],
}

impl UnknownName {
    /// The error for a text that names no variant of `T`; the `parse_err_fn` of `strum::EnumString`, which passes the text.
    pub fn of<T: VariantNames>(_text: &str) -> Self {
        Self { known: T::VARIANTS }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {}", self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use crate::claim::RegistrationType;
    use crate::lane::Lane;

    #[test]
    fn an_unknown_name_is_refused_with_the_list_of_the_known_ones() {
        assert_eq!("llm".parse(), Ok(Lane::Llm));
        let expected = "expected one of memory, llm, skill, security, squad, rsi";
        assert_eq!("LLM".parse::<Lane>().unwrap_err().to_string(), expected);
        let expected = "expected one of anonymous, service_auth";
        assert_eq!("".parse::<RegistrationType>().unwrap_err().to_string(), expected);
    }
}
