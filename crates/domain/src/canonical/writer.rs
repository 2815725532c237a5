//! Writes the RFC 8785 bytes of a parsed value.
//!
//! A general serialiser sorts every object and formats every number through a buffer. This writer walks the value once
//! and appends to one vector. It cannot fail, so an event can never be hashed over empty bytes.

use serde_json::{Map, Number, Value};

use super::SAFE_INTEGER_MAX;

/// Initial capacity: the size of most events.
const CAPACITY: usize = 1024;

/// The canonical bytes (RFC 8785) of a value that [`super::parse_object`] returned.
///
/// Numbers beyond ±(2^53 − 1), which the parser rejects, are written as the nearest double (RFC 8785, section 3.2.2.3).
pub fn canonical_bytes(members: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::with_capacity(CAPACITY);
    write_object(members, &mut out);
    out
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => write_object(members, out),
    }
}

/// Writes members in the order of their keys' UTF-16 code units (RFC 8785, section 3.2.3).
///
/// The map is ordered by UTF-8 bytes. The orders differ only for keys with characters beyond the basic plane, which
/// UTF-16 encodes as surrogates that sort before U+E000. Only objects with a non-ASCII key are therefore sorted again.
fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'{');
    let is_sorted = members.keys().all(|key| key.is_ascii()) && members.keys().is_sorted();
    if is_sorted {
        write_members(members.iter(), out);
    } else {
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
        write_members(members.into_iter(), out);
    }
    out.push(b'}');
}

fn write_members<'v>(members: impl Iterator<Item = (&'v String, &'v Value)>, out: &mut Vec<u8>) {
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write_value(value, out);
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    match number.as_i64() {
        Some(whole) if (-SAFE_INTEGER_MAX..=SAFE_INTEGER_MAX).contains(&whole) => {
            out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
        }
        // Every number of the value has a double; ECMAScript defines its format.
        _ => out.extend_from_slice(ryu_js::Buffer::new().format(number.as_f64().unwrap_or(f64::NAN)).as_bytes()),
    }
}

/// Writes a string with the escapes of RFC 8785, section 3.2.2.2. Copies runs of plain bytes at once.
fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}
