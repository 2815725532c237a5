//! Values with the name of a secret: assignments, members, headers, arguments of commands, elements, and
//! sentences.

use std::ops::Range;

use super::name::{self, NAME_BYTES_MAX, NameKind};
use super::value;
use super::view::QUOTE;

/// Longest value that is removed whole.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// Names of the member that has the value of a pair such as `{"name": "cookie", "value": "…"}`.
const VALUE_NAMES: [&[u8]; 7] = [b"value", b"v", b"val", b"content", b"default", b"stringValue", b"text"];

/// Words after which the credential of an authorization follows.
const SCHEMES: [&[u8]; 12] = [
    b"bearer",
    b"basic",
    b"token",
    b"apikey",
    b"api-key",
    b"key",
    b"ssws",
    b"splunk",
    b"negotiate",
    b"digest",
    b"oauth",
    b"aws4-hmac-sha256",
];

/// How a value follows its name, which decides its possible forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// `name=value` or `name: value`.
    Assigned,
    /// `--name value`.
    Flag,
    /// `"name", "value"` or `name("value"`.
    Listed,
    /// `<name>value</name>`.
    Element,
    /// `the name is value`, or a name directly followed by a value.
    Spoken,
}

#[derive(Debug, Clone)]
struct Found {
    part: Range<usize>,
    is_quoted: bool,
}

/// The part of the view that is a secret, and the name that is printed in its place.
pub type NamedSecret = (Range<usize>, &'static str);

/// The scanner of a view. It examines a name once, even if the name has several triggers.
#[derive(Debug)]
pub struct Scanner<'v> {
    view: &'v [u8],
    /// End of the last examined name.
    seen: usize,
}

impl<'v> Scanner<'v> {
    /// A scanner of a view.
    pub fn new(view: &'v [u8]) -> Self {
        Self { view, seen: 0 }
    }

