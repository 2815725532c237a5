//! Tests of values: placeholders, code, words, and random characters.

/// Placeholders of secrets, in lower case and without other characters than letters and digits.
const PLACEHOLDERS: [&str; 44] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "string",
    "str",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "undefined",
    "unknown",
    "changeme",
    "changeit",
    "example",
    "required",
    "optional",
    "redacted",
    "hidden",
    "masked",
    "placeholder",
    "yourpassword",
    "mypassword",
    "yoursecret",
    "mysecret",
    "yourtoken",
    "mytoken",
    "yourapikey",
    "myapikey",
    "apikey",
    "accesstoken",
    "bearer",
    "basic",
    "self",
    "default",
    "empty",
    "text",
    "number",
    "boolean",
    "object",
    "value",
    "bytes",
];

/// Starts of placeholders and of code.
const PLACEHOLDER_BEGINS: [&[u8]; 16] = [
    b"$",
    b"<",
    b"{{",
    b"{",
    b"%(",
    b"%{",
    b"[redacted",
    b"[REDACTED",
    b"process.env",
    b"os.environ",
    b"os.getenv",
    b"env.",
    b"import.meta",
    b"...",
    b"your-",
    b"your_",
];

/// Whether a value is a placeholder, such as `${TOKEN}`, `<password>`, `********` or `changeme`.
pub fn is_placeholder(value: &[u8]) -> bool {
    if PLACEHOLDER_BEGINS.iter().any(|begin| value.starts_with(begin)) && !is_crypt(value) || value.starts_with(b"@@") {
        return true;
    }
    let distinct = distinct(value);
    if distinct <= 2 || value.len() >= 8 && distinct <= 3 && !value.iter().any(u8::is_ascii_digit) {
        return true;
    }
    let plain: Vec<u8> = value.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    PLACEHOLDERS.iter().any(|placeholder| placeholder.as_bytes() == plain)
}

/// A value that starts with `$` and is not a variable: `$ecret-1` or a hash.
fn is_crypt(value: &[u8]) -> bool {
    let Some((b'$', name)) = value.split_first() else { return false };
    !(name.starts_with(b"{")
        || name.starts_with(b"(")
        || name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'))
}

/// Whether a value is code: a call, a path to a member, a type.
pub fn is_code(value: &[u8]) -> bool {
    let ends = value
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b')' | b'(' | b']' | b'[' | b'}' | b';' | b',' | b'?'))
        .count();
    let value = if value.contains(&b'(') { value } else { value.get(..value.len() - ends).unwrap_or_default() };
    let is_call = value.iter().position(|byte| *byte == b'(').is_some_and(|open| {
        open > 0
            && value.iter().take(open).all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':'))
    });
    let mut parts = value.split(|byte| matches!(byte, b'.' | b'[' | b']')).filter(|part| !part.is_empty());
    let is_index = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_path = value.iter().any(|byte| matches!(byte, b'.' | b'['))
        && parts.next().is_some_and(is_word)
        && parts.all(|part| is_word(part) || is_index(part) && value.contains(&b'['))
        && !is_random(value);
    is_call
        || is_path
        || value.windows(2).any(|pair| pair == b"::")
        || matches!(value.first(), Some(b'&' | b'(' | b'[' | b'*'))
}

/// Whether a word has letters, and digits at its end only.
fn is_word(part: &[u8]) -> bool {
    let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    letters > 0 && part.iter().skip(letters).all(u8::is_ascii_digit) && part.len() - letters <= 4
}

/// Whether a value has characters of two kinds, as a chosen password has.
pub fn is_mixed(value: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let (letter, digit) = (has(u8::is_ascii_alphabetic), has(u8::is_ascii_digit));
    let symbol = has(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'.' | b'-' | b'_' | b'/' | b':' | b','));
    letter && (digit || symbol) || digit && symbol
}

/// Whether a value looks like random characters: long enough, mixed, without words, and of a high entropy.
pub fn is_random(value: &[u8]) -> bool {
    if value.len() < 16 || !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return false;
    }
    let is_hex = value.iter().all(u8::is_ascii_hexdigit);
    let is_upper = !value.iter().any(u8::is_ascii_lowercase);
    let least = if is_hex || is_upper || value.len() < 20 { 2.8 } else { 3.3 };
    entropy(value) >= least && !is_of_words(value)
}

