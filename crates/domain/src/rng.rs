//! Randomness as a value: identifiers, secrets and jitter come from an [`Rng`] that tests can seed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt, SeedableRng};
use uuid::Uuid;

use crate::Timestamp;

/// A source of random numbers. Clones share it.
///
/// The generator is cryptographic (`StdRng`), and seeded once by the operating system.
#[derive(Clone)]
pub struct Rng(Arc<Mutex<StdRng>>);

impl Rng {
    /// A generator seeded by the operating system, as a server requires.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one door to the system's randomness")]
        Self(Arc::new(Mutex::new(StdRng::from_rng(&mut rand::rng()))))
    }

    /// A repeatable generator, for tests and load generators.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// `N` uniformly random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.with(|rng| rng.fill_bytes(&mut bytes));
        bytes
    }

    /// A uniformly distributed number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.with(|rng| rng.random_range(0..bound)) }
    }

    /// A number in `[0, 1)`, for jitter.
    pub fn fraction(&self) -> f64 {
        self.with(RngExt::random)
    }

    /// A UUIDv7 with the timestamp `now`; 0 for a time before 1970, which the format cannot represent.
    pub fn uuid_v7(&self, now: Timestamp) -> Uuid {
        let millis = u64::try_from(now.timestamp_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid()
    }

    /// A text in the form of a CUID2: a letter and 23 letters or digits.
    pub fn cuid2(&self) -> String {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        self.with(|rng| {
            let mut pick = |size: usize| char::from(ALPHABET[rng.random_range(0..size)]);
            std::iter::once(pick(26)).chain(std::iter::repeat_with(|| pick(36)).take(23)).collect()
        })
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        // After a panic under the lock, the generator is as random as before.
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{EventId, UserCuid};

    #[test]
    fn made_identifiers_pass_their_own_parsers() {
        let rng = Rng::seeded(1);
        for _ in 0..100 {
            let uuid = rng.uuid_v7(Timestamp::UNIX_EPOCH).to_string();
            assert_eq!(uuid.parse::<EventId>().unwrap().to_string(), uuid);
            assert!(rng.cuid2().parse::<UserCuid>().is_ok());
        }
    }

    #[test]
    fn equal_seeds_draw_equal_numbers() {
        assert_eq!(Rng::seeded(7).bytes::<32>(), Rng::seeded(7).bytes::<32>());
        assert_ne!(Rng::seeded(7).bytes::<32>(), Rng::seeded(8).bytes::<32>());
    }
}
