use base64::prelude::BASE64_URL_SAFE;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://accounts.example.com";
const CLIENT: &str = "attache";
const NONCE: &str = "n-0S6_WzA2Mj";
/// `at_hash` of this one with SHA-256 and SHA-512.
const ACCESS_TOKEN: &str = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
const NOW: i64 = 1_800_000_000;

/// A provider with a key of each curve.
struct Issuer {
    curve: EcdsaKeyPair,
    edwards: Ed25519KeyPair,
    keys: Keys,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let curve = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let curve = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, curve.as_ref(), &random).unwrap();
        let edwards = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
        let keys = Keys::new(vec![ec("one", &curve), okp("two", &edwards), json!({ "kty": "oct", "k": "AAAA" })]);
        Self { curve, edwards, keys }
    }

    /// A token with this header and these claims, signed with the key of the curve.
    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.curve.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", encoded(signature))
    }

    fn verify(&self, token: &str) -> Result<Claims, TokenFault> {
        verify(token, &self.keys, &[Algorithm::RS256, Algorithm::ES256, Algorithm::EdDsa], &expected())
    }

    /// The fault of honest claims that were changed like this.
    fn fault(&self, change: impl FnOnce(&mut Value)) -> TokenFault {
        let mut claims = claims();
        change(&mut claims);
        self.verify(&self.token(&header(), &claims)).unwrap_err()
    }
}

fn ec(kid: &str, pair: &EcdsaKeyPair) -> Value {
    let point = pair.public_key().as_ref();
    json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": encoded(&point[1..33]), "y": encoded(&point[33..]) })
}

fn okp(kid: &str, pair: &Ed25519KeyPair) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": encoded(pair.public_key()) })
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()))
}

fn header() -> Value {
    json!({ "alg": "ES256", "kid": "one" })
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": CLIENT, "exp": NOW + 300, "iat": NOW, "auth_time": NOW - 5, "nonce": NONCE,
        "email": "ada@example.com", "email_verified": true,
    })
}

fn expected() -> Expected<'static> {
    Expected {
        issuer: ISSUER,
        client_id: CLIENT,
        nonce: NONCE,
        access_token: ACCESS_TOKEN,
        age_max: Duration::from_mins(15),
        now: DateTime::from_timestamp_secs(NOW).unwrap(),
    }
}

#[test]
fn an_honest_token_is_accepted() {
    let issuer = Issuer::new();
    let accepted = issuer.verify(&issuer.token(&header(), &claims())).unwrap();
    assert_eq!((accepted.sub.as_str(), accepted.address.email.as_deref()), ("ada", Some("ada@example.com")));
    // With each claim that may be there or not, and times with fractions.
    let mut all = claims();
    all["aud"] = json!([CLIENT]);
    all["azp"] = json!(CLIENT);
    all["nbf"] = json!(f64::from(1_800_000_000) - 0.5);
    all["at_hash"] = json!(Algorithm::ES256.half_hash(ACCESS_TOKEN));
    issuer.verify(&issuer.token(&header(), &all)).unwrap();
    // Without a name of the key: only one key is of this type.
    issuer.verify(&issuer.token(&json!({ "alg": "ES256" }), &claims())).unwrap();
    let message = message(&json!({ "alg": "EdDSA", "kid": "two" }), &claims());
    let signature = encoded(issuer.edwards.sign(message.as_bytes()));
    issuer.verify(&format!("{message}.{signature}")).unwrap();
}

#[test]
fn the_hash_of_an_access_token_is_that_of_the_specification() {
    // OpenID Connect Core, appendix A.3.
    assert_eq!(Algorithm::RS256.half_hash(ACCESS_TOKEN), "77QmUPtjPfzWtF2AnpK9RQ");
}

#[test]
fn a_token_is_signed_with_a_key_pair_or_refused() {
    let issuer = Issuer::new();
    let honest = issuer.token(&header(), &claims());
    let (_, signature) = honest.rsplit_once('.').unwrap();
    // Without a signature, in any spelling.
    for none in ["none", "None", "NONE", ""] {
        let message = message(&json!({ "alg": none, "kid": "one" }), &claims());
        for signature in ["", signature] {
            let fault = issuer.verify(&format!("{message}.{signature}")).unwrap_err();
            assert_eq!(fault, TokenFault::Key(KeyFault::Algorithm), "{none}");
        }
    }
    // The public key, which anyone has, as a key that both sides know.
    let secrets = [issuer.curve.public_key().as_ref().to_vec(), ec("one", &issuer.curve).to_string().into_bytes()];
    for secret in secrets {
        let message = message(&json!({ "alg": "HS256", "kid": "one" }), &claims());
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
        let fault = issuer.verify(&format!("{message}.{}", encoded(tag))).unwrap_err();
        assert_eq!(fault, TokenFault::Key(KeyFault::Algorithm));
    }
    // An algorithm that the provider does not announce.
    let fault = verify(&honest, &issuer.keys, &[Algorithm::RS256], &expected()).unwrap_err();
    assert_eq!(fault, TokenFault::Key(KeyFault::Algorithm));
    // An algorithm for another type of key than the one that is named.
    for alg in ["RS256", "EdDSA"] {
        let fault = issuer.verify(&issuer.token(&json!({ "alg": alg, "kid": "one" }), &claims())).unwrap_err();
        assert_eq!(fault, TokenFault::Key(KeyFault::Unknown), "{alg}");
    }
}