/// Whether the parts of a value, between separators, are words, numbers or capitalised words: `my-app-2024`, `src/lib.rs`, `getUserById`.
pub fn is_of_words(value: &[u8]) -> bool {
    let is_separator = |byte: &u8| {
        matches!(
            byte,
            b'-' | b'_'
                | b'.'
                | b'/'
                | b':'
                | b'='
                | b'@'
                | b'~'
                | b'+'
                | b','
                | b'\\'
                | b'?'
                | b'&'
                | b'#'
                | b'['
                | b']'
        )
    };
    let mut letters = 0;
    let is_part = |part: &[u8]| {
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        let changes = part.windows(2).filter(|pair| begins_capital(pair)).count();
        digits == part.len() && digits <= 12 || digits <= 4 && is_word(part) && changes <= part.len() / 4
    };
    for part in value.split(is_separator).filter(|part| !part.is_empty()) {
        if !is_part(part) {
            return false;
        }
        letters += part.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    }
    letters > 0
}

/// Whether a capital follows a small letter.
fn begins_capital(pair: &[u8]) -> bool {
    matches!(pair, [first, second] if first.is_ascii_lowercase() && second.is_ascii_uppercase())
}

/// Whether a text with blanks is a passphrase rather than a sentence about one.
pub fn is_phrase(name: &[u8], text: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_of_words =
        [&b"phrase"[..], b"mnemonic"].iter().any(|word| name.windows(word.len()).any(|window| window == *word));
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    let is_plain = !text.iter().any(|byte| matches!(byte, b'.' | b'?' | b':' | b'!' | b'(' | b'%' | b'{'));
    is_of_words && (4..=24).contains(&words) && is_plain
        || words <= 4 && text.iter().any(u8::is_ascii_digit) && text.len() <= 40
}

/// Values that are not passwords although the member's name says so: words of forms and schemas.
pub fn is_ordinary(text: &[u8]) -> bool {
    let is_label = text.first().is_some_and(u8::is_ascii_uppercase) && text.iter().skip(1).all(u8::is_ascii_lowercase);
    let is_path = matches!(text.first(), Some(b'/' | b'.' | b'~')) && text.iter().skip(1).any(|byte| *byte == b'/');
    is_label && text.len() < 14
        || is_path
        || text.ends_with(b"_password")
        || text.ends_with(b"-password")
        || text.ends_with(b"Password")
}

/// Whether a value is a UUID.
pub fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value
            .iter()
            .enumerate()
            .all(|(nth, byte)| if matches!(nth, 8 | 13 | 18 | 23) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// Whether a value may be a commit id, which sentences about tokens also contain.
pub fn is_of_commit(value: &[u8]) -> bool {
    value.len() <= 40 && value.iter().all(u8::is_ascii_hexdigit)
}

/// Whether a value is a digest in hexadecimal digits, with or without the name of the function.
pub fn is_digest(value: &[u8]) -> bool {
    let digits = value
        .iter()
        .rposition(|byte| matches!(byte, b':' | b'-'))
        .map_or(value, |colon| value.get(colon + 1..).unwrap_or_default());
    matches!(digits.len(), 32 | 40 | 56 | 64 | 96 | 128) && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Shannon entropy in bits a character.
pub fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX));
    let bits = |count: &u32| f64::from(*count) / length * (length / f64::from(*count)).log2();
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

fn distinct(value: &[u8]) -> usize {
    let mut occurs = [false; 256];
    for byte in value {
        if let Some(place) = occurs.get_mut(usize::from(*byte)) {
            *place = true;
        }
    }
    occurs.iter().filter(|is_seen| **is_seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_characters_differ_from_words_paths_and_names() {
        for random in [
            "9f86d081884c7d659a2feaa0c55ad015",
            "wJalrXUtnFEMIK7MDENGbPxRfiCYzzkeyA",
            "Zm9vYmFyOmJhcmZvbzEyMzQ1",
            "JBSWY3DPEHPK3PXPGEZDGNBV",
        ] {
            assert!(is_random(random.as_bytes()), "{random}");
        }
        for word in [
            "my-application-secret-name",
            "src/redaction/value.rs",
            "getUserByAccessToken",
            "aaaaaaaaaaaaaaaaaaaa",
            "https://example.com/path/to",
            "short1",
            "arn:aws:iam::123456789012:role/admin",
            "projects/example/secrets/name",
            "2024-01-01-backup-file",
        ] {
            assert!(!is_random(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn placeholders_and_code_are_no_secrets() {
        for placeholder in [
            "${TOKEN}",
            "$TOKEN",
            "<password>",
            "********",
            "xxxxxxxx",
            "changeme",
            "YOUR_API_KEY",
            "{{ secret }}",
            "null",
            "process.env.KEY",
        ] {
            assert!(is_placeholder(placeholder.as_bytes()), "{placeholder}");
        }
        for secret in ["hunter2", "p@ssw0rd", "$ecret-word-1", "correct-horse"] {
            assert!(!is_placeholder(secret.as_bytes()), "{secret}");
        }
        for code in ["get_token()", "self.password", "config.db.password", "Token::new", "&str"] {
            assert!(is_code(code.as_bytes()), "{code}");
        }
    }
}
