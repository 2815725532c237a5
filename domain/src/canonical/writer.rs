//! RFC 8785 bytes of a parsed tree.
//!
//! A general serialiser sorts every object and formats every number through a buffer; this writer walks the tree once and appends to
//! one vector. It cannot fail, so an event can never be hashed over empty bytes.

use serde_json::{Map, Number, Value};

use super::SAFE_INTEGER_MAX;

/// The bytes of most events; a larger one grows the vector.
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

/// Members in the order of their keys' UTF-16 code units (RFC 8785, section 3.2.3).
///
/// The map is in the order of UTF-8 bytes. The two orders differ only where a key has a character beyond the basic plane, which UTF-16
/// writes as surrogates that sort before U+E000, so only objects with a key beyond ASCII are sorted again.
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
        // Every number of the tree has a double; ECMAScript defines how it is written.
        _ => out.extend_from_slice(ryu_js::Buffer::new().format(number.as_f64().unwrap_or(f64::NAN)).as_bytes()),
    }
}

/// A string with the escapes of RFC 8785, section 3.2.2.2: runs of plain bytes are copied whole.
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