    /// The secret with a name that contains the trigger at `at`.
    pub fn at(&mut self, at: usize) -> Option<NamedSecret> {
        if at < self.seen {
            return None;
        }
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | 0x80..);
        let ahead = self.view.iter().skip(at).take(NAME_BYTES_MAX).take_while(|byte| is_part(**byte)).count();
        let back = self.view.get(..at)?.iter().rev().take(NAME_BYTES_MAX).take_while(|byte| is_part(**byte)).count();
        let mut name = at - back..at + ahead;
        self.seen = name.end;
        while name.len() > 1 && matches!(self.byte(name.end - 1), Some(b'.' | b'-')) {
            name.end -= 1;
        }
        let (link, begin) = self.link(&name)?;
        let kind = self.kind(&name)?;
        if kind == NameKind::Cookie {
            return self.cookie(begin, link);
        }
        let candidate = self.value(begin, link, &name)?;
        if kind == NameKind::Authorization {
            let candidate = self.credential(&candidate).filter(|_| link != Link::Spoken)?;
            return Some((candidate.part, "authorization"));
        }
        let candidate = self.without_scheme(candidate);
        let is_secret = self.is_plausible(kind, link, &name, &candidate);
        let mark = match kind {
            NameKind::Password => "password",
            _ => "token",
        };
        is_secret.then_some((candidate.part, mark))
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.view.get(at).copied()
    }

    fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|previous| self.byte(previous))
    }

    fn text(&self, part: Range<usize>) -> &'v [u8] {
        self.view.get(part).unwrap_or_default()
    }

    /// Kind of a name; `key` after a blank and `api` is `api key`.
    fn kind(&self, name: &Range<usize>) -> Option<NameKind> {
        let of = |part: Range<usize>| std::str::from_utf8(self.text(part)).ok().and_then(name::kind);
        let is_single = self.text(name.clone()).iter().all(u8::is_ascii_alphabetic);
        let previous = name.start.checked_sub(1).filter(|previous| is_single && self.byte(*previous) == Some(b' '));
        let longer = previous.and_then(|previous| {
            let word =
                self.text(0..previous).iter().rev().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
            (word > 0).then(|| of(previous - word..name.end)).flatten()
        });
        match (longer, of(name.clone())) {
            // `Token Authorization` and similar names have the kind of the longer name.
            (Some(longer), Some(NameKind::Key)) => Some(longer),
            (_, kind) => kind,
        }
    }

    fn is_quote(byte: u8) -> bool {
        matches!(byte, b'"' | b'\'' | b'`' | QUOTE)
    }

    fn skip(&self, at: usize, is: impl Fn(u8) -> bool) -> usize {
        at + self.view.iter().skip(at).take_while(|byte| is(**byte)).count()
    }

    fn skip_blanks(&self, at: usize) -> usize {
        self.skip(at, |byte| matches!(byte, b' ' | b'\t'))
    }

    fn skip_space(&self, at: usize) -> usize {
        self.skip(at, |byte| byte.is_ascii_whitespace() || byte == b'\\')
    }

    /// The form in which a value follows the name, and the start of the value.
    fn link(&self, name: &Range<usize>) -> Option<(Link, usize)> {
        let previous = self.before(name.start);
        // `${NAME:-…}`.
        if previous == Some(b'{') && self.before(name.start - 1) == Some(b'$') {
            return None;
        }
        let opener = previous.filter(|byte| Self::is_quote(*byte));
        let is_quoted = opener.is_some() && self.byte(name.end) == opener;
        let is_flag = self.byte(name.start) == Some(b'-');
        let after = if is_quoted { name.end + 1 } else { name.end };
        let after = if is_quoted { self.skip(after, |byte| matches!(byte, b']' | b')')) } else { after };
        let next = self.skip_blanks(after);
        match self.byte(next)? {
            // `$NAME:`, and a part of a name such as `arn:aws:secretsmanager:…:secret:…`.
            b':' if previous == Some(b'$') || previous == Some(b':') && next == name.end => None,
            b'=' | b':' => self.assigned(next),
            b'\n' if !is_flag => self.listed(self.skip_space(next), false).filter(|(link, _)| *link == Link::Assigned),
            b'?' | b'+' if self.byte(next + 1) == Some(b'=') => Some((Link::Assigned, self.skip_blanks(next + 2))),
            b'-' if self.byte(next + 1) == Some(b'>') => Some((Link::Assigned, self.skip_blanks(next + 2))),
            b'%' if matches!(self.text(next..next + 3), b"%3D" | b"%3d" | b"%3A" | b"%3a") => {
                Some((Link::Assigned, next + 3))
            }
            b'>' if previous == Some(b'<') => Some((Link::Element, self.skip_space(next + 1))),
            b',' if is_quoted => self.listed(self.skip_space(next + 1), is_flag),
            b'(' if self.byte(next + 1).is_some_and(Self::is_quote) => Some((Link::Listed, next + 1)),
            _ if is_quoted => {
                self.listed(self.skip_space(after), false).filter(|_| next > after || opener != Some(QUOTE))
            }
            _ if is_flag && next > after => Some((Link::Flag, self.skip_space(next))),
            b'\\' | b'\n' if is_flag => Some((Link::Flag, self.skip_space(next))),
            _ if next > after => Some((Link::Spoken, self.spoken(next))),
            _ => None,
        }
    }

    fn assigned(&self, at: usize) -> Option<(Link, usize)> {
        let end = self.skip(at, |byte| matches!(byte, b'=' | b':' | b'>'));
        let sign = self.text(at..end);
        let is_sign = sign.len() <= 3 && sign != b"::" && !(sign == b":" && self.text(end..end + 2) == b"//");
        let begin = self.skip_blanks(end);
        // `"token": {"value": "…"}`.
        let inner = (self.byte(begin) == Some(b'{')).then(|| self.listed(self.skip_space(begin + 1), false)).flatten();
        let inner = inner.filter(|(link, _)| *link == Link::Assigned);
        is_sign.then(|| inner.unwrap_or((Link::Assigned, begin)))
    }

    /// The value after a name in quotes: the member `value` of a pair, or the next element of a list.
    fn listed(&self, at: usize, is_flag: bool) -> Option<(Link, usize)> {
        let quote = self.byte(at).filter(|byte| Self::is_quote(*byte));
        let begin = at + usize::from(quote.is_some());
        let end = self.skip(begin, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_name = VALUE_NAMES.iter().any(|value_name| value_name.eq_ignore_ascii_case(self.text(begin..end)));
        let after = if quote.is_some() && self.byte(end) == quote { end + 1 } else { end };
        let sign = self.skip_blanks(after);
        if is_name && matches!(self.byte(sign), Some(b':' | b'=')) {
            let value = self.skip_blanks(sign + 1);
            // `{"value": {"stringValue": "…"}}`, as spans have it.
            if self.byte(value) == Some(b'{') {
                return self.listed(self.skip_space(value + 1), is_flag);
            }
            return Some((Link::Assigned, value));
        }
        quote.map(|_| (if is_flag { Link::Flag } else { Link::Listed }, at))
    }

    /// Skips the words of a sentence between a name and its value.
    fn spoken(&self, mut at: usize) -> usize {
        // Any word may follow `for`: `the password for ada is …`.
        let mut is_any = false;
        for _ in 0..4 {
            let end = self.skip(at, |byte| byte.is_ascii_alphabetic());
            let is_filler =
                [&b"is"[..], b"was", b"to", b"for", b"of", b"now", b"the", b"be", b"it", b"this", b"ist", b"set"]
                    .contains(&self.text(at..end));
            if !(is_filler || is_any && end > at) {
                break;
            }
            is_any = matches!(self.text(at..end), b"for" | b"of");
            let after = self.skip(end, |byte| matches!(byte, b' ' | b':' | b'='));
            if after == end {
                break;
            }
            at = after;
        }
        at
    }

    fn value(&self, at: usize, link: Link, name: &Range<usize>) -> Option<Found> {
        // `b"…"`, `f"…"`, `$'…'`, `Some("…"`.
        let prefix = self.skip(at, |byte| matches!(byte, b'b' | b'r' | b'f' | b'u' | b'$' | b'@'));
        let begin = if prefix - at <= 2 && self.byte(prefix).is_some_and(Self::is_quote) { prefix } else { at };
        let quote = self.byte(begin).filter(|byte| Self::is_quote(*byte));
        if let Some(quote) = quote {
            let rest = self.text(begin + 1..(begin + 1 + VALUE_BYTES_MAX).min(self.view.len()));
            let is_end =
                |byte: &u8| *byte == quote || *byte == QUOTE || *byte == b'\n' && quote != QUOTE && quote != b'`';
            let length = rest.iter().position(is_end).unwrap_or(rest.len());
            return (length > 0).then(|| Found { part: begin + 1..begin + 1 + length, is_quoted: true });
        }
        let previous = self.before(name.start);
        let is_parameter = matches!(previous, Some(b'?' | b'&'));
        let is_shell = link == Link::Flag
            || link == Link::Assigned
                && at == name.end + 1
                && matches!(previous, None | Some(b' ' | b'\n' | b'\t' | b'"' | b'\'' | QUOTE));
        let is_end = |byte: &u8| {
            byte.is_ascii_whitespace()
                || Self::is_quote(*byte)
                || match byte {
                    b'&' | b'#' => is_parameter,
                    b'<' => link == Link::Element || !is_shell,
                    b',' | b';' | b')' | b'}' | b']' | b'>' | b'|' => !is_shell && link != Link::Element,
                    _ => false,
                }
        };
        let rest = self.text(at..(at + VALUE_BYTES_MAX).min(self.view.len()));
        let mut length = rest.iter().position(is_end).unwrap_or(rest.len());
        if link == Link::Spoken {
            length -=
                rest.get(..length)?.iter().rev().take_while(|byte| matches!(byte, b'.' | b':' | b'!' | b'?')).count();
        }
        // A type between a name and its value: `password: &str = "…"`.
        let end = at + length;
        let sign = self.skip_blanks(end);
        if self.byte(sign) == Some(b'=') && sign > end && link == Link::Assigned {
            let value = self.skip_blanks(sign + 1);
            return if self.byte(value).is_some_and(Self::is_quote) { self.value(value, link, name) } else { None };
        }
        (length > 0).then_some(Found { part: at..end, is_quoted: false })
    }

    /// The credential of an authorization: the text after a scheme, including parameters.
    fn credential(&self, found: &Found) -> Option<Found> {
        let begin = found.part.start;
        let rest = self.text(begin..(begin + VALUE_BYTES_MAX).min(self.view.len()));
        let line =
            rest.get(..rest.iter().position(|byte| matches!(byte, b'\n' | b'\r' | &QUOTE)).unwrap_or(rest.len()))?;
        let word = line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        let blanks = line.iter().skip(word).take_while(|byte| **byte == b' ').count();
        let has_scheme = word > 0 && word <= 20 && blanks > 0;
        let credential = line.get(if has_scheme { word + blanks } else { 0 }..)?;
        // Parameters have quotes and blanks; a credential has none.
        let names = credential.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let has_parameters =
            has_scheme && names > 0 && credential.get(names) == Some(&b'=') && credential.contains(&b',');
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || Self::is_quote(*byte) || *byte == b'<';
        let length = if has_parameters {
            credential.len()
        } else {
            credential.iter().position(is_end).unwrap_or(credential.len())
        };
        let credential = credential.get(..length)?;
        let is_plain = credential.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_punctuation());
        let begin = begin + if has_scheme { word + blanks } else { 0 };
        let is_some = length >= 6 && !is_plain && !value::is_placeholder(credential) && !value::is_code(credential);
        is_some.then_some(Found { part: begin..begin + length, is_quoted: found.is_quoted })
    }

    /// Removes `Bearer ` and similar schemes from a value.
    fn without_scheme(&self, found: Found) -> Found {
        let text = self.text(found.part.clone());
        let blank = text.iter().position(|byte| *byte == b' ');
        let is_scheme = |word: &[u8]| SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(word));
        match blank.filter(|blank| found.is_quoted && text.get(..*blank).is_some_and(is_scheme)) {
            Some(blank) => Found { part: found.part.start + blank + 1..found.part.end, ..found },
            None => found,
        }
    }

    /// The pairs of a cookie header, if a pair looks like a credential.
    fn cookie(&self, begin: usize, link: Link) -> Option<NamedSecret> {
        if matches!(link, Link::Spoken | Link::Element) {
            return None;
        }
        let quote = self.byte(begin).filter(|byte| Self::is_quote(*byte));
        let begin = begin + usize::from(quote.is_some());
        let rest = self.text(begin..(begin + VALUE_BYTES_MAX).min(self.view.len()));
        let is_end = |byte: &u8| {
            quote.map_or(matches!(byte, b'\n' | b'\r' | b'"' | b'\'') || *byte == QUOTE, |quote| {
                *byte == quote || *byte == QUOTE
            })
        };
        let header = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len()))?;
        let is_secret = |pair: &[u8]| {
            let equals = pair.iter().position(|byte| *byte == b'=');
            equals
                .and_then(|equals| pair.get(equals + 1..))
                .is_some_and(|value| value.len() >= 12 && value::is_mixed(value) && !value::is_placeholder(value))
        };
        let is_found = header.split(|byte| *byte == b';').any(is_secret);
        is_found.then(|| (begin..begin + header.len(), "cookie"))
    }

    fn is_plausible(&self, kind: NameKind, link: Link, name: &Range<usize>, candidate: &Found) -> bool {
        let text = self.text(candidate.part.clone());
        if value::is_placeholder(text) || !candidate.is_quoted && value::is_code(text) {
            return false;
        }
        let has_blank = text.iter().any(u8::is_ascii_whitespace);
        let is_loud = self
            .text(name.clone())
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
        match kind {
            NameKind::Password if has_blank => candidate.is_quoted && value::is_phrase(self.text(name.clone()), text),
            NameKind::Password => {
                let is_given = link == Link::Flag || link == Link::Assigned && (candidate.is_quoted || is_loud);
                text.len() >= 4 && is_given && !value::is_ordinary(text)
                    || text.len() >= 6 && value::is_mixed(text) && !(link == Link::Listed && value::is_digest(text))
            }
            _ if has_blank => false,
            NameKind::Token => {
                let is_header = self.text(name.clone()).contains(&b'-');
                let is_written = candidate.is_quoted || is_loud || is_header || self.is_after_parameter(name);
                let is_given = link == Link::Flag || link == Link::Assigned && is_written;
                let is_chosen =
                    !value::is_of_words(text) || candidate.is_quoted && !text.iter().any(u8::is_ascii_punctuation);
                value::is_random(text) && !(link == Link::Spoken && value::is_of_commit(text))
                    || is_given && text.len() >= 8 && value::is_mixed(text) && is_chosen
            }
            _ => {
                let is_path = text.iter().any(|byte| matches!(byte, b'.' | b':'))
                    || text
                        .split(|byte| *byte == b'/')
                        .next()
                        .is_some_and(|first| first.iter().all(u8::is_ascii_lowercase));
                let is_digest = value::is_digest(text) && !is_loud && link != Link::Flag;
                value::is_random(text)
                    && text.len() >= 20
                    && !value::is_uuid(text)
                    && !is_digest
                    && !is_path
                    && link != Link::Spoken
            }
        }
    }

    fn is_after_parameter(&self, name: &Range<usize>) -> bool {
        self.before(name.start).is_some_and(|previous| matches!(previous, b'?' | b'&'))
    }
}
