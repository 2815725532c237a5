//! Sealed values that the server gives to clients and reads back: only the server can create them.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::secret::CodeKey;

/// Seals values with the server's key (HMAC-SHA-256), each for one purpose: a seal is only valid for its purpose.
#[derive(Debug, Clone)]
pub struct Seal(CodeKey);

impl Seal {
    /// Seals with the server's key.
    pub fn new(key: CodeKey) -> Self {
        Self(key)
    }

    /// `<value>.<seal>`
    pub fn seal(&self, purpose: &str, value: &str) -> String {
        format!("{value}.{}", self.mark(purpose, value))
    }

    /// The value, if this server sealed it for this purpose.
    pub fn open<'v>(&self, purpose: &str, sealed: &'v str) -> Option<&'v str> {
        let (value, mark) = sealed.rsplit_once('.')?;
        self.is_mark(purpose, value, mark).then_some(value)
    }

    /// The seal without the value, for a value that both sides know.
    pub fn mark(&self, purpose: &str, value: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.seal(&context(purpose), value))
    }

    /// Whether this is the seal of a value.
    pub fn is_mark(&self, purpose: &str, value: &str, mark: &str) -> bool {
        BASE64_URL_SAFE_NO_PAD.decode(mark).is_ok_and(|mark| self.0.opens(&context(purpose), value, &mark))
    }
}

/// Codes are sealed with the same key in other contexts, which do not start with this prefix.
fn context(purpose: &str) -> Vec<u8> {
    format!("sealed value: {purpose}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_whole_and_for_its_purpose_alone() {
        let seal = Seal::new(CodeKey::new([7; 32]));
        let sealed = seal.seal("a", "value.with.dots");
        assert_eq!(seal.open("a", &sealed), Some("value.with.dots"));
        assert_eq!(seal.open("b", &sealed), None);
        assert_eq!(seal.open("a", &sealed.replace("value", "other")), None);
        assert_eq!(seal.open("a", "value.with.dots"), None);
        assert_eq!(seal.open("a", ""), None);
        assert_eq!(Seal::new(CodeKey::new([8; 32])).open("a", &sealed), None);
        assert!(seal.is_mark("a", "v", &seal.mark("a", "v")) && !seal.is_mark("a", "w", &seal.mark("a", "v")));
    }
}
