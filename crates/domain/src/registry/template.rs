//! Templates of summaries: text with members of a payload, and parts that are left out if a member is absent.

use super::value::Members;

/// A parsed template.
#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Member(Member),
    /// `[ … ]`: left out if one of its members is absent.
    Optional(Vec<Part>),
}

#[derive(Debug)]
struct Member {
    /// `a.b` is the member `b` of the object `a`.
    path: String,
    /// Noun of a number in the singular.
    noun: Option<String>,
    default: Option<String>,
}

impl Template {
    /// Parses `Ran {skill}[ · {duration_ms}]`. The error says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('[') {
            parts.extend(plain(&rest[..at])?);
            let (inner, after) = rest[at + 1..].split_once(']').ok_or("a [ without ]")?;
            let inner = plain(inner)?;
            if !inner.iter().any(|part| matches!(part, Part::Member(_))) {
                return Err("a [ … ] without a member");
            }
            parts.push(Part::Optional(inner));
            rest = after;
        }
        parts.extend(plain(rest)?);
        if parts.is_empty() { Err("no text") } else { Ok(Self(parts)) }
    }

    /// The text; `None` if a member outside of `[ … ]` is absent.
    pub(super) fn written(&self, members: &Members<'_>) -> Option<String> {
        written(&self.0, members)
    }
}

fn written(parts: &[Part], members: &Members<'_>) -> Option<String> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Member(member) => {
                let value = members.written(&member.path, member.noun.as_deref());
                text.push_str(value.as_deref().or(member.default.as_deref())?);
            }
            Part::Optional(parts) => text.push_str(&written(parts, members).unwrap_or_default()),
        }
    }
    Some(text)
}

/// Text and members, without `[ … ]`.
fn plain(text: &str) -> Result<Vec<Part>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        push(&mut parts, &rest[..at])?;
        let (member, after) = rest[at + 1..].split_once('}').ok_or("a { without }")?;
        parts.push(Part::Member(Member::parse(member)?));
        rest = after;
    }
    push(&mut parts, rest)?;
    Ok(parts)
}

fn push(parts: &mut Vec<Part>, text: &str) -> Result<(), &'static str> {
    if text.contains(['[', ']', '{', '}']) {
        return Err("a bracket without its other half, or one inside another");
    }
    if crate::foreign::visible(text) != text {
        return Err("a character that cannot be seen");
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Ok(())
}

impl Member {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (text, default) = match text.split_once('?') {
            Some((text, default)) => (text, Some(default)),
            None => (text, None),
        };
        let (path, noun) = match text.split_once(':') {
            Some((path, noun)) => (path, Some(noun)),
            None => (text, None),
        };
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if !path.split('.').all(is_name) {
            return Err("a { } without the name of a member");
        }
        let is_shown =
            |text: &str| !text.is_empty() && !text.contains(['[', '{']) && crate::foreign::visible(text) == text;
        if !noun.into_iter().chain(default).all(is_shown) {
            return Err("an empty noun or default, or one with a bracket");
        }
        Ok(Self { path: path.to_owned(), noun: noun.map(str::to_owned), default: default.map(str::to_owned) })
    }
}
