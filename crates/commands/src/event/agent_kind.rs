//! The agent kind of a chain, as an option.

/// Parses an agent kind. It is part of a file name, so only safe characters are allowed.
pub fn agent_id(text: &str) -> Result<String, &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let good = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    if good { Ok(text.to_owned()) } else { Err("expected letters, digits, - and _") }
}
