//! Names of values that are secrets, in any spelling: `API_KEY`, `apiKey`, `x-api-key`, `db.password`.

/// Kinds of names, each with the values that count as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A password: any value except a placeholder.
    Password,
    /// A token or key: a value that looks random.
    Token,
    /// A name that only sometimes belongs to a secret: a value that is certainly random.
    Key,
    /// A header with a scheme and a credential.
    Authorization,
    /// A header of pairs.
    Cookie,
}

/// Parts of names that trigger an examination, in lower case.
pub const TRIGGERS: [&str; 22] = [
    "pass", "pwd", "secret", "token", "key", "auth", "cred", "cookie", "sig", "jwt", "contrase", "kennwort", "senha",
    "mdp", "pw", "sess", "sid", "mnemonic", "seed", "phrase", "_pat", "psk",
];

/// Maximum length of an examined name.
pub const NAME_BYTES_MAX: usize = 64;

/// Ends of names of passwords, without separators.
const PASSWORDS: [&str; 20] = [
    "password",
    "passwd",
    "passwort",
    "passphrase",
    "passcode",
    "kennwort",
    "contrasena",
    "contraseña",
    "senha",
    "motdepasse",
    "mnemonic",
    "seedphrase",
    "recoveryphrase",
    "userpass",
    "dbpass",
    "keypass",
    "storepass",
    "smtppass",
    "rootpw",
    "bindpw",
];
const PASSWORD_WORDS: [&str; 6] = ["pass", "pwd", "pw", "mdp", "pgpass", "psk"];
/// Ends of names of tokens and keys.
const TOKENS: [&str; 36] = [
    "secret",
    "token",
    "jwt",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "privkey",
    "authkey",
    "servicekey",
    "accountkey",
    "masterkey",
    "signingkey",
    "encryptionkey",
    "dbkey",
    "databasekey",
    "sharedkey",
    "storagekey",
    "licensekey",
    "licencekey",
    "deploykey",
    "sshkey",
    "accesskeyid",
    "adminkey",
    "appkey",
    "clientkey",
    "consumerkey",
    "sessionkey",
    "credential",
    "credentials",
    "creds",
    "keydata",
    "secretbase",
    "subscriptionkey",
    "hmackey",
    "serverkey",
];
const TOKEN_WORDS: [&str; 6] = ["auth", "sig", "signature", "seed", "authtok", "pat"];
/// Last words of names with values that are often ids.
const KEY_WORDS: [&str; 5] = ["sid", "session", "sessionid", "sessid", "phpsessid"];
/// Words at the end of a name that say where or when a secret is used.
const TAILS: [&str; 16] = [
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "stage",
    "test",
    "live",
    "base",
    "old",
    "new",
    "current",
    "value",
    "ro",
    "rw",
    "b64",
];
/// Words before `token` that make it an ordinary value.
const OTHER_TOKENS: [&str; 18] = [
    "public",
    "csrf",
    "xsrf",
    "authenticity",
    "next",
    "page",
    "pagination",
    "continuation",
    "cancellation",
    "cancel",
    "sync",
    "cursor",
    "lock",
    "change",
    "eos",
    "bos",
    "pad",
    "unk",
];
/// Words before `key` that make it an ordinary value.
const OTHER_KEYS: [&str; 32] = [
    "public",
    "pub",
    "primary",
    "foreign",
    "cache",
    "sort",
    "partition",
    "idempotency",
    "hot",
    "object",
    "row",
    "map",
    "dict",
    "group",
    "lookup",
    "index",
    "unique",
    "natural",
    "schema",
    "sequence",
    "bucket",
    "host",
    "routing",
    "shard",
    "range",
    "hash",
    "translation",
    "i18n",
    "query",
    "issue",
    "project",
    "deduplication",
];

/// The kind of a name. `name` is written with letters, digits, `_`, `-`, `.` and blanks.
pub fn kind(name: &str) -> Option<NameKind> {
    let mut words = words(name);
    while words.len() > 1 && words.last().is_some_and(|last| TAILS.contains(&last.as_str()) || is_number(last)) {
        words.pop();
    }
    let last = words.last()?.trim_end_matches(|digit: char| digit.is_ascii_digit()).to_owned();
    let joined = words.concat();
    let joined = joined.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let previous = words.len().checked_sub(2).and_then(|nth| words.get(nth)).map_or("", String::as_str);
    if joined.ends_with("authorization") {
        return Some(NameKind::Authorization);
    }
    if matches!(joined, "cookie" | "setcookie" | "cookies") {
        return Some(NameKind::Cookie);
    }
    if PASSWORDS.iter().any(|end| joined.ends_with(end)) || PASSWORD_WORDS.contains(&last.as_str()) {
        return Some(NameKind::Password);
    }
    if last == "token" && OTHER_TOKENS.contains(&previous) || last == "key" && OTHER_KEYS.contains(&previous) {
        return None;
    }
    if TOKENS.iter().any(|end| joined.ends_with(end)) || TOKEN_WORDS.contains(&last.as_str()) {
        return Some(NameKind::Token);
    }
    if KEY_WORDS.contains(&last.as_str()) || joined.ends_with("sessionid") {
        return Some(NameKind::Key);
    }
    last.ends_with("key")
        .then_some(NameKind::Key)
        .filter(|_| last == "key" || last.len() <= 12 && last != "monkey" && last != "turkey")
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words of a name in lower case, split at separators and capitals.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut was_lower) = (Vec::new(), String::new(), false);
    for character in name.chars() {
        let is_part = character.is_alphanumeric();
        if (!is_part || character.is_uppercase() && was_lower) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_part {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase() || character.is_ascii_digit();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_in_each_spelling() {
        for (kind_of, names) in [
            (
                NameKind::Password,
                "password DB_PASSWORD dbPassword mysql-pwd pgpass PGPASSWORD user.passwd Passphrase password2 PASSWORD_PROD",
            ),
            (
                NameKind::Token,
                "token GITHUB_TOKEN accessToken access-token x-api-key apikey API_KEY client_secret clientSecret SECRET_KEY_BASE",
            ),
            (
                NameKind::Token,
                "private-token aws_secret_access_key _auth _authToken auth sig X-Amz-Signature credentials api_key_2",
            ),
            (NameKind::Key, "key DATADOG_KEY encKey PHPSESSID session_id"),
            (NameKind::Authorization, "Authorization proxy-authorization"),
            (NameKind::Cookie, "Cookie set-cookie"),
        ] {
            for name in names.split(' ') {
                assert_eq!(kind(name), Some(kind_of), "{name}");
            }
        }
        assert_eq!(kind("api key"), Some(NameKind::Token));
    }

    #[test]
    fn a_name_that_only_contains_such_a_word_is_none() {
        let names = "max_tokens token_count password_reset tokenizer key_id public_key primaryKey author authority secret_name next_page_token \
                     keyboard design cookie_policy passed compass sidebar monkey token_type password_hash cache-key inside nextToken";
        for name in names.split_ascii_whitespace() {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
