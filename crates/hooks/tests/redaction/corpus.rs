//! Texts with and without secrets, made from the forms of `secrets.tsv` and `harmless.tsv`. Equal seeds make equal texts.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;

const SECRETS: &str = include_str!("secrets.tsv");
const HARMLESS: &str = include_str!("harmless.tsv");

/// Places of a secret that has a known form.
const ANYWHERE: [&str; 14] = [
    "§",
    "curl -H 'X-Thing: §' https://x.example",
    "export THING=§ && make",
    "use § for it",
    r#"{"thing":"§"}"#,
    "(§)",
    r#"thing("§")"#,
    "a,§,b",
    "line\n§\nline",
    "https://x.example/?q=§&b=c",
    "<b>§</b>",
    "It is §.",
    "thing: §;",
    r#"{"a":["x","§"]}"#,
];

const WORDS: [&str; 24] = [
    "summer", "dragon", "coffee", "hunter", "welcome", "monkey", "Lovelace", "engine", "garden", "violet", "Berlin",
    "winter", "pepper", "rocket", "orange", "letmein", "Passw0rd", "shadow", "Turing", "silver", "island", "copper",
    "marble", "thunder",
];

/// A text of the corpus.
#[derive(Debug, Clone)]
pub struct Sample {
    pub kind: String,
    pub text: String,
    /// Parts of the secret that must be removed completely.
    pub parts: Vec<String>,
}

impl Sample {
    /// The longest remainder of the secret in a text: one of its words, or eight characters.
    pub fn rest_in(&self, text: &str) -> Option<String> {
        self.parts.iter().find_map(|part| {
            let letters: Vec<char> = part.chars().collect();
            let length = letters.len().min(if letters.len() < 20 { 6 } else { 10 });
            letters.windows(length).map(String::from_iter).find(|rest| text.contains(rest.as_str()))
        })
    }
}

/// Numbers that look random (`SplitMix64`).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % below as u64).unwrap()
    }

    fn of(&mut self, alphabet: &str, count: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..count).map(|_| letters[self.next(letters.len())]).collect()
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.next(WORDS.len())]
    }

    /// A password that a person chose: words, digits and signs.
    fn password(&mut self) -> String {
        let (first, second, number) = (self.word(), self.word(), self.next(9900) + 100);
        match self.next(6) {
            0 => format!("{first}{number}"),
            1 => format!("{first}-{second}-{number}"),
            2 => format!("{first}{number}!"),
            3 => format!("{}{number}", first.replace('e', "3").replace('o', "0")),
            4 => format!("{}.{}", self.of("abcdefghijkmnpqrstuvwxyz23456789", 9), number),
            _ => self.of("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", 14),
        }
    }

    fn expanded(&mut self, form: &str, count: usize) -> String {
        const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const DIGITS: &str = "0123456789";
        match form {
            "a" => self.of(&format!("{LETTERS}{DIGITS}"), count),
            "x" => self.of(LETTERS, count),
            "h" => self.of("0123456789abcdef", count),
            "H" => self.of("0123456789ABCDEF", count),
            "d" => self.of(DIGITS, count),
            "u" => self.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", count),
            "n" => self.of("abcdefghijklmnopqrstuvwxyz0123456789", count),
            "l" => self.of("abcdefghijklmnopqrstuvwxyz", count),
            // The last character is not a separator, so that the end of the token is unambiguous.
            "b" => self.of(&format!("{LETTERS}{DIGITS}-_"), count - 1) + &self.of(LETTERS, 1),
            "s" => self.of(&format!("{LETTERS}{DIGITS}+/"), count - 1) + &self.of(LETTERS, 1),
            "g" => self.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", count),
            "k" => (0..count).map(|_| self.of(&format!("{LETTERS}{DIGITS}+/"), 64) + "\n").collect(),
            "U" => [8, 4, 4, 4, 12].map(|length| self.of("0123456789abcdef", length)).join("-"),
            "j" => {
                let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
                let (head, body) = (
                    json!({ "alg": "HS256", "typ": "JWT" }),
                    json!({ "sub": self.of(DIGITS, 10), "iat": 1_767_225_600 }),
                );
                format!("{}.{}.{}", part(head), part(body), self.expanded("b", 43))
            }
            "p" => self.password(),
            "q" => {
                self.of(&format!("{LETTERS}{DIGITS}!#%*+-.:=?@^_~"), 16) + &self.of(LETTERS, 2) + &self.of(DIGITS, 2)
            }
            "w" => (0..5).map(|_| self.word()).collect::<Vec<_>>().join(" "),
            other => panic!("unknown form {other}"),
        }
    }

    /// A form with its parts in place of the braces, and these parts.
    fn made(&mut self, form: &str) -> (String, Vec<String>) {
        let (mut text, mut parts, mut rest) = (String::new(), Vec::new(), form);
        while let Some((literal, after)) = rest.split_once('{') {
            text.push_str(literal);
            let (name, later) = after.split_once('}').unwrap_or_default();
            let count = name.get(1..).unwrap_or_default();
            let is_form = name.chars().next().is_some_and(|letter| "axhHdunlbsgkUjpqw".contains(letter));
            if !is_form || count.chars().any(|digit| !digit.is_ascii_digit()) {
                // A brace of the text itself.
                text.push('{');
                rest = after;
                continue;
            }
            let part = self.expanded(&name[..1], count.parse().unwrap_or(0));
            text.push_str(&part);
            parts.push(part);
            rest = later;
        }
        text.push_str(rest);
        (text, parts)
    }
}

fn rows(file: &'static str) -> impl Iterator<Item = Vec<String>> {
    let lines = file.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        line.split('\t')
            .map(|column| column.replace("\\\\", "\u{0}").replace("\\n", "\n").replace('\u{0}', "\\"))
            .collect()
    })
}

/// A text for each row of the secrets, `times` times; a secret with a recognisable form is placed differently each time.
pub fn secrets(seed: u64, times: usize) -> Vec<Sample> {
    let mut dice = Dice(seed);
    let mut samples = Vec::new();
    for (nth, row) in rows(SECRETS).enumerate() {
        let [kind, form, place] = <[String; 3]>::try_from(row).unwrap();
        for time in 0..times {
            let (secret, mut parts) = dice.made(&form);
            if parts.iter().any(|part| part.len() >= 20) {
                parts.retain(|part| part.len() >= 20);
            }
            let parts: Vec<String> = parts.iter().flat_map(|part| part.lines()).map(str::to_owned).collect();
            let place = if place == "*" { ANYWHERE[(nth + time * 5) % ANYWHERE.len()] } else { place.as_str() };
            let is_json = serde_json::from_str::<serde_json::Value>(&place.replace('§', ""))
                .is_ok_and(|value| !value.is_number());
            let written = if is_json { json!(secret).to_string().trim_matches('"').to_owned() } else { secret };
            samples.push(Sample { kind: kind.clone(), text: place.replace('§', &written), parts });
        }
    }
    samples
}

/// `times` texts without a secret for each row.
pub fn harmless(seed: u64, times: usize) -> Vec<Sample> {
    let mut dice = Dice(seed);
    let rows: Vec<_> = rows(HARMLESS).map(|row| <[String; 2]>::try_from(row).unwrap()).collect();
    let made = rows.iter().flat_map(|row| std::iter::repeat_n(row, times));
    made.map(|[kind, form]| Sample { kind: kind.clone(), text: dice.made(form).0, parts: Vec::new() }).collect()
}