#[test]
fn a_token_is_verified_with_the_key_that_it_names() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let fault = |token: &str| issuer.verify(token).unwrap_err();
    assert_eq!(fault(&other.token(&header(), &claims())), TokenFault::Key(KeyFault::Signature));
    let unknown = json!({ "alg": "ES256", "kid": "three" });
    assert_eq!(fault(&issuer.token(&unknown, &claims())), TokenFault::Key(KeyFault::Unknown));
    // Two keys of the type, and none is named; a key for encryption, and one for another algorithm.
    let with = |changed: &[(&str, &str)]| {
        let mut key = ec("four", &other.curve);
        for (name, value) in changed {
            key[name] = json!(value);
        }
        Keys::new(vec![ec("one", &issuer.curve), key])
    };
    let unnamed = issuer.token(&json!({ "alg": "ES256" }), &claims());
    let accepted = |keys: &Keys| verify(&unnamed, keys, &[Algorithm::ES256], &expected());
    assert_eq!(accepted(&with(&[])).unwrap_err(), TokenFault::Key(KeyFault::Ambiguous));
    accepted(&with(&[("use", "enc")])).unwrap();
    accepted(&with(&[("alg", "ES384")])).unwrap();
    // A changed claim, a cut signature, an extension, and other forms of a token.
    let honest = issuer.token(&header(), &claims());
    let (message, signature) = honest.rsplit_once('.').unwrap();
    let (start, _) = message.split_once('.').unwrap();
    let mut changed = claims();
    changed["sub"] = json!("eve");
    let forged = format!("{start}.{}.{signature}", encoded(changed.to_string()));
    assert_eq!(fault(&forged), TokenFault::Key(KeyFault::Signature));
    let cut = encoded(&BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap()[..60]);
    assert_eq!(fault(&format!("{message}.{cut}")), TokenFault::Key(KeyFault::Signature));
    let critical = issuer.token(&json!({ "alg": "ES256", "kid": "one", "crit": ["exp"], "exp": 1 }), &claims());
    assert!(matches!(fault(&critical), TokenFault::Claim(_)));
    for form in ["", ".", "..", "a.b", &format!("{honest}."), &format!("{honest}.a.b")] {
        issuer.verify(form).unwrap_err();
    }
    let padded = format!("{message}.{}", BASE64_URL_SAFE.encode(BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap()));
    assert_eq!(fault(&padded), TokenFault::Malformed);
}

#[test]
fn every_claim_is_checked() {
    let issuer = Issuer::new();
    let changes: [(&str, Value); 22] = [
        ("iss", json!("https://accounts.example.com/")),
        ("iss", json!("https://evil.example.com")),
        ("aud", json!("another")),
        ("aud", json!([])),
        ("aud", json!([CLIENT, "another"])),
        ("azp", json!("another")),
        ("exp", json!(NOW - 61)),
        ("exp", Value::Null),
        ("iat", json!(NOW + 61)),
        ("iat", Value::Null),
        ("iat", json!(-1)),
        ("nbf", json!(NOW + 61)),
        ("nonce", json!("another")),
        ("nonce", Value::Null),
        ("at_hash", json!(Algorithm::ES256.half_hash("another"))),
        ("at_hash", json!("")),
        ("sub", json!("")),
        ("sub", Value::Null),
        ("auth_time", Value::Null),
        ("auth_time", json!(NOW - 15 * 60 - 61)),
        ("auth_time", json!(NOW + 61)),
        ("exp", json!(1e300)),
    ];
    for (name, value) in changes {
        let fault = issuer.fault(|claims| claims[name] = value.clone());
        assert!(matches!(fault, TokenFault::Claim(_) | TokenFault::Unreadable), "{name}: {value}: {fault}");
    }
    // Several audiences with the client as authorized party: the others are not trusted either.
    let several = issuer.fault(|claims| {
        claims["aud"] = json!([CLIENT, "another"]);
        claims["azp"] = json!(CLIENT);
    });
    assert!(matches!(several, TokenFault::Claim(_)));
    // Clocks differ by a minute.
    for (name, value) in [("exp", NOW - 60), ("iat", NOW + 60), ("nbf", NOW + 60), ("auth_time", NOW - 15 * 60 - 60)] {
        let mut claims = claims();
        claims[name] = json!(value);
        issuer.verify(&issuer.token(&header(), &claims)).unwrap();
    }
}
